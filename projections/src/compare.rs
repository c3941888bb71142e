//! Row for row: what one generation says and another does not.

use crate::db::{Db, Error};
use crate::rows::{FOLDED, Table};
use crate::sql::{Kind, Line, Value};
use std::{cmp::Ordering, collections::VecDeque};

/// Differences that one comparison tells.
const TOLD: usize = 20;
/// Rows that are fetched at once.
const SOME: usize = 2000;

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

/// Reads both in key order, side by side.
pub(crate) async fn compare(served: &Db, rebuilt: &Db) -> Result<Vec<Difference>, Error> {
    let mut out = Vec::new();
    for table in FOLDED {
        let (mut ours, mut theirs) = (Walk::new(served, table), Walk::new(rebuilt, table));
        while out.len() < TOLD {
            let order = match (ours.key().await?, theirs.key().await?) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            let served = if order.is_le() { ours.take() } else { None };
            let rebuilt = if order.is_ge() { theirs.take() } else { None };
            if served != rebuilt {
                out.push(Difference { table: table.name, served, rebuilt });
            }
        }
    }
    Ok(out)
}

/// One table from its first row to its last, some at a time: no statement lasts long, and none is open while nobody reads.
struct Walk<'a> {
    db: &'a Db,
    table: &'static Table,
    some: VecDeque<(Vec<Value>, String)>,
    after: Option<Vec<Value>>,
    ended: bool,
}

impl<'a> Walk<'a> {
    fn new(db: &'a Db, table: &'static Table) -> Self {
        Self { db, table, some: VecDeque::new(), after: None, ended: false }
    }

    /// The key of the row that is next.
    async fn key(&mut self) -> Result<Option<&Vec<Value>>, Error> {
        if self.some.is_empty() && !self.ended {
            let (all, key) = (Table::list(self.table.columns), Table::list(self.table.keys()));
            let mut sql = self.db.read.sql(format!("SELECT {all} FROM {}", self.table.name));
            if let Some(after) = self.after.take() {
                sql.push(format!(" WHERE ({key}) > ("));
                for (i, value) in after.into_iter().enumerate() {
                    sql.push(if i > 0 { ", " } else { "" }).bind(value);
                }
                sql.push(")");
            }
            sql.push(format!(" ORDER BY {key} LIMIT {SOME}"));
            let lines = self.db.read.all(sql).await?;
            self.ended = lines.len() < SOME;
            for line in &lines {
                let key = self.table.keys().iter().map(|(name, kind)| line.value(name, *kind)).collect::<Result<_, _>>()?;
                self.some.push_back((key, text(line, self.table)?));
            }
            self.after = self.some.back().map(|(key, _)| key.clone());
        }
        Ok(self.some.front().map(|(key, _)| key))
    }

    fn take(&mut self) -> Option<String> {
        self.some.pop_front().map(|(_, text)| text)
    }
}

fn text(line: &Line, table: &Table) -> Result<String, Error> {
    let one = |(name, kind): &(&str, Kind)| {
        let value = if line.absent(name)? { Value::Null } else { line.value(name, *kind)? };
        Ok(format!("{name}={} ", said(&value)))
    };
    table.columns.iter().map(one).collect()
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Int(n) => n.to_string(),
        Value::Bool(b) => b.to_string(),
        Value::Text(text) => text.clone(),
        // The order of members, and the space between, say nothing.
        Value::Json(text) => serde_json::from_str::<serde_json::Value>(text).map_or_else(|_| text.clone(), |v| v.to_string()),
        Value::Bytes(bytes) => bytes.iter().map(|b| format!("{b:02x}")).collect(),
        Value::Uuid(id) => id.to_string(),
        Value::Time(at) => at.0.to_string(),
        Value::Words(words) => words.join(", "),
        Value::Many(values) => values.iter().map(said).collect::<Vec<_>>().join(", "),
    }
}
