//! A typed body inside an envelope: its type, the schema it was written with, its bytes.

use crate::{AvroType, Record, SchemaBuilder, codec, ids::FixedBytes, ids::fixed, registry};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::fmt;

/// CRC-64-AVRO of a schema's canonical form, as in Avro's single-object encoding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_bytes(FixedBytes::<8>).map(Self)
    }
}

impl AvroType for Fingerprint {
    fn schema(b: &mut SchemaBuilder) -> Value {
        fixed(b, "SchemaFingerprint", 8)
    }
}

record! {
    /// A typed body: the record's name, the fingerprint of the schema that wrote it, the Avro datum without header.
    pub struct Payload {
        /// Record name without namespace, e.g. `PhaseChanged`.
        r#type: String,
        /// CRC-64-AVRO of the writer's schema; the schema itself is `published/<fingerprint>.avsc`.
        schema: Fingerprint,
        /// The Avro datum.
        bytes: serde_bytes::ByteBuf,
    }
}

impl Payload {
    /// Encodes `record` under today's schema of its type.
    pub fn of<T: Record>(record: &T) -> Self {
        let schema = registry::current::<T>();
        Self { r#type: T::NAME.into(), schema: schema.fingerprint, bytes: codec::datum(record, schema).into() }
    }

    /// Decodes under the schema it was written with.
    pub fn decode<T: Record>(&self) -> Result<T, codec::DecodeError> {
        let writer = registry::published(self.schema).ok_or(codec::DecodeError::UnknownSchema(self.schema))?;
        codec::from_datum(&self.bytes, writer)
    }
}

/// Declares a closed family of record types that travel as [`Payload`]s: an enum with one variant per record.
macro_rules! payloads {
    ($(#[doc = $doc:literal])+ pub enum $name:ident { $($record:ident),* $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name { $(#[doc = concat!("[`", stringify!($record), "`]")] $record($record),)* }
        impl $name {
            /// Names of the records of this family.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($record)),*];
            /// The record's name.
            pub fn name(&self) -> &'static str { match self { $(Self::$record(_) => stringify!($record),)* } }
            /// The record as a payload.
            pub fn encode(&self) -> $crate::Payload { match self { $(Self::$record(r) => $crate::Payload::of(r),)* } }
            /// A payload as a record of this family.
            pub fn decode(payload: &$crate::Payload) -> Result<Self, $crate::DecodeError> {
                match payload.r#type.as_str() {
                    $(stringify!($record) => payload.decode().map(Self::$record),)*
                    other => Err($crate::DecodeError::UnknownType(other.into())),
                }
            }
        }
        $(impl From<$record> for $name { fn from(r: $record) -> Self { Self::$record(r) } })*
    };
}
