//! The simulator against the recorded answers of the real programs, and against its own promises.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops, and says where")]

mod faults;
mod harness;
mod life;
mod netbox;
mod shapes;
mod slurm;
