//! Connections, and what is asked over them.

use super::native::{Jsonb, Micros, PgId, PgText};
use super::value::Value;
use super::{Dialect, Line, Sql};
use crate::db::Error;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgArguments, PgConnection, PgPool};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqlitePool};
use sqlx::{Arguments, Executor, Postgres, Sqlite};
use std::{future::Future, io, time::Duration};

/// Some connections to one database.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    Sqlite(SqlitePool),
    Postgres {
        pool: PgPool,
        /// How long an answer is awaited. The server ends a statement sooner; this is for a network that says nothing any more.
        limit: Duration,
    },
}

/// A connection of PostgreSQL. One that is let go of in the middle of something is closed: nobody knows what it would say next.
pub(crate) struct Held {
    connection: PoolConnection<Postgres>,
    clean: bool,
}

impl Held {
    async fn take(pool: &PgPool) -> Result<Self, Error> {
        Ok(Self { connection: pool.acquire().await?, clean: false })
    }

    /// What the server said no to has ended; after any other fault the connection is in an unknown state.
    fn give<T>(mut self, outcome: Result<T, sqlx::Error>) -> Result<T, Error> {
        self.clean = matches!(outcome, Ok(_) | Err(sqlx::Error::Database(_) | sqlx::Error::RowNotFound));
        Ok(outcome?)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.clean {
            self.connection.close_on_drop();
        }
    }
}

async fn limited<T>(limit: Duration, asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = |_| sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {} s", limit.as_secs())));
    tokio::time::timeout(limit, asked).await.map_err(late)?
}

// Each is handed to a connection, `connection.execute(query)`: what `query.execute(connection)` gives is not `Send` where it crosses a task.
fn postgres(sql: &mut Sql) -> Result<Query<'_, Postgres, PgArguments>, Error> {
    Ok(sqlx::query_with(&sql.text, postgres_arguments(std::mem::take(&mut sql.values))?))
}

fn sqlite(sql: &mut Sql) -> Result<Query<'_, Sqlite, SqliteArguments<'_>>, Error> {
    let mut arguments = SqliteArguments::default();
    for value in std::mem::take(&mut sql.values) {
        let added = match value {
            Value::Null => arguments.add(None::<i64>),
            Value::Int(n) => arguments.add(n),
            Value::Bool(b) => arguments.add(b),
            Value::Text(text) | Value::Json(text) => arguments.add(text),
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::Uuid(id) => arguments.add(id.into_bytes().to_vec()),
            Value::Time(at) => arguments.add(at.0),
            Value::Words(words) => arguments.add(serde_json::Value::from(words).to_string()),
            Value::Many(_) => Err("several values are one for PostgreSQL alone".into()),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(sqlx::query_with(&sql.text, arguments))
}

/// The values as PostgreSQL's driver takes them.
pub(crate) fn postgres_arguments(values: Vec<Value>) -> Result<PgArguments, Error> {
    let mut arguments = PgArguments::default();
    for value in values {
        let added = match value {
            Value::Null => arguments.add(None::<&str>),
            Value::Int(n) => arguments.add(n),
            Value::Bool(b) => arguments.add(b),
            Value::Text(text) => arguments.add(PgText::new(&text).0.as_ref()),
            Value::Json(text) => arguments.add(Jsonb(text.into())),
            Value::Bytes(bytes) => arguments.add(bytes),
            Value::Uuid(id) => arguments.add(PgId(id)),
            Value::Time(at) => arguments.add(Micros(at.0)),
            Value::Words(words) => arguments.add(words.iter().map(|w| PgText::new(w).0.into_owned()).collect::<Vec<_>>()),
            Value::Many(values) => many(&mut arguments, values),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Ids, numbers or texts; what is asked for among others is no other thing.
fn many(arguments: &mut PgArguments, values: Vec<Value>) -> Result<(), sqlx::error::BoxDynError> {
    match values.first() {
        Some(Value::Uuid(_)) => arguments.add(values.into_iter().filter_map(id).collect::<Vec<PgId>>()),
        Some(Value::Int(_)) => {
            let number = |v| if let Value::Int(n) = v { Some(n) } else { None };
            arguments.add(values.into_iter().filter_map(number).collect::<Vec<i64>>())
        }
        _ => {
            let text = |v| if let Value::Text(text) = v { Some(PgText::new(&text).0.into_owned()) } else { None };
            arguments.add(values.into_iter().filter_map(text).collect::<Vec<String>>())
        }
    }
}

fn id(value: Value) -> Option<PgId> {
    if let Value::Uuid(id) = value { Some(PgId(id)) } else { None }
}

impl Pool {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres { .. } => Dialect::Postgres,
        }
    }

    /// A statement for this database.
    pub(crate) fn sql(&self, text: impl Into<String>) -> Sql {
        Sql::new(self.dialect(), text)
    }

    pub(crate) async fn all(&self, mut sql: Sql) -> Result<Vec<Line>, Error> {
        match self {
            Self::Sqlite(pool) => Ok(pool.fetch_all(sqlite(&mut sql)?).await?.into_iter().map(Line::Sqlite).collect()),
            Self::Postgres { pool, limit } => {
                let mut held = Held::take(pool).await?;
                let rows = limited(*limit, held.connection.fetch_all(postgres(&mut sql)?)).await;
                Ok(held.give(rows)?.into_iter().map(Line::Postgres).collect())
            }
        }
    }

    pub(crate) async fn optional(&self, mut sql: Sql) -> Result<Option<Line>, Error> {
        match self {
            Self::Sqlite(pool) => Ok(pool.fetch_optional(sqlite(&mut sql)?).await?.map(Line::Sqlite)),
            Self::Postgres { pool, limit } => {
                let mut held = Held::take(pool).await?;
                let row = limited(*limit, held.connection.fetch_optional(postgres(&mut sql)?)).await;
                Ok(held.give(row)?.map(Line::Postgres))
            }
        }
    }

    pub(crate) async fn one(&self, sql: Sql) -> Result<Line, Error> {
        self.optional(sql).await?.ok_or(Error::Sql(sqlx::Error::RowNotFound))
    }

    /// Runs it; how many rows it touched.
    pub(crate) async fn run(&self, mut sql: Sql) -> Result<u64, Error> {
        match self {
            Self::Sqlite(pool) => Ok(pool.execute(sqlite(&mut sql)?).await?.rows_affected()),
            Self::Postgres { pool, limit } => {
                let mut held = Held::take(pool).await?;
                let done = limited(*limit, held.connection.execute(postgres(&mut sql)?)).await;
                Ok(held.give(done)?.rows_affected())
            }
        }
    }

    /// Begins a transaction that writes.
    pub(crate) async fn begin(&self) -> Result<Transaction, Error> {
        match self {
            Self::Sqlite(pool) => Ok(Transaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?)),
            Self::Postgres { pool, limit } => {
                let mut held = Held::take(pool).await?;
                limited(*limit, held.connection.execute(sqlx::raw_sql("BEGIN"))).await?;
                Ok(Transaction::Postgres { held, limit: *limit })
            }
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Sqlite(pool) => pool.close().await,
            Self::Postgres { pool, .. } => pool.close().await,
        }
    }
}

/// Several statements as one. Dropped before [`Transaction::commit`], none of it was.
pub(crate) enum Transaction {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres { held: Held, limit: Duration },
}

impl Transaction {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres { .. } => Dialect::Postgres,
        }
    }

    pub(crate) fn sql(&self, text: impl Into<String>) -> Sql {
        Sql::new(self.dialect(), text)
    }

    pub(crate) async fn all(&mut self, mut sql: Sql) -> Result<Vec<Line>, Error> {
        match self {
            Self::Sqlite(inner) => Ok(inner.fetch_all(sqlite(&mut sql)?).await?.into_iter().map(Line::Sqlite).collect()),
            Self::Postgres { held, limit } => {
                let asked = held.connection.fetch_all(postgres(&mut sql)?);
                Ok(limited(*limit, asked).await?.into_iter().map(Line::Postgres).collect())
            }
        }
    }

    pub(crate) async fn optional(&mut self, mut sql: Sql) -> Result<Option<Line>, Error> {
        match self {
            Self::Sqlite(inner) => Ok(inner.fetch_optional(sqlite(&mut sql)?).await?.map(Line::Sqlite)),
            Self::Postgres { held, limit } => {
                let asked = held.connection.fetch_optional(postgres(&mut sql)?);
                Ok(limited(*limit, asked).await?.map(Line::Postgres))
            }
        }
    }

    pub(crate) async fn run(&mut self, mut sql: Sql) -> Result<u64, Error> {
        match self {
            Self::Sqlite(inner) => Ok(inner.execute(sqlite(&mut sql)?).await?.rows_affected()),
            Self::Postgres { held, limit } => {
                let asked = held.connection.execute(postgres(&mut sql)?);
                Ok(limited(*limit, asked).await?.rows_affected())
            }
        }
    }

    /// Runs it with values that are ready for PostgreSQL's driver.
    pub(crate) async fn run_with(&mut self, text: &str, arguments: PgArguments) -> Result<(), Error> {
        let Self::Postgres { held, limit } = self else {
            return Err(Error::Corrupt("arrays are PostgreSQL's".into()));
        };
        let asked = held.connection.execute(sqlx::query_with(text, arguments));
        limited(*limit, asked).await?;
        Ok(())
    }

    /// Several statements in one text, without values.
    pub(crate) async fn script(&mut self, text: String) -> Result<(), Error> {
        match self {
            Self::Sqlite(inner) => inner.execute(sqlx::raw_sql(&text)).await.map(|_| ())?,
            Self::Postgres { held, limit } => {
                limited(*limit, held.connection.execute(sqlx::raw_sql(&text))).await.map(|_| ())?;
            }
        }
        Ok(())
    }

    /// Streams rows in COPY's binary form; PostgreSQL alone.
    pub(crate) async fn copy(&mut self, statement: &str, rows: Vec<u8>) -> Result<(), Error> {
        let Self::Postgres { held, limit } = self else {
            return Err(Error::Corrupt("COPY is PostgreSQL's".into()));
        };
        let connection: &mut PgConnection = &mut held.connection;
        let copied = async {
            let mut copy = connection.copy_in_raw(statement).await?;
            copy.send(rows).await?;
            copy.finish().await
        };
        limited(*limit, copied).await?;
        Ok(())
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        match self {
            Self::Sqlite(inner) => inner.commit().await?,
            Self::Postgres { mut held, limit } => {
                let done = limited(limit, held.connection.execute(sqlx::raw_sql("COMMIT"))).await;
                held.give(done)?;
            }
        }
        Ok(())
    }
}
