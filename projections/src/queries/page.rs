//! Pages of a list: where one ends the next begins, whatever came or went in between.

use super::filter::Field;
use crate::db::{Db, Error};
use crate::sql::{self, Dialect, Line, Sql, Value};
use fleet_schemas::Timestamp;
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// One of the terms that a list is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) column: &'static str,
    pub(crate) kind: sql::Kind,
    /// Whether it may be absent; what is absent comes first.
    pub(crate) optional: bool,
}

impl Term {
    fn sql(&self, dialect: Dialect) -> String {
        if !self.optional {
            return self.column.to_owned();
        }
        let least = match (self.kind, dialect) {
            (sql::Kind::Time, Dialect::Postgres) => "to_timestamp(0)",
            (sql::Kind::Time | sql::Kind::Int, _) => "0",
            _ => "''",
        };
        format!("coalesce({}, {least})", self.column)
    }

    fn value(&self, key: &Key) -> Option<Value> {
        match (key, self.kind) {
            (Key::Number(n), sql::Kind::Int) => Some(Value::Int(*n)),
            (Key::Number(n), sql::Kind::Time) => Some(Value::Time(Timestamp(*n))),
            (Key::Text(t), sql::Kind::Text) => Some(Value::Text(t.clone())),
            (Key::Bytes(b), sql::Kind::Uuid) => Uuid::from_slice(b).ok().map(Value::Uuid),
            _ => None,
        }
    }
}

/// How a list is ordered: by these terms, the last of which makes lines distinct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub(crate) terms: Vec<Term>,
    pub(crate) descending: bool,
}

impl Sort {
    pub(crate) fn by(terms: &[(&'static str, sql::Kind)], descending: bool) -> Self {
        Self { terms: terms.iter().map(|(column, kind)| Term { column, kind: *kind, optional: false }).collect(), descending }
    }

    /// By one field, then by what makes lines distinct.
    pub(crate) fn field(field: &Field, descending: bool, distinct: &[(&'static str, sql::Kind)]) -> Self {
        let key = field.term();
        let rest = Self::by(distinct, descending).terms.into_iter().filter(|term| *term != key);
        Self { terms: std::iter::once(key).chain(rest).collect(), descending }
    }

    /// Whether a place in the list has this form.
    pub fn fits(&self, place: &[Key]) -> bool {
        self.values(place).is_some()
    }

    fn values(&self, place: &[Key]) -> Option<Vec<Value>> {
        if place.len() != self.terms.len() { None } else { self.terms.iter().zip(place).map(|(term, key)| term.value(key)).collect() }
    }
}

/// One term of a line's place in its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "n{n}"),
            Self::Text(t) => write!(f, "t{t}"),
            Self::Bytes(b) => write!(f, "b").and_then(|()| b.iter().try_for_each(|b| write!(f, "{b:02x}"))),
        }
    }
}

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.get(1..).ok_or(())?;
        match text.as_bytes().first() {
            Some(b'n') => rest.parse().map(Self::Number).map_err(|_| ()),
            Some(b't') => Ok(Self::Text(rest.to_owned())),
            Some(b'b') if rest.is_ascii() && rest.len() % 2 == 0 => {
                let byte = |i: usize| u8::from_str_radix(&rest[i..i + 2], 16).map_err(|_| ());
                (0..rest.len()).step_by(2).map(byte).collect::<Result<_, _>>().map(Self::Bytes)
            }
            _ => Err(()),
        }
    }
}

/// Some lines, and the place of the last where there are more behind it.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The lines.
    pub rows: Vec<T>,
    /// After which place the next page begins.
    pub next: Option<Vec<Key>>,
}

/// Columns that name a line's place; they go behind the others.
pub(crate) fn keys(db: &Db, sort: &Sort) -> String {
    let dialect = db.read.dialect();
    sort.terms.iter().enumerate().map(|(i, term)| format!(", {} AS key{i}", term.sql(dialect))).collect()
}

/// Adds the rest of the query behind its WHERE clause, and asks it.
pub(crate) async fn page<T>(
    db: &Db,
    mut q: Sql,
    sort: &Sort,
    after: Option<&[Key]>,
    limit: u32,
    row: impl Fn(&Line) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    finish(&mut q, sort, after, limit)?;
    found(db, q, sort, limit, row).await
}

/// Asks a query that ends in its order and one line more than the page has.
pub(crate) async fn found<T>(db: &Db, q: Sql, sort: &Sort, limit: u32, row: impl Fn(&Line) -> Result<T, Error>) -> Result<Page<T>, Error> {
    let mut found = db.read.all(q).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let place = |last: &Line| sort.terms.iter().enumerate().map(|(i, term)| key(last, i, term)).collect();
    let next = found.last().filter(|_| more).map(place).transpose()?;
    Ok(Page { rows: found.iter().map(row).collect::<Result<_, _>>()?, next })
}

pub(crate) fn finish(q: &mut Sql, sort: &Sort, after: Option<&[Key]>, limit: u32) -> Result<(), Error> {
    if let Some(after) = after {
        let values = sort.values(after).ok_or_else(|| Error::Corrupt("a place that is none in this order".into()))?;
        let terms = sort.terms.iter().map(|t| t.sql(q.dialect)).collect::<Vec<_>>().join(", ");
        q.push(format!(" AND ({terms}) {} (", if sort.descending { "<" } else { ">" }));
        for (i, value) in values.into_iter().enumerate() {
            q.push(if i > 0 { ", " } else { "" }).bind(value);
        }
        q.push(")");
    }
    // One more, which tells whether there is a next page.
    q.push(format!(" ORDER BY {} LIMIT ", order(q.dialect, sort))).bind(i64::from(limit) + 1);
    Ok(())
}

pub(crate) fn order(dialect: Dialect, sort: &Sort) -> String {
    let direction = if sort.descending { " DESC" } else { "" };
    sort.terms.iter().map(|t| format!("{}{direction}", t.sql(dialect))).collect::<Vec<_>>().join(", ")
}

fn key(row: &Line, i: usize, term: &Term) -> Result<Key, Error> {
    Ok(match row.value(&format!("key{i}"), term.kind)? {
        Value::Int(n) => Key::Number(n),
        Value::Time(at) => Key::Number(at.0),
        Value::Uuid(id) => Key::Bytes(id.as_bytes().to_vec()),
        Value::Text(text) => Key::Text(text),
        other => return Err(Error::Corrupt(format!("no list is ordered by {other:?}"))),
    })
}

/// Lines at one of these sites. Several sites do not choose the index: the order does. PostgreSQL weighs that itself, by what it knows of
/// the column, which an expression would hide from it.
pub(crate) fn reach(q: &mut Sql, column: &str, sites: Option<&[String]>, alone: bool) {
    let Some(sites) = sites else { return };
    match sites {
        [site] if alone => {
            q.push(format!(" AND {column} = ")).bind(site);
        }
        _ if q.dialect == Dialect::Postgres => {
            q.push(" AND ").among(column, sites);
        }
        _ => {
            q.push(" AND ").among(&format!("{column} || ''"), sites);
        }
    }
}
