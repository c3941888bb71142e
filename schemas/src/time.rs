//! Instants and spans, in microseconds. Nothing here reads a clock: time enters as an argument.

use crate::{AvroType, SchemaBuilder};
use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{fmt, str::FromStr};

/// A span in microseconds.
pub type Micros = i64;
/// One second.
pub const SECOND: Micros = 1_000_000;
/// One minute.
pub const MINUTE: Micros = 60 * SECOND;
/// One hour.
pub const HOUR: Micros = 60 * MINUTE;
/// One day of 24 hours.
pub const DAY: Micros = 24 * HOUR;

/// An instant: microseconds since 1970-01-01T00:00:00Z. Shown as RFC 3339 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This instant moved by a span.
    pub fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span))
    }
    /// The span from `earlier` to this instant; negative when `earlier` is later.
    pub fn since(self, earlier: Self) -> Micros {
        self.0.saturating_sub(earlier.0)
    }
    /// From whole seconds since 1970, as SLURM gives them.
    pub fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::<Utc>::from_timestamp_micros(self.0) {
            Some(t) => f.write_str(&t.to_rfc3339_opts(SecondsFormat::Micros, true)),
            None => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = chrono::ParseError;
    fn from_str(s: &str) -> Result<Self, chrono::ParseError> {
        DateTime::parse_from_rfc3339(s).map(|t| Self(t.timestamp_micros()))
    }
}

impl AvroType for Timestamp {
    fn schema(_: &mut SchemaBuilder) -> Value {
        json!({"type": "long", "logicalType": "timestamp-micros"})
    }
}
