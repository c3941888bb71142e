//! What runs at a site: one folder per outside system, and what they share.
//!
//! An [`Agent`] looks at a system and gives a [`Sweep`]; [`run`] makes it look again and again and puts what it saw into the [`Outbox`];
//! [`drain`] hands that over to the hub, which is a [`Sink`] here, and a [`hub::Client`] over the wire. [`slurm`] and [`netbox`] are the systems: a client that asks, pure
//! functions that translate, an agent. [`translate_file()`] translates a recorded answer for people.
//!
//! Only GET is sent to an outside system. An error never becomes a statement about a device.

mod agent;
mod check;
mod devices;
mod error;
mod http;
pub mod hub;
pub mod netbox;
mod outbox;
mod runner;
pub mod slurm;
mod translate_file;

pub use agent::{Agent, Clock, Complete, Look, Memory, MemoryChanges, Seen, Sweep, SystemClock};
pub use check::Check;
pub use devices::{DeviceList, ListedDevice};
pub use error::{ClientError, ErrorClass};
pub use netbox::SlurmLink;
pub use outbox::{Outbox, OutboxError};
pub use runner::{Fut, LaneSpec, RunError, SendError, Settings, Sink, drain, run};
pub use translate_file::{FileOptions, translate_file};
