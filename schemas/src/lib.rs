//! The vocabulary that every other crate shares: typed ids, records (observations, commands, events, decisions), the
//! Avro contracts generated from them, and the codec.
//!
//! A record is declared once, with [`record!`]; from that declaration come the Rust type, its Avro schema
//! (`avro/<kind>/<Name>.avsc`, written and checked by `tests/contracts.rs`) and its place in the [`registry`].
//! Nothing here does I/O.

#[macro_use]
mod avro;
#[macro_use]
mod payload;
mod annotation;
mod bootstrap;
mod codec;
mod command;
mod event;
mod exclusive;
mod fact;
mod ids;
mod journal;
mod json;
mod lease;
mod public;
pub mod registry;
mod site;
mod stream;
mod time;
pub mod topics;
pub mod verbs;
mod way;
pub mod wire;
mod words;

pub use annotation::*;
pub use avro::{AvroType, Record, SchemaBuilder};
pub use bootstrap::*;
pub use codec::{DecodeError, decode, encode, fingerprint_of};
pub use command::*;
pub use event::*;
pub use exclusive::{
    ClaimsChanged, Contested, ExclusiveContested, ExclusiveEvent, ExclusiveGranted, ExclusiveName, GiveBack, GivenBack, GrantChanged,
    Granted, Notice, Take, UnclaimedClosed, UnclaimedEvent, UnclaimedOpened, UnclaimedSeen, real_serial,
};
pub use fact::*;
pub use ids::*;
pub use journal::*;
pub use json::payload_to_json;
pub use lease::{Lease, Led};
pub use payload::{Fingerprint, Payload};
pub use public::*;
pub use site::*;
pub use stream::StreamId;
pub use time::{DAY, HOUR, MINUTE, Micros, SECOND, Timestamp};
pub use way::{plain_url, safe_way};
pub use words::*;
