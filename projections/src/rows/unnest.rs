//! Live batches on PostgreSQL: one array a column, so that a statement's text is the same for any number of rows.

use super::{Row, Table, UNNEST};
use crate::db::Error;
use crate::sql::{Jsonb, Kind, Micros, PgId, PgText, TextArray, Transaction, Value};
use sqlx::{Arguments, postgres::PgArguments};

/// The name of an array of this kind, as the parameter is declared.
fn array(kind: Kind) -> &'static str {
    match kind {
        Kind::Int => "bigint[]",
        Kind::Bool => "boolean[]",
        // An array of arrays would be unnested to its end: each travels as text.
        Kind::Text | Kind::Words => "text[]",
        Kind::Bytes => "bytea[]",
        Kind::Uuid => "uuid[]",
        Kind::Time => "timestamptz[]",
        Kind::Json => "jsonb[]",
    }
}

/// `UNNEST($1::uuid[], …) AS u ("id", …)`
fn source(columns: &[(&'static str, Kind)]) -> String {
    let arrays = columns.iter().enumerate().map(|(i, (_, kind))| format!("${}::{}", i + 1, array(*kind))).collect::<Vec<_>>();
    format!("UNNEST({}) AS u ({})", arrays.join(", "), Table::list(columns))
}

fn read((name, kind): &(&str, Kind)) -> String {
    if *kind == Kind::Words { format!("u.\"{name}\"::text[]") } else { format!("u.\"{name}\"") }
}

fn matched(table: &Table) -> String {
    table.keys().iter().map(|(name, _)| format!("t.\"{name}\" = u.\"{name}\"")).collect::<Vec<_>>().join(" AND ")
}

pub(super) async fn put(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let read = table.columns.iter().map(read).collect::<Vec<_>>().join(", ");
    let (list, source, conflict) = (Table::list(table.columns), source(table.columns), table.conflict());
    each(t, table.columns, rows, &format!("INSERT INTO {} ({list}) SELECT {read} FROM {source}{conflict}", table.name)).await
}

pub(super) async fn change(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let set = table.columns[table.key..].iter().map(|c| format!("\"{}\" = {}", c.0, read(c))).collect::<Vec<_>>().join(", ");
    let text = format!("UPDATE {} AS t SET {set} FROM {} WHERE {}", table.name, source(table.columns), matched(table));
    each(t, table.columns, rows, &text).await
}

pub(super) async fn remove(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let text = format!("DELETE FROM {} AS t USING {} WHERE {}", table.name, source(table.keys()), matched(table));
    each(t, table.keys(), rows, &text).await
}

async fn each(t: &mut Transaction, columns: &[(&'static str, Kind)], mut rows: Vec<Row>, text: &str) -> Result<(), Error> {
    for some in rows.chunks_mut(UNNEST) {
        let mut arguments = PgArguments::default();
        for (i, (_, kind)) in columns.iter().enumerate() {
            let values = some.iter_mut().map(|row| std::mem::replace(&mut row[i], Value::Null));
            column(&mut arguments, *kind, values).map_err(sqlx::Error::Encode)?;
        }
        t.run_with(text, arguments).await?;
    }
    Ok(())
}

/// The values of one kind, `None` for those that are absent.
macro_rules! of {
    ($values:expr, $($variant:ident)|+ => |$value:ident| $made:expr) => {
        $values.map(|v| match v { $(Value::$variant($value) => Some($made),)+ _ => None }).collect::<Vec<_>>()
    };
}

fn column(arguments: &mut PgArguments, kind: Kind, values: impl Iterator<Item = Value>) -> Result<(), sqlx::error::BoxDynError> {
    match kind {
        Kind::Int => arguments.add(of!(values, Int => |n| n)),
        Kind::Bool => arguments.add(of!(values, Bool => |b| b)),
        Kind::Text => arguments.add(of!(values, Text => |text| PgText::new(&text).0.into_owned())),
        Kind::Bytes => arguments.add(of!(values, Bytes => |bytes| bytes)),
        Kind::Uuid => arguments.add(of!(values, Uuid => |id| PgId(id))),
        Kind::Time => arguments.add(of!(values, Time => |at| Micros(at.0))),
        Kind::Json => arguments.add(of!(values, Json => |text| Jsonb(text.into()))),
        Kind::Words => arguments.add(of!(values, Words => |words| TextArray(&words).literal())),
    }
}
