//! One generation's database file: a writer and some readers.

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::{path::Path, time::Duration};

/// Layout and meaning of the tables; a file of another format is rebuilt.
const FORMAT: i64 = 9;
const SCHEMA: &str = include_str!("../migrations/sqlite/read_model.sql");
/// Connections that read at the same time.
const READERS: u32 = 4;

/// Why the read model cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database failed.
    #[error("read model: {0}")]
    Sql(#[from] sqlx::Error),
    /// A folder or file failed.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// How.
        source: std::io::Error,
    },
    /// The file was made by another version of the program.
    #[error("{path} has format {found}, this program has {FORMAT}: `fleet-manager projections rebuild --data DIR` makes it anew")]
    Format {
        /// The file.
        path: String,
        /// Its format.
        found: i64,
    },
    /// The journal is not the one that the read model was made from.
    #[error(
        "partition {partition}: {why}; if the journal is the right one, `fleet-manager projections rebuild --data DIR` makes the read model anew"
    )]
    AnotherJournal {
        /// The partition.
        partition: u32,
        /// What differs.
        why: String,
    },
    /// A generation with rows has no position: where to read on cannot be told.
    #[error(
        "the read model has no position for partition {partition}: it is not read on; `fleet-manager projections rebuild --data DIR` makes it anew"
    )]
    PositionLost {
        /// The partition.
        partition: u32,
    },
    /// Another projector moved this generation on; this one must read its position again.
    #[error("another projector moved partition {partition} on")]
    Overtaken {
        /// The partition.
        partition: u32,
    },
    /// Nobody feeds the generation that serves: a rebuild stopped its feed and could not begin it again.
    #[error("the read model is no longer fed; the log says why; a restart goes on from where it stands")]
    Unfed,
    /// A stored value cannot be read.
    #[error("read model: {0}")]
    Corrupt(String),
    /// The log failed.
    #[error(transparent)]
    Log(#[from] fleet_log::Error),
}

/// An open generation.
#[derive(Clone, Debug)]
pub struct Db {
    pub(crate) write: SqlitePool,
    pub(crate) read: SqlitePool,
}

impl Db {
    /// Opens the file, or creates it.
    pub async fn open(path: &Path) -> Result<Self, Error> {
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
        let write = SqlitePoolOptions::new().max_connections(1).connect_with(options.clone()).await?;
        let found: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&write).await?;
        let tables: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema").fetch_one(&write).await?;
        if tables == 0 {
            let whole = format!("BEGIN IMMEDIATE;\n{SCHEMA}\nPRAGMA user_version = {FORMAT};\nCOMMIT;");
            sqlx::raw_sql(sqlx::AssertSqlSafe(whole)).execute(&write).await?;
        } else if found != FORMAT {
            return Err(Error::Format { path: path.display().to_string(), found });
        }
        let readers = SqlitePoolOptions::new().max_connections(READERS).min_connections(1);
        let read = readers.connect_with(options.read_only(true).create_if_missing(false)).await?;
        Ok(Self { write, read })
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.read.close().await;
        self.write.close().await;
    }
}
