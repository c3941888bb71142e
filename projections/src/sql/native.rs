//! How values look on PostgreSQL's wire, where the driver has no type of ours.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, types::Oid};
use sqlx::{Decode, Encode, Postgres, Type};
use std::borrow::Cow;
use uuid::Uuid;

/// Microseconds between 1970 and 2000, where PostgreSQL's time begins.
const EPOCH: i64 = 946_684_800_000_000;
/// The last instant that PostgreSQL has, in microseconds since 2000, and the first.
const LATEST: i64 = 9_223_371_331_199_999_999;
const EARLIEST: i64 = -211_813_488_000_000_000;

/// A timestamptz, as microseconds since 1970. The driver's own types go by a calendar, and lose what that does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Micros(pub(crate) i64);

impl Micros {
    pub(crate) fn wire(self) -> [u8; 8] {
        self.0.saturating_sub(EPOCH).clamp(EARLIEST, LATEST).to_be_bytes()
    }
}

impl Type<Postgres> for Micros {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1184))
    }
}

impl PgHasArrayType for Micros {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(1185))
    }
}

impl Encode<'_, Postgres> for Micros {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.extend_from_slice(&self.wire());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Micros {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self(i64::from_be_bytes(value.as_bytes()?.try_into()?).saturating_add(EPOCH))),
            PgValueFormat::Text => Err("a time in words".into()),
        }
    }
}

/// A uuid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PgId(pub(crate) Uuid);

impl Type<Postgres> for PgId {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2950))
    }
}

impl PgHasArrayType for PgId {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2951))
    }
}

impl Encode<'_, Postgres> for PgId {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for PgId {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self(Uuid::from_slice(value.as_bytes()?)?)),
            PgValueFormat::Text => Ok(Self(value.as_str()?.parse()?)),
        }
    }
}

/// A text that PostgreSQL takes: it has no NUL. What an outside system puts into a name must not hold up the projector for ever.
pub(crate) struct PgText<'a>(pub(crate) Cow<'a, str>);

impl<'a> PgText<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self(if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() })
    }

    /// JSON spells it out.
    pub(crate) fn json(text: &'a str) -> Self {
        Self(if text.contains("\\u0000") { text.replace("\\u0000", "\\ufffd").into() } else { text.into() })
    }
}

/// A text[] as PostgreSQL reads it from text: an array of arrays cannot be unnested by one level.
pub(crate) struct TextArray<'a>(pub(crate) &'a [String]);

impl TextArray<'_> {
    pub(crate) fn literal(&self) -> String {
        let quoted = |word: &String| format!("\"{}\"", PgText::new(word).0.replace('\\', "\\\\").replace('"', "\\\""));
        format!("{{{}}}", self.0.iter().map(quoted).collect::<Vec<_>>().join(","))
    }
}

/// A jsonb, as JSON text.
pub(crate) struct Jsonb<'a>(pub(crate) Cow<'a, str>);

impl Type<Postgres> for Jsonb<'_> {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(3802))
    }
}

impl PgHasArrayType for Jsonb<'_> {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(3807))
    }
}

impl Encode<'_, Postgres> for Jsonb<'_> {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.push(1);
        buf.extend_from_slice(PgText::json(&self.0).0.as_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Jsonb<'static> {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        let bytes = value.as_bytes()?;
        let text = match value.format() {
            PgValueFormat::Binary => bytes.get(1..).unwrap_or_default(),
            PgValueFormat::Text => bytes,
        };
        Ok(Self(std::str::from_utf8(text)?.to_owned().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_in_words_is_what_it_was() {
        let words = ["a b".to_owned(), String::new(), "\"\\,{}".to_owned(), "NULL".to_owned(), "x\0y".to_owned()];
        assert_eq!(TextArray(&words).literal(), "{\"a b\",\"\",\"\\\"\\\\,{}\",\"NULL\",\"x\u{fffd}y\"}");
        assert_eq!(TextArray(&[]).literal(), "{}");
    }

    #[test]
    fn an_instant_beyond_what_postgres_has_is_its_first_or_last() {
        assert_eq!(i64::from_be_bytes(Micros(i64::MAX).wire()), LATEST.min(i64::MAX - EPOCH));
        assert_eq!(i64::from_be_bytes(Micros(i64::MIN).wire()), EARLIEST);
        assert_eq!(i64::from_be_bytes(Micros(EPOCH).wire()), 0);
    }
}
