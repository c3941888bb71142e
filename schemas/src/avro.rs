//! How a Rust declaration becomes an Avro schema. [`record!`] is the one thing to use.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Namespace of every named Avro type.
pub(crate) const NAMESPACE: &str = "fm.v1";

/// Collects the named types already written out in one schema: Avro wants each defined once and referred to by name after.
#[derive(Default)]
pub struct SchemaBuilder {
    defined: BTreeSet<&'static str>,
}

impl SchemaBuilder {
    /// `definition` the first time `name` is met in this schema, the bare name afterwards.
    pub fn named(&mut self, name: &'static str, definition: impl FnOnce(&mut Self) -> Value) -> Value {
        if self.defined.insert(name) { definition(self) } else { json!(format!("{NAMESPACE}.{name}")) }
    }
}

/// A type that has an Avro form.
pub trait AvroType {
    /// The schema of this type inside the schema under construction.
    fn schema(builder: &mut SchemaBuilder) -> Value;
    /// The JSON default a field of this type has in the schema; `None` = required.
    fn field_default() -> Option<Value> {
        None
    }
    /// The words that a text of this type may be, where they are closed today; they are added to the field's `doc`.
    fn words() -> Option<String> {
        None
    }
}

/// A top-level Avro record: something that stands in a topic, or in a [`crate::Payload`].
pub trait Record: AvroType + Serialize + DeserializeOwned + 'static {
    /// Record name, without namespace.
    const NAME: &'static str;
    /// Folder under `avro/`: `journal`, `event`, `command`, `observation`.
    const KIND: &'static str;
}

macro_rules! primitives {
    ($($t:ty => $schema:expr),* $(,)?) => { $(impl AvroType for $t {
        fn schema(_: &mut SchemaBuilder) -> Value { $schema }
    })* };
}
primitives! {
    String => json!("string"), std::sync::Arc<str> => json!("string"), bool => json!("boolean"), f64 => json!("double"),
    i64 => json!("long"), u64 => json!("long"), u32 => json!("long"), i32 => json!("int"), serde_bytes::ByteBuf => json!("bytes"),
}

impl<T: AvroType> AvroType for Option<T> {
    fn schema(builder: &mut SchemaBuilder) -> Value {
        json!(["null", T::schema(builder)])
    }
    fn field_default() -> Option<Value> {
        Some(Value::Null)
    }
    fn words() -> Option<String> {
        T::words()
    }
}

impl<T: AvroType> AvroType for Vec<T> {
    fn schema(builder: &mut SchemaBuilder) -> Value {
        json!({"type": "array", "items": T::schema(builder)})
    }
    fn field_default() -> Option<Value> {
        Some(json!([]))
    }
    fn words() -> Option<String> {
        T::words()
    }
}

impl<T: AvroType> AvroType for Box<T> {
    fn schema(builder: &mut SchemaBuilder) -> Value {
        T::schema(builder)
    }
}

/// One field of a record schema. Used by [`record!`].
pub(crate) fn field<T: AvroType>(builder: &mut SchemaBuilder, name: &str, doc: &str) -> Value {
    let doc = T::words().map_or(doc.trim().to_owned(), |words| format!("{} Words: {words}.", doc.trim()));
    let mut field = json!({"name": name, "doc": doc, "type": T::schema(builder)});
    if let (Some(default), Some(map)) = (T::field_default(), field.as_object_mut()) {
        map.insert("default".into(), default);
    }
    field
}

/// Declares a record or a nested struct: the Rust type and its Avro schema from one text.
///
/// `pub struct Name in "kind" { .. }` is a top-level [`Record`]; without `in` it is a nested type. Every field has a doc
/// comment, which is also the `doc` of the Avro field; a field named with a raw identifier loses the `r#` on the wire. A field that
/// came later is declared `field: Type = default`, so that records written before it are read.
macro_rules! record {
    ($(#[doc = $doc:literal])+ pub struct $name:ident in $kind:literal { $($body:tt)* }) => {
        record! { $(#[doc = $doc])+ pub struct $name { $($body)* } }
        impl $crate::Record for $name {
            const NAME: &'static str = stringify!($name);
            const KIND: &'static str = $kind;
        }
    };
    ($(#[doc = $doc:literal])+ pub struct $name:ident { $($(#[doc = $fdoc:literal])+ $field:ident : $type:ty $(= $default:ident)?,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $name { $($(#[doc = $fdoc])+ $(#[serde($default)])? pub $field: $type,)* }
        impl $crate::AvroType for $name {
            fn schema(builder: &mut $crate::SchemaBuilder) -> serde_json::Value {
                builder.named(stringify!($name), |_builder| serde_json::json!({
                    "type": "record", "name": stringify!($name), "namespace": $crate::avro::NAMESPACE,
                    "doc": concat!($($doc),+).trim(),
                    "fields": [$($crate::avro::field::<$type>(_builder, stringify!($field).trim_start_matches("r#"), concat!($($fdoc),+))),*],
                }))
            }
        }
    };
}
