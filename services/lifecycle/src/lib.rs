//! What the fleet decides: the lifecycle as a table ([`edges`]), the deciders of device, site, bootstrap configuration, exclusive name and unclaimed thing, and what
//! people are told about a device ([`why`], [`baseline`]). Synchronous, total, deterministic: time, ids and look-ups enter as arguments.
//!
//! [`Fleet`] is the one [`Decider`]; its state is an [`Entity`].

pub mod baseline;
pub mod bootstrap;
mod conditions;
mod decider;
pub mod device;
pub mod edges;
pub mod exclusive;
mod fleet;
pub mod guards;
mod reaction;
mod reference;
mod refusal;
pub mod site;
pub mod unclaimed;
pub mod why;
mod wrong_stream;

pub use conditions::{ConditionType, EXTERNAL, KnownType, Sense, condition_type, condition_types};
pub use decider::{Context, Decider, Observed, Request, Sighting, Wait};
pub use device::Device;
pub use exclusive::Exclusive;
pub use fleet::{Entity, Fleet};
pub use reaction::Reaction;
pub use reference::Reference;
pub use refusal::Refusal;
pub use site::Site;
pub use unclaimed::Unclaimed;
