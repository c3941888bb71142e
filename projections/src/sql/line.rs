//! One row of an answer, read by column.

use super::native::{Jsonb, Micros, PgId};
use super::value::{Kind, Value};
use crate::db::Error;
use fleet_schemas::{Hash, Timestamp};
use sqlx::{Row, ValueRef, postgres::PgRow, sqlite::SqliteRow};
use uuid::Uuid;

/// One row.
pub(crate) enum Line {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

/// Reads a column, in the type that each database has for it.
macro_rules! read {
    ($line:expr, $column:expr, $type:ty) => {
        match $line {
            Line::Sqlite(row) => row.try_get::<$type, _>($column)?,
            Line::Postgres(row) => row.try_get::<$type, _>($column)?,
        }
    };
}

impl Line {
    pub(crate) fn int(&self, column: &str) -> Result<i64, Error> {
        Ok(read!(self, column, i64))
    }

    /// A count that cannot be negative.
    pub(crate) fn number<T: TryFrom<i64>>(&self, column: &str) -> Result<T, Error> {
        T::try_from(self.int(column)?).map_err(|_| Error::Corrupt(format!("`{column}` is out of range")))
    }

    pub(crate) fn opt_int(&self, column: &str) -> Result<Option<i64>, Error> {
        Ok(read!(self, column, Option<i64>))
    }

    pub(crate) fn truth(&self, column: &str) -> Result<bool, Error> {
        Ok(read!(self, column, bool))
    }

    pub(crate) fn text(&self, column: &str) -> Result<String, Error> {
        Ok(read!(self, column, String))
    }

    pub(crate) fn opt_text(&self, column: &str) -> Result<Option<String>, Error> {
        Ok(read!(self, column, Option<String>))
    }

    pub(crate) fn bytes(&self, column: &str) -> Result<Vec<u8>, Error> {
        Ok(read!(self, column, Vec<u8>))
    }

    pub(crate) fn opt_bytes(&self, column: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(read!(self, column, Option<Vec<u8>>))
    }

    pub(crate) fn uuid(&self, column: &str) -> Result<Uuid, Error> {
        match self {
            Self::Sqlite(row) => Uuid::from_slice(row.try_get::<&[u8], _>(column)?).map_err(|e| Error::Corrupt(e.to_string())),
            Self::Postgres(row) => Ok(row.try_get::<PgId, _>(column)?.0),
        }
    }

    pub(crate) fn hash(&self, column: &str) -> Result<Hash, Error> {
        self.bytes(column)?.try_into().map(Hash).map_err(|_| Error::Corrupt("a hash that has not 32 bytes".into()))
    }

    pub(crate) fn time(&self, column: &str) -> Result<Timestamp, Error> {
        Ok(Timestamp(match self {
            Self::Sqlite(row) => row.try_get(column)?,
            Self::Postgres(row) => row.try_get::<Micros, _>(column)?.0,
        }))
    }

    pub(crate) fn opt_time(&self, column: &str) -> Result<Option<Timestamp>, Error> {
        let micros = match self {
            Self::Sqlite(row) => row.try_get(column)?,
            Self::Postgres(row) => row.try_get::<Option<Micros>, _>(column)?.map(|m| m.0),
        };
        Ok(micros.map(Timestamp))
    }

    /// JSON as text.
    pub(crate) fn json(&self, column: &str) -> Result<String, Error> {
        match self {
            Self::Sqlite(row) => Ok(row.try_get(column)?),
            Self::Postgres(row) => Ok(row.try_get::<Jsonb<'static>, _>(column)?.0.into_owned()),
        }
    }

    pub(crate) fn words(&self, column: &str) -> Result<Vec<String>, Error> {
        match self {
            Self::Sqlite(row) => serde_json::from_str(row.try_get(column)?).map_err(|e| Error::Corrupt(format!("`{column}`: {e}"))),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    /// Whether the column holds nothing.
    pub(crate) fn absent(&self, column: &str) -> Result<bool, Error> {
        Ok(match self {
            Self::Sqlite(row) => row.try_get_raw(column)?.is_null(),
            Self::Postgres(row) => row.try_get_raw(column)?.is_null(),
        })
    }

    /// A column as a value, where it holds one.
    pub(crate) fn value(&self, column: &str, kind: Kind) -> Result<Value, Error> {
        Ok(match kind {
            Kind::Int => Value::Int(self.int(column)?),
            Kind::Bool => Value::Bool(self.truth(column)?),
            Kind::Text => Value::Text(self.text(column)?),
            Kind::Bytes => Value::Bytes(self.bytes(column)?),
            Kind::Uuid => Value::Uuid(self.uuid(column)?),
            Kind::Time => Value::Time(self.time(column)?),
            Kind::Json => Value::Json(self.json(column)?),
            Kind::Words => Value::Words(self.words(column)?),
        })
    }
}
