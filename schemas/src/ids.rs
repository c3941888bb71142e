//! Typed ids. On the wire an id is 16 bytes (Avro `fixed`), for people it is the usual hyphenated text.

use crate::{AvroType, SchemaBuilder};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Value, json};
use std::{fmt, str::FromStr, sync::Arc};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Uuid);
        impl fmt::Display for $name { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { self.0.fmt(f) } }
        impl fmt::Debug for $name { fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { fmt::Display::fmt(&self.0, f) } }
        impl FromStr for $name { type Err = uuid::Error; fn from_str(s: &str) -> Result<Self, uuid::Error> { s.parse().map(Self) } }
        impl Serialize for $name { fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.serialize_bytes(self.0.as_bytes()) } }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_bytes(FixedBytes::<16>).map(|b| Self(Uuid::from_bytes(b)))
            }
        }
        impl AvroType for $name { fn schema(b: &mut SchemaBuilder) -> Value { fixed(b, "Uuid", 16) } }
    )* };
}

ids! {
    /// A device: uuid5 of our namespace and `netbox/<instance>/<NetBox id>`, so that whoever sees the record first computes the same.
    DeviceId;
    /// One journal record that is a decision.
    DecisionId;
    /// A request; repeats of it carry the same id.
    CommandId;
    /// One observation.
    ObservationId;
    /// A command's progress as people see it: uuid5 of the decision that started it.
    OperationId;
    /// A work order to a site: uuid5 of the decision that planned it.
    TaskId;
    /// One journal, from its Genesis on.
    JournalId;
    /// One start of a process (and one state reset within it).
    BootId;
    /// A key in the vault.
    VaultKeyId;
}

/// Namespace of every uuid5 that we derive.
pub const NAMESPACE: Uuid = Uuid::from_u128(0x6f0c_2a55_7b1e_4c7e_9d0a_3f51_6b8e_24d1);

impl DeviceId {
    /// The id of the device that is record `netbox_id` of NetBox `instance`.
    pub fn from_netbox(instance: &str, netbox_id: i64) -> Self {
        Self(Uuid::new_v5(&NAMESPACE, format!("netbox/{instance}/{netbox_id}").as_bytes()))
    }
}

impl CommandId {
    /// The `i`-th reaction to `decision`.
    pub fn reaction(decision: DecisionId, i: u32) -> Self {
        Self(Uuid::new_v5(&decision.0, format!("reaction/{i}").as_bytes()))
    }
}

impl OperationId {
    /// The `i`-th operation that `decision` starts.
    pub fn of(decision: DecisionId, i: usize) -> Self {
        Self(Uuid::new_v5(&decision.0, format!("operation/{i}").as_bytes()))
    }
}

impl TaskId {
    /// The `i`-th task that `decision` plans.
    pub fn of(decision: DecisionId, i: usize) -> Self {
        Self(Uuid::new_v5(&decision.0, format!("task/{i}").as_bytes()))
    }
}

/// SHA-256 of a journal record's exact wire bytes; zero before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest;
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_bytes(FixedBytes::<32>).map(Self)
    }
}

impl AvroType for Hash {
    fn schema(b: &mut SchemaBuilder) -> Value {
        fixed(b, "Sha256", 32)
    }
}

/// A site's short name (`lhr1`), never a uuid: lower-case letters, digits and hyphens, 1 to 32 of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SiteId(pub Arc<str>);

impl SiteId {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no site name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a site name: 1 to 32 lower-case letters, digits and hyphens")]
pub struct BadSiteId(pub String);

impl FromStr for SiteId {
    type Err = BadSiteId;
    fn from_str(s: &str) -> Result<Self, BadSiteId> {
        let ok = (1..=32).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if ok { Ok(Self(s.into())) } else { Err(BadSiteId(s.chars().take(64).collect())) }
    }
}

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AvroType for SiteId {
    fn schema(b: &mut SchemaBuilder) -> Value {
        <Arc<str>>::schema(b)
    }
}

pub(crate) fn fixed(builder: &mut SchemaBuilder, name: &'static str, size: usize) -> Value {
    builder.named(name, |_| json!({"type": "fixed", "name": name, "namespace": crate::avro::NAMESPACE, "size": size}))
}

/// Reads exactly `N` bytes.
pub(crate) struct FixedBytes<const N: usize>;

impl<'de, const N: usize> de::Visitor<'de> for FixedBytes<N> {
    type Value = [u8; N];
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{N} bytes")
    }
    fn visit_bytes<E: de::Error>(self, v: &[u8]) -> Result<[u8; N], E> {
        v.try_into().map_err(|_| E::invalid_length(v.len(), &self))
    }
}
