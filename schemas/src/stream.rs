//! Streams (one entity's decisions) and the partition each lives in.

use crate::{AvroType, DeviceId, ExclusiveKind, RoleName, SchemaBuilder, SiteId, Source, exclusive::usable, topics};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use std::{fmt, str::FromStr, sync::Arc};

/// One stream. Its text form `<kind>/<id>` is the key of every record that concerns it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamId {
    /// `device/<uuid>`
    Device(DeviceId),
    /// `site/<name>`: a reference stream, in partition 0.
    Site(SiteId),
    /// `bootstrap-config/<site>/<role>`: a reference stream as well.
    BootstrapConfig(SiteId, RoleName),
    /// `exclusive/<kind>/<value>`: whose a name is that only one device may have.
    Exclusive {
        /// What kind of name.
        kind: ExclusiveKind,
        /// The name.
        value: Arc<str>,
    },
    /// `unclaimed/<site>/<source>/<native id>`: a thing that a source shows and no device claims.
    Unclaimed {
        /// Where it was seen.
        site: SiteId,
        /// What shows it.
        source: Source,
        /// Its own id there.
        native_id: Arc<str>,
    },
}

impl StreamId {
    /// The partition of this stream in a topic of `partitions` partitions: 0 for reference streams, else by murmur2 over the rest.
    pub fn partition(&self, partitions: u32) -> u32 {
        match self {
            Self::Site(_) | Self::BootstrapConfig(..) => 0,
            Self::Device(_) | Self::Exclusive { .. } | Self::Unclaimed { .. } => topics::partition(self.to_string().as_bytes(), partitions),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(id) => write!(f, "device/{id}"),
            Self::Site(id) => write!(f, "site/{id}"),
            Self::BootstrapConfig(site, role) => write!(f, "bootstrap-config/{site}/{role}"),
            Self::Exclusive { kind, value } => write!(f, "exclusive/{kind}/{value}"),
            Self::Unclaimed { site, source, native_id } => write!(f, "unclaimed/{site}/{source}/{native_id}"),
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
#[error(
    "`{0}` is no stream: expected device/<uuid>, site/<name>, bootstrap-config/<site>/<role>, exclusive/<kind>/<value> or unclaimed/<site>/<source>/<native id>"
)]
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
            Some(("exclusive", id)) => {
                let (kind, value) = id.split_once('/').filter(|(_, value)| usable(value)).ok_or_else(bad)?;
                Ok(Self::Exclusive { kind: kind.parse().map_err(|_| bad())?, value: value.into() })
            }
            Some(("unclaimed", id)) => {
                let mut parts = id.splitn(3, '/');
                let (Some(site), Some(source), Some(thing)) = (parts.next(), parts.next(), parts.next()) else { return Err(bad()) };
                let native_id = Some(thing).filter(|t| usable(t)).ok_or_else(bad)?.into();
                Ok(Self::Unclaimed { site: site.parse().map_err(|_| bad())?, source: source.parse().map_err(|_| bad())?, native_id })
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
