//! Streams (one entity's decisions) and the partition each lives in.

use crate::{AvroType, DeviceId, RoleName, SchemaBuilder, SiteId, topics};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use std::{fmt, str::FromStr};

/// One stream. Its text form `<kind>/<id>` is the key of every record that concerns it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// `device/<uuid>`
    Device(DeviceId),
    /// `site/<name>`: a reference stream, in partition 0.
    Site(SiteId),
    /// `bootstrap-config/<site>/<role>`: a reference stream as well.
    BootstrapConfig(SiteId, RoleName),
}

impl StreamId {
    /// The partition of this stream in a topic of `partitions` partitions: 0 for reference streams, else by murmur2 over the rest.
    pub fn partition(&self, partitions: u32) -> u32 {
        match self {
            Self::Site(_) | Self::BootstrapConfig(..) => 0,
            Self::Device(_) => topics::partition(self.to_string().as_bytes(), partitions),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(id) => write!(f, "device/{id}"),
            Self::Site(id) => write!(f, "site/{id}"),
            Self::BootstrapConfig(site, role) => write!(f, "bootstrap-config/{site}/{role}"),
        }
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no stream.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no stream: expected device/<uuid>, site/<name> or bootstrap-config/<site>/<role>")]
pub struct BadStreamId(String);

impl FromStr for StreamId {
    type Err = BadStreamId;
    fn from_str(s: &str) -> Result<Self, BadStreamId> {
        let bad = || BadStreamId(s.chars().take(80).collect());
        match s.split_once('/') {
            Some(("device", id)) => id.parse().map(Self::Device).map_err(|_| bad()),
            Some(("site", id)) => id.parse().map(Self::Site).map_err(|_| bad()),
            Some(("bootstrap-config", id)) => {
                let (site, role) = id.split_once('/').ok_or_else(bad)?;
                Ok(Self::BootstrapConfig(site.parse().map_err(|_| bad())?, role.parse().map_err(|_| bad())?))
            }
            _ => Err(bad()),
        }
    }
}

impl Serialize for StreamId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StreamId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'de, str>::deserialize(d)?.parse().map_err(de::Error::custom)
    }
}

impl AvroType for StreamId {
    fn schema(_: &mut SchemaBuilder) -> Value {
        json!("string")
    }
}
