//! Avro single-object encoding (marker `C3 01`, fingerprint, datum): typed on both sides, never through a generic value.

use crate::{Fingerprint, Record, registry, registry::Published};

const MARKER: [u8; 2] = [0xC3, 0x01];

/// Why bytes are not the record that was expected.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// No single-object header.
    #[error("not an Avro single object: the first two bytes are not C3 01")]
    NotSingleObject,
    /// A schema that this build does not carry.
    #[error("unknown schema {0}: this build has no published/{0}.avsc; a newer program wrote it")]
    UnknownSchema(Fingerprint),
    /// A record of another type than expected.
    #[error("a {found} where a {expected} was expected")]
    WrongType {
        /// What was asked for.
        expected: &'static str,
        /// What the header names.
        found: String,
    },
    /// A payload type that this build does not know.
    #[error("unknown record type {0}")]
    UnknownType(String),
    /// The bytes do not follow their schema.
    #[error("{name}: {reason}")]
    Malformed {
        /// The record.
        name: String,
        /// What the decoder said.
        reason: String,
    },
}

/// The fingerprint in a single object's header.
pub fn fingerprint_of(bytes: &[u8]) -> Result<Fingerprint, DecodeError> {
    let header: [u8; 10] = bytes.get(..10).and_then(|h| h.try_into().ok()).ok_or(DecodeError::NotSingleObject)?;
    if header[..2] != MARKER {
        return Err(DecodeError::NotSingleObject);
    }
    let mut fingerprint = [0; 8];
    fingerprint.copy_from_slice(&header[2..]);
    Ok(Fingerprint(fingerprint))
}

/// `record` as a single object under today's schema of its type.
pub fn encode<T: Record>(record: &T) -> Vec<u8> {
    let schema = registry::current::<T>();
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&MARKER);
    out.extend_from_slice(&schema.fingerprint.0);
    write_datum(record, schema, out)
}

/// A single object as `T`, read with the schema it was written with.
pub fn decode<T: Record>(bytes: &[u8]) -> Result<T, DecodeError> {
    let fingerprint = fingerprint_of(bytes)?;
    let writer = registry::published(fingerprint).ok_or(DecodeError::UnknownSchema(fingerprint))?;
    from_datum(&bytes[10..], writer)
}

pub(crate) fn datum<T: Record>(record: &T, schema: &'static Published) -> Vec<u8> {
    write_datum(record, schema, Vec::with_capacity(128))
}

/// A record fits the schema that was generated from its own declaration; numbers above `i64::MAX` are refused where they come in.
fn write_datum<T: Record>(record: &T, schema: &'static Published, out: Vec<u8>) -> Vec<u8> {
    let mut config = serde_avro_fast::ser::SerializerConfig::new(&schema.schema);
    match serde_avro_fast::to_datum(record, out, &mut config) {
        Ok(out) => out,
        Err(e) => unreachable!("{} does not fit its own schema: {e}", T::NAME),
    }
}

pub(crate) fn from_datum<T: Record>(bytes: &[u8], writer: &Published) -> Result<T, DecodeError> {
    if writer.name != T::NAME {
        return Err(DecodeError::WrongType { expected: T::NAME, found: writer.name.clone() });
    }
    serde_avro_fast::from_datum_slice(bytes, &writer.schema)
        .map_err(|e| DecodeError::Malformed { name: writer.name.clone(), reason: e.to_string() })
}
