//! What outlives every generation: which of them serves, assertions that were used, denials, how far reactor and publisher are, who closes a
//! parked input. A file beside the generations, or a schema of its own.
//!
//! [`Control`] is cloned to whoever needs it; each function is one question or one atomic change.

mod denials;
mod numbers;
mod once;
mod positions;

pub use denials::Denial;
pub(crate) use numbers::Numbers;
pub use positions::Follower;

use crate::db::Error;
use crate::sql::Pool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::{path::Path, time::Duration};

const SCHEMA: &str = include_str!("../../migrations/sqlite/control.sql");

/// See the module.
#[derive(Clone, Debug)]
pub struct Control {
    pub(crate) pool: Pool,
}

impl Control {
    /// Opens the file, or makes it.
    pub(crate) async fn open(path: &Path) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10));
        // One that writes and checkpoints: docs/adr/0013.
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        // A folder of an earlier version has no place for the second number.
        let there = "SELECT count(*) FROM pragma_table_info('generation') WHERE name = 'standby'";
        if sqlx::query_scalar::<_, i64>(there).fetch_one(&pool).await? == 0 {
            sqlx::query("ALTER TABLE generation ADD COLUMN standby INTEGER").execute(&pool).await?;
        }
        Ok(Self { pool: Pool::Sqlite(pool) })
    }
}
