//! Schemas: made, opened, dropped; and whose turn it is to do so.

use super::config::PostgresConfig;
use super::connect::{For, connect};
use crate::control::{Control, Numbers};
use crate::db::{Db, Error, FORMAT};
use crate::sql::{Pool, Transaction, Value, postgres_arguments};
use sqlx::{Connection, PgConnection, Row};
use std::time::Duration;

const READ_MODEL: &str = include_str!("../../migrations/postgres/read_model.sql");
const CONTROL: &str = include_str!("../../migrations/postgres/control.sql");

/// Who makes schemas: for as long as its transaction.
const MAKING: i64 = 1;
/// Who rebuilds, flips or drops: for as long as its connection.
const TURN: i64 = 2;
/// How often, and after which pause, a turn is asked for.
const TRIES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(100);

fn schema(config: &PostgresConfig, number: i64) -> String {
    format!("{}_read_{number}", config.prefix)
}

fn control_schema(config: &PostgresConfig) -> String {
    format!("{}_control", config.prefix)
}

/// Begins a transaction that alone makes schemas of this prefix.
async fn making(config: &PostgresConfig, pool: &Pool) -> Result<Transaction, Error> {
    let mut t = pool.begin().await?;
    let lock = t.sql("SELECT pg_advisory_xact_lock(hashtextextended($1, $2))");
    t.run(lock.with(&config.prefix).with(MAKING)).await?;
    Ok(t)
}

/// Opens the store beside the generations, or makes it.
pub(crate) async fn control(config: &PostgresConfig) -> Result<Control, Error> {
    let schema = control_schema(config);
    let pool = connect(config, &schema, For::Control).await?;
    let there =
        pool.optional(pool.sql("SELECT 1 AS there FROM pg_tables WHERE schemaname = $1 AND tablename = 'parked_closing'").with(&schema));
    if there.await?.is_none() {
        let mut t = making(config, &pool).await?;
        // An administrator may have made the schema, where this role makes none.
        let there = t.optional(t.sql("SELECT 1 AS there FROM pg_namespace WHERE nspname = $1").with(&schema)).await?;
        if there.is_none() {
            t.script(format!("CREATE SCHEMA {schema}")).await?;
        }
        t.script(CONTROL.to_owned()).await?;
        t.commit().await?;
    }
    Ok(Control { pool })
}

/// Opens a generation, or makes it where it is not there.
pub(crate) async fn open(config: &PostgresConfig, control: &Control, number: i64) -> Result<Db, Error> {
    let schema = schema(config, number);
    let there = "SELECT 1 AS there FROM pg_namespace WHERE nspname = $1";
    if control.pool.optional(control.pool.sql(there).with(&schema)).await?.is_none() {
        make(config, &control.pool, &schema).await?;
    }
    let found = control.pool.one(control.pool.sql(format!("SELECT number FROM {schema}.format"))).await?.int("number")?;
    if found != FORMAT {
        return Err(Error::Format { path: format!("schema {schema}"), found });
    }
    grant(config, &control.pool, &schema).await?;
    let write = connect(config, &schema, For::Projecting).await?;
    let read = connect(config, &schema, For::Reading).await?;
    Ok(Db { write, read })
}

async fn make(config: &PostgresConfig, pool: &Pool, schema: &str) -> Result<(), Error> {
    let mut t = making(config, pool).await?;
    if t.optional(t.sql("SELECT 1 AS there FROM pg_namespace WHERE nspname = $1").with(schema)).await?.is_some() {
        return t.commit().await;
    }
    let tables = format!("CREATE SCHEMA {schema}; SET LOCAL search_path = {schema};\n{READ_MODEL}");
    t.script(format!("{tables}\nINSERT INTO format VALUES ({FORMAT})")).await?;
    t.commit().await
}

/// Lets the role that asks questions read a generation. One at a time: two grants at once are an error.
async fn grant(config: &PostgresConfig, pool: &Pool, schema: &str) -> Result<(), Error> {
    let Some(reader) = &config.reader else { return Ok(()) };
    let may = pool.sql("SELECT has_schema_privilege($1, $2, 'USAGE') AS may").with(&reader.user).with(schema);
    if pool.one(may).await?.truth("may")? {
        return Ok(());
    }
    let role = reader.user.replace('"', "\"\"");
    let mut t = making(config, pool).await?;
    t.script(format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO \"{role}\"; GRANT USAGE ON SCHEMA {schema} TO \"{role}\"")).await?;
    t.commit().await
}

/// Drops a generation, if it is there.
pub(crate) async fn remove(config: &PostgresConfig, control: &Control, number: i64) -> Result<(), Error> {
    let mut t = control.pool.begin().await?;
    t.script(format!("DROP SCHEMA IF EXISTS {} CASCADE", schema(config, number))).await?;
    t.commit().await
}

/// Drops what a rebuild left that did not come to its end; not while one goes on.
pub(crate) async fn others(config: &PostgresConfig, control: &Control) -> Result<(), Error> {
    let turn = match turn(config, control).await {
        Err(Error::Busy) => return Ok(()),
        turn => turn?,
    };
    let kept = control.numbers().await?;
    let prefix = format!("{}_read_", config.prefix);
    let mine = control.pool.sql("SELECT nspname::text AS name FROM pg_namespace WHERE starts_with(nspname, $1)").with(&prefix);
    for row in control.pool.all(mine).await? {
        let number = row.text("name")?.strip_prefix(&prefix).and_then(|n| n.parse().ok());
        if let Some(number) = number.filter(|n| *n != kept.active && Some(*n) != kept.standby) {
            remove(config, control, number).await?;
        }
    }
    turn.end().await;
    Ok(())
}

/// The turn of one process to rebuild, flip or drop. It ends with its connection.
pub(crate) struct Turn(PgConnection);

/// Takes the turn, unless another process has it.
pub(crate) async fn turn(config: &PostgresConfig, control: &Control) -> Result<Turn, Error> {
    let Pool::Postgres { pool, .. } = &control.pool else { return Err(Error::Busy) };
    let mut own = PgConnection::connect_with(&pool.connect_options()).await?;
    for _ in 0..TRIES {
        let lock = postgres_arguments(vec![Value::from(&config.prefix), Value::Int(TURN)])?;
        let mine = sqlx::query_with("SELECT pg_try_advisory_lock(hashtextextended($1, $2))", lock).fetch_one(&mut own).await?;
        if mine.try_get::<bool, _>(0)? {
            return Ok(Turn(own));
        }
        // Who had it a moment ago may be gone before the server knows.
        tokio::time::sleep(AGAIN).await;
    }
    Err(Error::Busy)
}

impl Turn {
    /// Gives it back at once, not when the server finds the connection gone.
    pub(crate) async fn end(self) {
        if let Err(error) = self.0.close().await {
            tracing::debug!(%error, "the connection that had the turn was gone already");
        }
    }

    /// Changes which generations there are, over the connection that has the turn: whoever lost it changes nothing.
    pub(crate) async fn renumber(&mut self, seen: Numbers, numbers: Numbers) -> Result<(), Error> {
        let sql = numbers.change(seen, |text| crate::sql::Sql::new(crate::sql::Dialect::Postgres, text));
        let done = sqlx::query_with(&sql.text, postgres_arguments(sql.values)?).execute(&mut self.0).await?;
        if done.rows_affected() == 1 { Ok(()) } else { Err(Error::Moved) }
    }
}
