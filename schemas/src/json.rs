//! A payload as JSON for people: ids as text, times as RFC 3339. Driven by the schema, so it also reads types this build has no struct for.

use crate::{DecodeError, Payload, Timestamp, registry};
use apache_avro::types::Value as Avro;
use serde_json::{Map, Value, json};

/// The fields of `payload`, with its type under `type`.
pub fn payload_to_json(payload: &Payload) -> Result<Value, DecodeError> {
    let malformed = |reason: String| DecodeError::Malformed { name: payload.r#type.clone(), reason };
    let published = registry::published(payload.schema).ok_or(DecodeError::UnknownSchema(payload.schema))?;
    let schema = apache_avro::Schema::parse_str(&published.text).map_err(|e| malformed(e.to_string()))?;
    let value = apache_avro::reader::datum::GenericDatumReader::builder(&schema)
        .build()
        .and_then(|r| r.read_value(&mut payload.bytes.as_slice()))
        .map_err(|e| malformed(e.to_string()))?;
    let mut map = Map::from_iter([("type".to_owned(), json!(payload.r#type))]);
    if let Avro::Record(fields) = value {
        map.extend(fields.into_iter().map(|(name, value)| (if name == "type" { "kind".into() } else { name }, plain(value))));
    }
    Ok(Value::Object(map))
}

fn plain(value: Avro) -> Value {
    match value {
        Avro::Record(fields) => Value::Object(fields.into_iter().map(|(k, v)| (k, plain(v))).collect()),
        Avro::Array(items) => items.into_iter().map(plain).collect(),
        Avro::Map(items) => Value::Object(items.into_iter().map(|(k, v)| (k, plain(v))).collect()),
        Avro::Union(_, inner) => plain(*inner),
        Avro::Null => Value::Null,
        Avro::Boolean(b) => json!(b),
        Avro::Int(i) => json!(i),
        Avro::Long(i) => json!(i),
        Avro::Double(f) => json!(f),
        Avro::String(s) => json!(s),
        Avro::TimestampMicros(t) => json!(Timestamp(t).to_string()),
        Avro::Fixed(16, b) => uuid::Uuid::from_slice(&b).map_or(Value::Null, |u| json!(u.to_string())),
        Avro::Fixed(_, b) | Avro::Bytes(b) => json!(b.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        other => json!(format!("{other:?}")),
    }
}
