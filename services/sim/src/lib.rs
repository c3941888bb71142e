//! A small simulated world on loopback: the stand-in for the outside systems in development, demo and tests.
//!
//! [`start`] gives a [`Sim`]: one [`World`] in memory, seen through a NetBox 4.7 HTTP face and, per site, a SLURM REST face (22.05.8 or
//! 24.11.5). Seeded people drain, break, mend and edit; faults can be set at any time. The answers have the shapes recorded from the real
//! programs (`tests/fixtures`), their traps included: the shapes live as text in `netbox/shapes` and `slurm/shapes`.
//!
//! What it is not: it knows SLURM's jobs only as allocated CPUs, has no GraphQL, no webhooks and no interfaces.

mod http;
mod netbox;
mod people;
mod shape;
mod sim;
mod slurm;
mod staff;
mod world;

pub use sim::{Face, Options, Sim, SiteFace, start};
pub use staff::{Plan, PlanAction, PlanSource};
pub use world::{Bulk, Device, NetboxFault, NewDevice, Request, SlurmFault, SlurmNode, World};
