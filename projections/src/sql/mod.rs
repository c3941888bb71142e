//! One text for both databases: a query with its values, the pools that run it, and the rows it gives.
//!
//! Where SQLite and PostgreSQL differ, the caller asks for the [`Dialect`]; everything else of a question is said once.

mod line;
mod native;
mod pool;
mod value;

pub(crate) use line::Line;
pub(crate) use native::{Jsonb, Micros, PgId, PgText, TextArray};
pub(crate) use pool::{Pool, Transaction, postgres_arguments};
pub(crate) use value::{Kind, Value};

use std::fmt::Write;

/// Whose SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement and the values it is asked with.
#[derive(Clone, Debug)]
pub(crate) struct Sql {
    pub(crate) dialect: Dialect,
    pub(crate) text: String,
    pub(crate) values: Vec<Value>,
}

impl Sql {
    pub(crate) fn new(dialect: Dialect, text: impl Into<String>) -> Self {
        Self { dialect, text: text.into(), values: Vec::new() }
    }

    /// The value of the next `$n` that the text has.
    pub(crate) fn with(mut self, value: impl Into<Value>) -> Self {
        self.values.push(value.into());
        self
    }

    pub(crate) fn push(&mut self, text: impl AsRef<str>) -> &mut Self {
        self.text.push_str(text.as_ref());
        self
    }

    /// Adds a value, where the text now ends.
    pub(crate) fn bind(&mut self, value: impl Into<Value>) -> &mut Self {
        self.values.push(value.into());
        let _ = write!(self.text, "${}", self.values.len());
        self
    }

    /// Adds `column is one of these`: on PostgreSQL one value, so that the text is the same for any number of them.
    pub(crate) fn among<T: Into<Value>>(&mut self, column: &str, values: impl IntoIterator<Item = T>) -> &mut Self {
        let values: Vec<Value> = values.into_iter().map(Into::into).collect();
        if values.is_empty() {
            // None of them says what kind they would be.
            return self.push("1 = 0");
        }
        match self.dialect {
            Dialect::Postgres => {
                self.push(column).push(" = ANY(").bind(Value::Many(values)).push(")");
            }
            Dialect::Sqlite => {
                self.push(column).push(" IN (");
                for (i, value) in values.into_iter().enumerate() {
                    self.push(if i > 0 { ", " } else { "" }).bind(value);
                }
                self.push(")");
            }
        }
        self
    }
}
