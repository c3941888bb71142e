//! Pages of a list: where one ends the next begins, whatever came or went in between.

use super::filter::Field;
use crate::db::{Db, Error};
use sqlx::{QueryBuilder, Row, Sqlite, TypeInfo, ValueRef, sqlite::SqliteRow};
use std::{fmt, str::FromStr};

/// How a list is ordered: by these terms, the last of which makes lines distinct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sort {
    pub(crate) terms: Vec<String>,
    pub(crate) descending: bool,
}

impl Sort {
    pub(crate) fn by(terms: &[&str], descending: bool) -> Self {
        Self { terms: terms.iter().map(|t| (*t).to_owned()).collect(), descending }
    }

    /// By one field, then by what makes lines distinct.
    pub(crate) fn field(field: &Field, descending: bool, distinct: &[&str]) -> Self {
        let key = field.key();
        let rest = distinct.iter().filter(|d| **d != key).map(|d| (*d).to_owned());
        let terms = std::iter::once(key.clone()).chain(rest).collect();
        Self { terms, descending }
    }

    /// Terms that a place in the list has.
    pub fn width(&self) -> usize {
        self.terms.len()
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
pub(crate) fn keys(sort: &Sort) -> String {
    sort.terms.iter().enumerate().map(|(i, term)| format!(", {term} AS key{i}")).collect()
}

/// Adds the rest of the query behind its WHERE clause, and asks it.
pub(crate) async fn page<T>(
    db: &Db,
    mut q: QueryBuilder<Sqlite>,
    sort: &Sort,
    after: Option<&[Key]>,
    limit: u32,
    row: impl Fn(&SqliteRow) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    finish(&mut q, sort, after, limit);
    found(db, q, sort, limit, row).await
}

/// Asks a query that ends in its order and one line more than the page has.
pub(crate) async fn found<T>(
    db: &Db,
    mut q: QueryBuilder<Sqlite>,
    sort: &Sort,
    limit: u32,
    row: impl Fn(&SqliteRow) -> Result<T, Error>,
) -> Result<Page<T>, Error> {
    let mut found = q.build().fetch_all(&db.read).await?;
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let next = found.last().filter(|_| more).map(|last| (0..sort.width()).map(|i| key(last, i)).collect()).transpose()?;
    Ok(Page { rows: found.iter().map(row).collect::<Result<_, _>>()?, next })
}

pub(crate) fn finish(q: &mut QueryBuilder<Sqlite>, sort: &Sort, after: Option<&[Key]>, limit: u32) {
    if let Some(after) = after {
        let compared = if sort.descending { "<" } else { ">" };
        q.push(format!(" AND ({}) {compared} (", sort.terms.join(", ")));
        let mut list = q.separated(", ");
        for key in after {
            match key {
                Key::Number(n) => list.push_bind(*n),
                Key::Text(t) => list.push_bind(t.clone()),
                Key::Bytes(b) => list.push_bind(b.clone()),
            };
        }
        q.push(")");
    }
    // One more, which tells whether there is a next page.
    q.push(format!(" ORDER BY {} LIMIT ", order(sort))).push_bind(i64::from(limit) + 1);
}

pub(crate) fn order(sort: &Sort) -> String {
    let direction = if sort.descending { " DESC" } else { "" };
    sort.terms.iter().map(|t| format!("{t}{direction}")).collect::<Vec<_>>().join(", ")
}

fn key(row: &SqliteRow, i: usize) -> Result<Key, Error> {
    let name = format!("key{i}");
    let name = name.as_str();
    let raw = row.try_get_raw(name)?;
    Ok(match raw.type_info().name() {
        "INTEGER" => Key::Number(row.try_get(name)?),
        "BLOB" => Key::Bytes(row.try_get(name)?),
        _ => Key::Text(row.try_get(name)?),
    })
}

/// Lines at one of these sites. Several sites do not choose the index: the order does.
pub(crate) fn reach(q: &mut QueryBuilder<Sqlite>, column: &str, sites: Option<&[String]>, alone: bool) {
    let Some(sites) = sites else { return };
    q.push(if alone && sites.len() == 1 { format!(" AND {column} IN (") } else { format!(" AND {column} || '' IN (") });
    let mut list = q.separated(", ");
    for site in sites {
        list.push_bind(site.clone());
    }
    q.push(")");
}
