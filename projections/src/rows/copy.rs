//! Large batches on PostgreSQL: COPY in its binary form, into a temporary table that is merged, or straight where rows are only added.

use super::{COPIED, Row, Table};
use crate::db::Error;
use crate::sql::{Micros, PgText, Transaction, Value};

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TEXT: i32 = 25;

pub(super) async fn put(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let list = Table::list(table.columns);
    if table.adds {
        for some in rows.chunks(COPIED) {
            t.copy(&format!("COPY {} ({list}) FROM STDIN (FORMAT binary)", table.name), encode(some)).await?;
        }
        return Ok(());
    }
    let staged = format!("staged_{}", table.name);
    t.script(format!("CREATE TEMPORARY TABLE {staged} ON COMMIT DROP AS SELECT {list} FROM {} WHERE false", table.name)).await?;
    for some in rows.chunks(COPIED) {
        t.copy(&format!("COPY {staged} ({list}) FROM STDIN (FORMAT binary)"), encode(some)).await?;
        let merge = format!("INSERT INTO {} ({list}) SELECT {list} FROM {staged}{}", table.name, table.conflict());
        t.run(t.sql(merge)).await?;
        t.script(format!("TRUNCATE {staged}")).await?;
    }
    t.script(format!("DROP TABLE {staged}")).await
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut out = HEADER.to_vec();
    for row in rows {
        // A table has few columns.
        out.extend_from_slice(&(row.len() as i16).to_be_bytes());
        row.iter().for_each(|value| field(&mut out, value));
    }
    out.extend_from_slice(&(-1_i16).to_be_bytes());
    out
}

fn field(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null | Value::Many(_) => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Value::Int(n) => sized(out, &n.to_be_bytes()),
        Value::Bool(b) => sized(out, &[u8::from(*b)]),
        Value::Text(text) => sized(out, PgText::new(text).0.as_bytes()),
        Value::Bytes(bytes) => sized(out, bytes),
        Value::Uuid(id) => sized(out, id.as_bytes()),
        Value::Time(at) => sized(out, &Micros(at.0).wire()),
        Value::Json(text) => sized(out, &[&[1], PgText::json(text).0.as_bytes()].concat()),
        Value::Words(words) => sized(out, &array(words)),
    }
}

/// A value is at most what one record of the journal holds: its length fits.
fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Dimensions, whether one is null, the type; of the dimension its length and where it begins; then the values.
fn array(words: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let dimensions = i32::from(!words.is_empty());
    [dimensions, 0, TEXT].iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
    if !words.is_empty() {
        [words.len() as i32, 1].iter().for_each(|n| out.extend_from_slice(&n.to_be_bytes()));
    }
    words.iter().for_each(|word| sized(&mut out, PgText::new(word).0.as_bytes()));
    out
}
