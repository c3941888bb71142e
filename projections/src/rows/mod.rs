//! Batches of rows: added, changed, taken away; many to a statement, as each database takes them fastest.

mod copy;
mod tables;
#[cfg(test)]
mod tests;
mod unnest;

pub(crate) use tables::*;

use crate::db::Error;
use crate::sql::{Dialect, Kind, Sql, Transaction, Value};

/// A table, or the part of it that some statement writes.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The key first.
    pub(crate) columns: &'static [(&'static str, Kind)],
    /// Columns of the key.
    pub(crate) key: usize,
    /// Whether rows are only ever added: none is there yet, and the order is the batch's.
    pub(crate) adds: bool,
}

/// A row, in the table's order of columns.
pub(crate) type Row = Vec<Value>;

/// Bytes of a text that stands in an index of PostgreSQL, of which a row has 2,704 for all its columns.
const LONGEST: usize = 800;
/// Columns in an index whose texts are others' words, of any length. Ids of streams are bounded where they are made.
const CLIPPED: [&str; 8] = ["name", "site", "phase", "rack", "type", "subject", "status", "item"];
/// Rows that one statement of SQLite carries, the most first: so few sizes that each is parsed once and kept.
const ROWS: [usize; 4] = [64, 16, 4, 1];
/// Rows that one statement of PostgreSQL carries.
const UNNEST: usize = 1000;
/// From so many on, COPY is faster.
const COPY: usize = 5000;
/// Rows that one COPY carries: each statement ends long before the server would end it.
const COPIED: usize = 10_000;

impl Table {
    pub(crate) fn keys(&self) -> &'static [(&'static str, Kind)] {
        &self.columns[..self.key]
    }

    /// `"a", "b"`; quoted, since one of them is a word of PostgreSQL's.
    pub(crate) fn list(columns: &[(&str, Kind)]) -> String {
        columns.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
    }

    /// What becomes of a row that is there already.
    fn conflict(&self) -> String {
        if self.adds {
            return String::new();
        }
        let set = self.columns[self.key..].iter().map(|(name, _)| format!("\"{name}\" = excluded.\"{name}\"")).collect::<Vec<_>>();
        format!(" ON CONFLICT ({}) DO UPDATE SET {}", Self::list(self.keys()), set.join(", "))
    }

    /// Cuts a text that no index of PostgreSQL would take: whoever gives a thing such a name must not hold up the projector for ever.
    fn clip(&self, row: &mut Row) {
        for ((name, _), value) in self.columns.iter().zip(row) {
            if let Value::Text(text) = value
                && text.len() > LONGEST
                && CLIPPED.contains(name)
            {
                text.truncate(text.floor_char_boundary(LONGEST));
            }
        }
    }

    /// One row of each key, the last of the batch, in key order: batches that meet cannot lock each other out, and a page is visited once.
    fn in_order(&self, mut rows: Vec<Row>, dialect: Dialect) -> Vec<Row> {
        if dialect == Dialect::Postgres {
            rows.iter_mut().for_each(|row| self.clip(row));
        }
        if !self.adds {
            rows.sort_by(|a, b| a[..self.key].cmp(&b[..self.key]));
            rows.reverse();
            rows.dedup_by(|a, b| a[..self.key] == b[..self.key]);
            rows.reverse();
        }
        rows
    }
}

/// Rows of the next statement, so that there are as few as the sizes allow.
fn size(left: usize) -> usize {
    ROWS.into_iter().find(|size| *size <= left).unwrap_or(1)
}

/// Adds rows, or puts them in the place of those with their key.
pub(crate) async fn put(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let rows = table.in_order(rows, t.dialect());
    match t {
        Transaction::Sqlite(_) => {
            let mut rows = rows.into_iter();
            while rows.len() > 0 {
                let mut sql = t.sql(format!("INSERT INTO {} ({}) VALUES ", table.name, Table::list(table.columns)));
                let some = size(rows.len());
                for (i, row) in rows.by_ref().take(some).enumerate() {
                    tuple(sql.push(if i > 0 { ", " } else { "" }), row);
                }
                sql.push(table.conflict());
                t.run(sql).await?;
            }
        }
        Transaction::Postgres { .. } if rows.len() >= COPY => copy::put(t, table, rows).await?,
        Transaction::Postgres { .. } => unnest::put(t, table, rows).await?,
    }
    Ok(())
}

/// Changes rows that are there; a row's key says which.
pub(crate) async fn change(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let rows = table.in_order(rows, t.dialect());
    if let Transaction::Postgres { .. } = t {
        return unnest::change(t, table, rows).await;
    }
    for row in rows {
        let mut sql = t.sql(format!("UPDATE {} SET ", table.name));
        for (i, ((name, _), value)) in table.columns.iter().zip(&row).enumerate().skip(table.key) {
            sql.push(if i > table.key { ", " } else { "" }).push(format!("\"{name}\" = ")).bind(value.clone());
        }
        whose(&mut sql, table, &row);
        t.run(sql).await?;
    }
    Ok(())
}

/// Takes rows away by their key.
pub(crate) async fn remove(t: &mut Transaction, table: &Table, rows: Vec<Row>) -> Result<(), Error> {
    let rows = table.in_order(rows, t.dialect());
    if let Transaction::Postgres { .. } = t {
        return unnest::remove(t, table, rows).await;
    }
    for row in rows {
        let mut sql = t.sql(format!("DELETE FROM {}", table.name));
        whose(&mut sql, table, &row);
        t.run(sql).await?;
    }
    Ok(())
}

fn tuple(sql: &mut Sql, row: Row) {
    sql.push("(");
    for (i, value) in row.into_iter().enumerate() {
        sql.push(if i > 0 { ", " } else { "" }).bind(value);
    }
    sql.push(")");
}

fn whose(sql: &mut Sql, table: &Table, row: &Row) {
    for (i, ((name, _), value)) in table.keys().iter().zip(row).enumerate() {
        sql.push(if i > 0 { " AND " } else { " WHERE " }).push(format!("\"{name}\" = ")).bind(value.clone());
    }
}
