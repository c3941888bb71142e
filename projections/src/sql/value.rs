//! A value as the program has it; each database stores it as what it is there.

use fleet_schemas::Timestamp;
use uuid::Uuid;

/// What a column holds. PostgreSQL: bigint, boolean, text, bytea, uuid, timestamptz, jsonb, text[]. SQLite has times as microseconds,
/// ids as 16 bytes, truth as 0 and 1, and the last two as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Bool,
    Text,
    Bytes,
    Uuid,
    Time,
    Json,
    Words,
}

/// A value; in key order where it is one of a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    /// Nothing, in a column of this table alone: by itself it has no type.
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    Uuid(Uuid),
    Time(Timestamp),
    /// JSON, as text.
    Json(String),
    Words(Vec<String>),
    /// Several of one kind, for `= ANY`: PostgreSQL alone.
    Many(Vec<Value>),
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<u32> for Value {
    fn from(n: u32) -> Self {
        Self::Int(n.into())
    }
}

/// Offsets and versions; none comes near the end of what is stored.
impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<Uuid> for Value {
    fn from(id: Uuid) -> Self {
        Self::Uuid(id)
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        Self::Time(at)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
