//! The agents against recorded answers and against the simulator, the outbox and the runner against a pretended hub.

mod fixtures;
mod harness;
mod http;
mod netbox;
mod outbox;
mod runner;
mod slurm;
