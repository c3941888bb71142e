//! The files of the generations, and what outlives them.

use crate::db::{Db, Error};
use crate::projector::Progress;
use crate::queries::Reads;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::{path::Path, path::PathBuf, time::Duration};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// One generation, open.
pub(crate) struct Slot {
    pub(crate) number: i64,
    pub(crate) db: Db,
    pub(crate) progress: watch::Receiver<Progress>,
    pub(crate) feed: Option<(CancellationToken, JoinHandle<Result<(), Error>>)>,
}

impl Slot {
    pub(crate) fn new(number: i64, db: Db) -> Self {
        Self { number, db, progress: watch::channel(Progress::default()).1, feed: None }
    }

    pub(crate) fn reads(&self) -> Reads {
        Reads::new(self.db.clone(), self.number, self.progress.clone())
    }

    /// Ends its feed.
    pub(crate) async fn pause(&mut self) -> Result<(), Error> {
        if let Some((cancel, task)) = self.feed.take() {
            cancel.cancel();
            task.await.map_err(|e| Error::Corrupt(format!("the projector panicked: {e}")))??;
        }
        Ok(())
    }
}

/// The numbers of the generation that serves, and of the one beside it.
pub(crate) async fn numbers(control: &SqlitePool) -> Result<(i64, Option<i64>), Error> {
    let found: Option<(i64, Option<i64>)> = sqlx::query_as("SELECT active, standby FROM generation").fetch_optional(control).await?;
    if let Some(found) = found {
        return Ok(found);
    }
    sqlx::query("INSERT INTO generation (one, active) VALUES (1, 1)").execute(control).await?;
    Ok((1, None))
}

/// The generation beside the one that serves, where it can be opened.
pub(crate) async fn beside(folder: &Path, control: &SqlitePool, number: Option<i64>) -> Result<Option<Slot>, Error> {
    let Some(number) = number else { return Ok(None) };
    let path = file(folder, number);
    if path.exists() {
        match Db::open(&path).await {
            Ok(db) => return Ok(Some(Slot::new(number, db))),
            Err(error) => tracing::warn!(%error, "the generation that does not serve is dropped"),
        }
    }
    remove(&path)?;
    sqlx::query("UPDATE generation SET standby = NULL").execute(control).await?;
    Ok(None)
}

/// A number that no generation had.
pub(crate) async fn next_number(control: &SqlitePool) -> Result<i64, Error> {
    let next = "UPDATE generation SET last = max(active, coalesce(last, 0)) + 1 RETURNING last";
    Ok(sqlx::query_scalar(next).fetch_one(control).await?)
}

pub(crate) async fn control(path: &Path) -> Result<SqlitePool, Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(10));
    let pool = SqlitePoolOptions::new().max_connections(2).connect_with(options).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS generation (one INTEGER PRIMARY KEY CHECK (one = 1), active INTEGER NOT NULL, last INTEGER) STRICT;
         CREATE TABLE IF NOT EXISTS jti (client TEXT NOT NULL, jti TEXT NOT NULL, expires_at INTEGER NOT NULL, PRIMARY KEY (client, jti)) STRICT;
         CREATE TABLE IF NOT EXISTS denial (id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, client TEXT NOT NULL,
             reason TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, detail TEXT NOT NULL, unrecorded INTEGER NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS reactor_position (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL, state BLOB NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS publisher_position (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL, state BLOB NOT NULL) STRICT;
         CREATE TABLE IF NOT EXISTS parked_closing (topic TEXT NOT NULL, partition INTEGER NOT NULL, offset INTEGER NOT NULL,
             at INTEGER NOT NULL, done INTEGER NOT NULL, PRIMARY KEY (topic, partition, offset)) STRICT;",
    )
    .execute(&pool)
    .await?;
    // A folder of an earlier version has no place for the second number.
    let there = "SELECT count(*) FROM pragma_table_info('generation') WHERE name = 'standby'";
    if sqlx::query_scalar::<_, i64>(there).fetch_one(&pool).await? == 0 {
        sqlx::query("ALTER TABLE generation ADD COLUMN standby INTEGER").execute(&pool).await?;
    }
    Ok(pool)
}

/// Removes what a rebuild left that did not come to its end.
pub(crate) fn others(folder: &Path, kept: &[Option<i64>]) -> Result<(), Error> {
    let io = |source| Error::Io { path: folder.display().to_string(), source };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("read-")?.strip_suffix(".sqlite")?.parse::<i64>().ok());
        if let Some(number) = number.filter(|n| !kept.contains(&Some(*n))) {
            remove(&file(folder, number))?;
        }
    }
    Ok(())
}

pub(crate) fn file(folder: &Path, generation: i64) -> PathBuf {
    folder.join(format!("read-{generation}.sqlite"))
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    for suffix in ["", "-wal", "-shm"] {
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Io { path: file.display().to_string(), source }),
        }
    }
    Ok(())
}
