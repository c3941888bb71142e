//! The agents against recorded answers and against the simulator, the outbox and the runner against a pretended hub.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops, and says where")]

mod apart;
mod faulty;
mod fixtures;
mod harness;
mod hint;
mod http;
mod hub;
mod netbox;
mod outbox;
mod runner;
mod slurm;
