//! The hub, over HTTPS: what a satellite's lanes hand their observations to. One [`Client`] per roster client, each with its own key.

mod client;
mod slurm;
mod token;

pub use client::{Client, Settings};
