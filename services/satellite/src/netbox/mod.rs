//! NetBox: the source of truth for inventory. [`Agent`] polls the change feed each look and sweeps everything from time to time. The law is
//! knowledge/netbox.md; rule numbers refer to its section 4.
//!
//! `client` asks, `row` reads a device, `identity` judges what it can be known by, `feed` is the change feed, `round` is one look,
//! `state` is what is remembered. Only `client`, `feed`, `round` and `agent` do I/O.

mod agent;
mod client;
mod doctor;
mod feed;
mod hint;
mod identity;
mod round;
mod row;
mod state;

pub use agent::{Agent, Settings};
pub(crate) use client::refusal;
pub use hint::{BadHint, Hint, Hints, SIGNATURE};
pub(crate) use identity::{conditions, conflicts};
pub(crate) use row::Row;
pub use row::SlurmLink;
