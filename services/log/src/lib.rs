//! The log: the [`EventLog`] port with its promises, the suite that every provider must pass ([`conformance`]), the providers
//! ([`sqlite`] embedded, [`kafka`] in production) and a wrapper that injects faults ([`Unreliable`]). Bytes and offsets only; no domain word.

pub mod conformance;
pub mod kafka;
mod port;
pub mod sqlite;
mod unreliable;

pub use port::{
    AppendError, Cleanup, Durability, Error, EventLog, Fut, Item, Offset, Public, Publish, ReadError, ReadFault, Reader, Record, Stored,
    TopicPartition, TopicSpec,
};
pub use unreliable::{Faults, Unreliable};
