//! One generation's database: a writer and some readers.

use crate::sql::Pool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use std::{path::Path, time::Duration};

/// Layout and meaning of the tables; a generation of another format is rebuilt.
pub(crate) const FORMAT: i64 = 9;
const SCHEMA: &str = include_str!("../migrations/sqlite/read_model.sql");
/// Connections that read at the same time.
const READERS: u32 = 4;

pub use crate::fault::Error;

/// An open generation: a file of SQLite, or a schema of PostgreSQL.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) write: Pool,
    pub(crate) read: Pool,
}

impl Db {
    /// Opens the file, or creates it.
    pub(crate) async fn open(path: &Path) -> Result<Self, Error> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // What is lost with the power is read again from the journal.
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(Duration::from_secs(10))
            .pragma("cache_size", "-65536")
            // A batch writes pages all over the file: checkpoints are worth their syncs only when many batches share them.
            .pragma("wal_autocheckpoint", "4096")
            .pragma("temp_store", "MEMORY");
        // One that writes and checkpoints, and readers that cannot: docs/adr/0013.
        let write = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&write).await?;
        let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&write).await?;
        if tables == 0 {
            let whole = format!("BEGIN IMMEDIATE;\n{SCHEMA}\nPRAGMA user_version = {FORMAT};\nCOMMIT;");
            sqlx::raw_sql(&whole).execute(&write).await?;
        } else if found != FORMAT {
            return Err(Error::Format { path: path.display().to_string(), found });
        }
        let readers = SqlitePoolOptions::new().max_connections(READERS).min_connections(1);
        let read = readers.connect_with(options.read_only(true).create_if_missing(false)).await?;
        Ok(Self { write: Pool::Sqlite(write), read: Pool::Sqlite(read) })
    }

    /// Closes every connection.
    pub(crate) async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
