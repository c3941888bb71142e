//! Row for row: what one generation says and another does not.

use crate::db::{Db, Error};
use futures::StreamExt;
use sqlx::{AssertSqlSafe, Column, Row, TypeInfo, ValueRef, sqlite::SqliteRow};

/// Differences that one comparison tells.
const TOLD: usize = 20;

/// One row that two generations do not share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The table.
    pub table: &'static str,
    /// The row in the one that served, or nothing.
    pub served: Option<String>,
    /// The row in the one that was rebuilt, or nothing.
    pub rebuilt: Option<String>,
}

/// Every table but the positions (equal by construction), in key order.
const TABLES: &[(&str, &str)] = &[
    ("stream", "id"),
    ("device", "id"),
    ("condition", "device, type, subject"),
    ("attention", "device, item"),
    ("history", "stream, offset"),
    ("operation", "id"),
    ("config_version", "stream, version"),
    ("orphan", "site, source, native_id"),
];

/// Reads both in key order, side by side.
pub(crate) async fn compare(served: &Db, rebuilt: &Db) -> Result<Vec<Difference>, Error> {
    let mut out = Vec::new();
    for (table, key) in TABLES {
        let sql = || AssertSqlSafe(format!("SELECT * FROM {table} ORDER BY {key}"));
        let (mut ours, mut theirs) = (sqlx::query(sql()).fetch(&served.read), sqlx::query(sql()).fetch(&rebuilt.read));
        while out.len() < TOLD {
            let (served, rebuilt) = (ours.next().await.transpose()?, theirs.next().await.transpose()?);
            if served.is_none() && rebuilt.is_none() {
                break;
            }
            let (served, rebuilt) = (served.as_ref().map(text).transpose()?, rebuilt.as_ref().map(text).transpose()?);
            if served != rebuilt {
                out.push(Difference { table, served, rebuilt });
            }
        }
    }
    Ok(out)
}

fn text(row: &SqliteRow) -> Result<String, Error> {
    let mut out = String::new();
    for column in row.columns() {
        let raw = row.try_get_raw(column.ordinal())?;
        let value = match (raw.is_null(), raw.type_info().name()) {
            (true, _) => "null".to_owned(),
            (false, "INTEGER") => row.try_get::<i64, _>(column.ordinal())?.to_string(),
            (false, "BLOB") => row.try_get::<Vec<u8>, _>(column.ordinal())?.iter().map(|b| format!("{b:02x}")).collect(),
            (false, _) => row.try_get::<String, _>(column.ordinal())?,
        };
        out.push_str(&format!("{}={value} ", column.name()));
    }
    Ok(out)
}
