//! Every schema that was ever published, embedded in the program: a record is read with the schema that wrote it.

use crate::{Fingerprint, Record, SchemaBuilder};
use include_dir::{Dir, include_dir};
use std::{any::TypeId, collections::HashMap, sync::LazyLock, sync::RwLock};

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/avro/published");

/// One published schema.
pub struct Published {
    /// Record name without namespace.
    pub name: String,
    /// CRC-64-AVRO of the canonical form.
    pub fingerprint: Fingerprint,
    /// The schema, ready for decoding.
    pub schema: serde_avro_fast::Schema,
    /// The schema's text as published.
    pub text: String,
}

static PUBLISHED: LazyLock<HashMap<Fingerprint, Published>> =
    LazyLock::new(|| FILES.files().filter_map(|f| f.contents_utf8()).map(parse).map(|p| (p.fingerprint, p)).collect());

/// The schema with this fingerprint, if it was ever published.
pub fn published(fingerprint: Fingerprint) -> Option<&'static Published> {
    PUBLISHED.get(&fingerprint)
}

/// Every published schema.
pub fn all() -> impl Iterator<Item = &'static Published> {
    PUBLISHED.values()
}

/// Today's schema of `T`, generated from its declaration. `tests/contracts.rs` holds it against `avro/published`.
pub fn current<T: Record>() -> &'static Published {
    static CURRENT: LazyLock<RwLock<HashMap<TypeId, &'static Published>>> = LazyLock::new(Default::default);
    let key = TypeId::of::<T>();
    if let Some(found) = CURRENT.read().unwrap_or_else(|e| e.into_inner()).get(&key) {
        return found;
    }
    let made: &'static Published = Box::leak(Box::new(parse(&text::<T>())));
    CURRENT.write().unwrap_or_else(|e| e.into_inner()).entry(key).or_insert(made)
}

/// The schema text of `T` as its `.avsc` file holds it.
pub fn text<T: Record>() -> String {
    format!("{:#}\n", T::schema(&mut SchemaBuilder::default()))
}

/// Schemas come from our own declarations, or from files that were published after passing the contract tests.
fn parse(text: &str) -> Published {
    let schema: serde_avro_fast::Schema = match text.parse() {
        Ok(schema) => schema,
        Err(e) => unreachable!("a published schema does not parse: {e}\n{text}"),
    };
    let name = serde_json::from_str::<serde_json::Value>(text).ok().and_then(|v| Some(v.get("name")?.as_str()?.to_owned()));
    Published { name: name.unwrap_or_default(), fingerprint: Fingerprint(*schema.rabin_fingerprint()), schema, text: text.to_owned() }
}
