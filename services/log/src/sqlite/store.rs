//! The file: its tables, opening, locking, topics.

use super::lane::Lane;
use crate::port::{Cleanup, Durability, Error, TopicPartition, TopicSpec};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use std::{collections::HashMap, fs::File, path::Path, sync::Arc};

/// Says "a fleet log" in the file's header (`fmlg`).
const APPLICATION_ID: i32 = 0x666d_6c67;
/// Layout of the tables.
const VERSION: i32 = 1;

/// Limits of the store.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Pages (of 4 KiB) the file may have; a full file answers as a full disk does. `None` = no limit.
    pub max_pages: Option<u32>,
}

pub(super) fn io(e: rusqlite::Error) -> Error {
    Error::Io(e.to_string())
}

pub(super) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = File::options().create(true).append(true).open(&path).map_err(|e| Error::Io(format!("{}: {e}", path.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(Error::InUse { path: folder.display().to_string() }),
        Err(std::fs::TryLockError::Error(e)) => Err(Error::Io(format!("{}: {e}", path.display()))),
    }
}

pub(super) fn open(path: &Path, limits: &Limits) -> Result<Connection, Error> {
    let connection = Connection::open(path).map_err(io)?;
    let id: i32 = connection.pragma_query_value(None, "application_id", |r| r.get(0)).map_err(io)?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0)).map_err(io)?;
    if tables == 0 {
        create(&connection).map_err(io)?;
    } else {
        check(&connection, path, id)?;
    }
    connection.pragma_update(None, "journal_mode", "wal").map_err(io)?;
    connection.pragma_update(None, "synchronous", "full").map_err(io)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000).map_err(io)?;
    connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(io)?;
    if let Some(pages) = limits.max_pages {
        connection.pragma_update(None, "max_page_count", pages).map_err(io)?;
    }
    Ok(connection)
}

pub(super) fn open_read_only(path: &Path) -> Result<Connection, Error> {
    if !path.exists() {
        return Err(Error::Foreign { path: path.display().to_string(), why: "there is no log here".into() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(io)?;
    connection.busy_timeout(std::time::Duration::from_secs(10)).map_err(io)?;
    let id = connection.pragma_query_value(None, "application_id", |r| r.get(0)).map_err(io)?;
    check(&connection, path, id)?;
    Ok(connection)
}

/// All of it or nothing: a file that was begun and never finished is begun again.
fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         PRAGMA application_id = {APPLICATION_ID};
         PRAGMA user_version = {VERSION};
         CREATE TABLE topic (name TEXT PRIMARY KEY, partitions INTEGER NOT NULL, cleanup TEXT NOT NULL, durability TEXT NOT NULL) STRICT;
         CREATE TABLE lane (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, partition INTEGER NOT NULL, start INTEGER NOT NULL, UNIQUE (topic, partition)) STRICT;
         COMMIT;"
    ))
}

fn check(connection: &Connection, path: &Path, id: i32) -> Result<(), Error> {
    let foreign = |why: String| Err(Error::Foreign { path: path.display().to_string(), why });
    if id != APPLICATION_ID {
        return foreign("this is no log of ours".into());
    }
    let version: i32 = connection.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(io)?;
    if version != VERSION { foreign(format!("layout {version}, this program knows {VERSION}; a later program made it")) } else { Ok(()) }
}

/// Every partition there is, with its bounds.
pub(super) fn lanes(connection: &Connection) -> Result<HashMap<TopicPartition, Arc<Lane>>, Error> {
    let mut statement = connection
        .prepare("SELECT l.id, l.topic, l.partition, l.start, t.durability FROM lane l JOIN topic t ON t.name = l.topic")
        .map_err(io)?;
    let rows = statement
        .query_map([], |r| {
            Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?, r.get::<_, u32>(2)?, r.get::<_, i64>(3)?, r.get::<_, String>(4)?))
        })
        .map_err(io)?;
    let mut lanes = HashMap::new();
    for row in rows {
        let (id, topic, partition, start, durability) = row.map_err(io)?;
        let start = start as u64;
        let end = end(connection, &format!("records_{id}")).map_err(io)?.max(start);
        let at = TopicPartition::new(&topic, partition);
        let durability = if durability == "awaited" { Durability::Awaited } else { Durability::Full };
        lanes.insert(at.clone(), Arc::new(Lane::new(at, id, durability, start..end)));
    }
    Ok(lanes)
}

/// The offset that the next row of `table` will have, 0 when it is empty.
pub(super) fn end(connection: &Connection, table: &str) -> rusqlite::Result<u64> {
    let last: Option<i64> = connection.query_row(&format!("SELECT max(offset) FROM {table}"), [], |r| r.get(0))?;
    Ok(last.map_or(0, |offset| offset as u64 + 1))
}

/// Creates what is missing, verifies what is there; all or nothing.
pub(super) fn ensure(connection: &mut Connection, topics: &[TopicSpec]) -> Result<(), Error> {
    let transaction = connection.transaction().map_err(io)?;
    for topic in topics {
        let found: Option<(u32, String, String)> = transaction
            .query_row("SELECT partitions, cleanup, durability FROM topic WHERE name = ?1", [&*topic.name], |r| {
                Ok((r.get(0)?, r.get(1)?, r.get(2)?))
            })
            .optional()
            .map_err(io)?;
        let wanted = (topic.partitions, word(topic.cleanup), durability(topic.durability));
        match found {
            None => make(&transaction, topic).map_err(io)?,
            Some((partitions, cleanup, durability)) => {
                differs(topic, "partition count", partitions.to_string(), wanted.0.to_string())?;
                differs(topic, "cleanup", cleanup, wanted.1.into())?;
                differs(topic, "durability", durability, wanted.2.into())?;
            }
        }
    }
    transaction.commit().map_err(io)
}

fn differs(topic: &TopicSpec, what: &'static str, found: String, wanted: String) -> Result<(), Error> {
    if found == wanted { Ok(()) } else { Err(Error::Differs { topic: topic.name.to_string(), what: what.to_owned(), found, wanted }) }
}

fn make(transaction: &rusqlite::Transaction<'_>, topic: &TopicSpec) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO topic (name, partitions, cleanup, durability) VALUES (?1, ?2, ?3, ?4)",
        (&*topic.name, topic.partitions, word(topic.cleanup), durability(topic.durability)),
    )?;
    for partition in 0..topic.partitions {
        transaction.execute("INSERT INTO lane (topic, partition, start) VALUES (?1, ?2, 0)", (&*topic.name, partition))?;
        let id = transaction.last_insert_rowid();
        transaction.execute_batch(&format!(
            "CREATE TABLE records_{id} (offset INTEGER PRIMARY KEY, appended_at INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL) STRICT"
        ))?;
    }
    Ok(())
}

fn word(cleanup: Cleanup) -> &'static str {
    match cleanup {
        Cleanup::Delete => "delete",
        Cleanup::Compact => "compact",
    }
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "full",
        Durability::Awaited => "awaited",
    }
}
