//! What agents saw, until the hub has it: one SQLite file, fsynced, in order.
//!
//! A look's observations, the end of its sweep and the agent's memory are one transaction ([`Outbox::put`]): after a crash there is all of
//! a look or nothing of it. A *lane* is one source: its records are sent in exactly the order in which they were put.
//!
//! An observation that says of its stream what the last one said is dropped, unless that one was acknowledged and is older than the
//! resync span: then it is sent again, so that the hub can confirm after an outage, and an outage does not fill the disk with repetitions.

mod put;

use crate::{Memory, Sweep};
use fleet_schemas::{BootId, Observation, SiteId, Source, SourceSeq, Timestamp, decode};
use put::Put;
use rusqlite::{Connection, params};
use std::{collections::BTreeMap, path::Path, sync::Arc, sync::Mutex, sync::MutexGuard, sync::PoisonError, time::Duration};
use tokio::sync::watch;

/// Observations that are sent together: at most this many.
const BATCH_ITEMS: i64 = 500;
/// And of at most this many bytes (but always one): on the wire they are half as many again, and a body has at most a mebibyte.
const BATCH_BYTES: usize = 600 << 10;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    -- AUTOINCREMENT: a number is never given twice, so that `sent.seq` below the lowest one queued means acknowledged.
    CREATE TABLE IF NOT EXISTS queue (seq INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, site TEXT NOT NULL, bytes BLOB NOT NULL,
        at INTEGER NOT NULL, epoch INTEGER NOT NULL DEFAULT 0, once INTEGER NOT NULL DEFAULT 0) STRICT;
    CREATE INDEX IF NOT EXISTS queue_lane ON queue (source, site, seq);
    CREATE INDEX IF NOT EXISTS queue_age ON queue (source, site, at);
    -- Facts that are said only once, of a run that counts no more: the next run says them.
    CREATE TABLE IF NOT EXISTS owed (source TEXT NOT NULL, site TEXT NOT NULL, bytes BLOB NOT NULL) STRICT;
    -- What the hub will never take: kept for a person.
    CREATE TABLE IF NOT EXISTS refused (source TEXT NOT NULL, site TEXT NOT NULL, bytes BLOB NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS memory (source TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (source, key)) STRICT;
    CREATE TABLE IF NOT EXISTS sent (source TEXT NOT NULL, stream TEXT NOT NULL, site TEXT NOT NULL, digest BLOB NOT NULL, at INTEGER NOT NULL,
        seq INTEGER NOT NULL, PRIMARY KEY (source, stream)) STRICT;
";

/// Why the outbox cannot go on. The process ends: nothing may be seen that is not kept.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Another process has the folder: two satellites on one outbox would send each other's records.
    #[error("outbox: {0} is in use by another process")]
    InUse(String),
    /// The lock beside the file failed.
    #[error("outbox: {0}")]
    Lock(#[from] std::io::Error),
    /// SQLite failed: a full disk, a broken file.
    #[error("outbox: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// A queued record cannot be read, because a newer build wrote it.
    #[error("outbox: a queued observation cannot be read: {0}")]
    Unreadable(#[from] fleet_schemas::DecodeError),
    /// A defect: an agent spoke for a site whose epoch nobody claimed.
    #[error("outbox: {1} observes site {0}, for which it claimed no epoch")]
    NotClaimed(SiteId, Source),
}

/// The outbox. Share it as `Arc<Outbox>`; its calls block for a few milliseconds (an fsync).
pub struct Outbox {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
    resync: i64,
    keep: i64,
    /// Held as long as this lives.
    _lock: std::fs::File,
}

struct Inner {
    db: Connection,
    runs: BTreeMap<(Source, SiteId), Run>,
}

/// One run of an agent at one site.
#[derive(Clone)]
struct Run {
    boot: BootId,
    seq: SourceSeq,
    superseded: Option<String>,
}

/// The head of a lane: records of one site.
pub(crate) struct Batch {
    pub(crate) site: SiteId,
    pub(crate) last: i64,
    pub(crate) observations: Vec<Observation>,
}

/// A finished look of an agent, to be put.
pub(crate) struct Finished<'a> {
    pub(crate) source: Source,
    pub(crate) sites: &'a [SiteId],
    pub(crate) interval: Duration,
    pub(crate) now: Timestamp,
    pub(crate) sweep: Sweep,
}

impl Outbox {
    /// Opens, or creates, the file. `resync` is the age at which what is unchanged is sent again (900 s by default), `keep` the one at which
    /// what the hub did not take is let go (7 days).
    pub fn open(path: &Path, resync: Duration, keep: Duration) -> Result<Self, OutboxError> {
        let lock = std::fs::File::options().create(true).append(true).open(path.with_added_extension("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => return Err(OutboxError::InUse(path.display().to_string())),
            Err(std::fs::TryLockError::Error(e)) => return Err(e.into()),
        }
        let db = Connection::open(path)?;
        upgrade(&db)?;
        db.execute_batch(SCHEMA)?;
        let inner = Inner { db, runs: BTreeMap::new() };
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Ok(Self { inner: Mutex::new(inner), changed: watch::Sender::new(0), resync: micros(resync), keep: micros(keep), _lock: lock })
    }

    /// How many wait of each (source, site), and since when the oldest does.
    pub fn depth(&self) -> Result<Vec<(String, String, u64, Timestamp)>, OutboxError> {
        let inner = self.lock();
        let mut query = inner.db.prepare_cached("SELECT source, site, count(*), min(at) FROM queue GROUP BY source, site")?;
        let rows = query.query_map([], |r| Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)?.unsigned_abs(), Timestamp(r.get(3)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What the agents of `source` remember.
    pub fn memory(&self, source: Source) -> Result<Memory, OutboxError> {
        let inner = self.lock();
        let mut query = inner.db.prepare_cached("SELECT key, value FROM memory WHERE source = ?")?;
        let rows = query.query_map([source.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Memory(rows.collect::<Result<_, _>>()?))
    }

    /// Observations that wait to be sent.
    pub fn waiting(&self, source: Source) -> Result<u64, OutboxError> {
        let count =
            self.lock().db.query_row("SELECT count(*) FROM queue WHERE source = ?", [source.as_str()], |row| row.get::<_, i64>(0))?;
        Ok(count.unsigned_abs())
    }

    /// A run of an agent begins, with the epoch that each site granted. Counters begin at 1, and everything will be sent once: another
    /// satellite may have spoken in between.
    pub(crate) fn begin(&self, source: Source, boot: BootId, epochs: &[(SiteId, u64)]) -> Result<(), OutboxError> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        for (site, epoch) in epochs {
            let run = Run { boot, seq: SourceSeq { epoch: *epoch, counter: 0 }, superseded: None };
            inner.runs.insert((source, site.clone()), run);
            let mut put = Put {
                source,
                now: Timestamp::default(),
                resync: self.resync,
                keep: self.keep,
                runs: &mut inner.runs,
                db: inner.db.transaction()?,
            };
            put.db.execute("DELETE FROM sent WHERE source = ? AND site = ?", params![source.as_str(), site.as_str()])?;
            put.owed(site)?;
            put.db.commit()?;
        }
        drop(guard);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Puts a look: its observations, then the end of its sweeps (or its failure), and what the agent remembers. All or nothing.
    /// Gives how many records were queued.
    pub(crate) fn put(&self, look: Finished<'_>) -> Result<u64, OutboxError> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        let mut runs = inner.runs.clone();
        let put =
            Put { source: look.source, now: look.now, resync: self.resync, keep: self.keep, runs: &mut runs, db: inner.db.transaction()? };
        let queued = put.all(look)?;
        inner.runs = runs;
        drop(guard);
        self.changed.send_modify(|version| *version += 1);
        Ok(queued)
    }

    /// The records of a lane to send next, if any.
    pub(crate) fn head(&self, source: Source, sites: &[SiteId], most: i64) -> Result<Option<Batch>, OutboxError> {
        let inner = self.lock();
        let wanted =
            "SELECT seq, site, bytes FROM queue WHERE source = ? AND site IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?";
        let mut query = inner.db.prepare_cached(wanted)?;
        let sites = serde_json::to_string(sites).unwrap_or_default();
        let mut rows = query.query(params![source.as_str(), sites, most.clamp(1, BATCH_ITEMS)])?;
        let (mut batch, mut size) = (None::<Batch>, 0);
        while let Some(row) = rows.next()? {
            let (seq, site, bytes): (i64, String, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            size += bytes.len();
            match &mut batch {
                // The gateway takes a batch of one site.
                Some(batch) if batch.site.as_str() != site || size > BATCH_BYTES => break,
                Some(batch) => {
                    batch.last = seq;
                    batch.observations.push(decode(&bytes)?);
                }
                None => batch = Some(Batch { site: SiteId(site.into()), last: seq, observations: vec![decode(&bytes)?] }),
            }
        }
        Ok(batch)
    }

    /// The hub's log has everything of this site up to `last`. If that was `backfill`, the next look says everything anew: what it said
    /// while the hub was away confirms nothing there.
    pub(crate) fn acknowledge(&self, source: Source, site: &SiteId, last: i64, backfill: bool) -> Result<(), OutboxError> {
        let mut inner = self.lock();
        let db = inner.db.transaction()?;
        db.execute("DELETE FROM queue WHERE source = ? AND site = ? AND seq <= ?", params![source.as_str(), site.as_str(), last])?;
        if backfill {
            db.execute("DELETE FROM sent WHERE source = ? AND site = ?", params![source.as_str(), site.as_str()])?;
        }
        db.commit()?;
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// A newer run of the agent exists than the one of `epoch`: what that one queued for the site is worth nothing any more, since the
    /// newer one looks itself. What is said only once is owed, and said by our next run. Gives how many records were dropped.
    pub(crate) fn supersede(&self, source: Source, site: &SiteId, epoch: u64, why: &str) -> Result<usize, OutboxError> {
        let mut inner = self.lock();
        let db = inner.db.transaction()?;
        let old = "source = ?1 AND site = ?2 AND epoch <= ?3";
        let of = params![source.as_str(), site.as_str(), epoch as i64];
        db.execute(&format!("INSERT INTO owed SELECT source, site, bytes FROM queue WHERE {old} AND once = 1 ORDER BY seq"), of)?;
        let dropped = db.execute(&format!("DELETE FROM queue WHERE {old}"), of)?;
        db.commit()?;
        if let Some(run) = inner.runs.get_mut(&(source, site.clone())).filter(|run| run.seq.epoch <= epoch) {
            run.superseded = Some(why.to_owned());
        }
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
        Ok(dropped)
    }

    /// The hub will never take the record `seq`: it is put aside for a person, and the lane goes on.
    pub(crate) fn put_aside(&self, seq: i64, now: Timestamp, why: &str) -> Result<(), OutboxError> {
        let mut inner = self.lock();
        let db = inner.db.transaction()?;
        db.execute("INSERT INTO refused SELECT source, site, bytes, ?, ? FROM queue WHERE seq = ?", params![now.0, why, seq])?;
        db.execute("DELETE FROM queue WHERE seq = ?", [seq])?;
        db.commit()?;
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Lets go of what waited too long, also while nobody looks.
    pub(crate) fn let_go(&self, now: Timestamp) -> Result<(), OutboxError> {
        let inner = self.lock();
        let_go(&inner.db, now, self.keep)?;
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
        Ok(())
    }

    /// Tells of every put and every acknowledgement.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until nothing of an earlier run waits for these sites: it must go out under its own epoch, before a new one is claimed.
    pub(crate) async fn emptied(&self, source: Source, sites: &[SiteId]) -> Result<(), OutboxError> {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let waits = |site: &SiteId| {
                let query = "SELECT EXISTS (SELECT 1 FROM queue WHERE source = ? AND site = ?)";
                self.lock().db.query_row(query, params![source.as_str(), site.as_str()], |row| row.get::<_, bool>(0))
            };
            if !sites.iter().map(waits).collect::<Result<Vec<_>, _>>()?.contains(&true) {
                return Ok(());
            }
            // The sender lives as long as self.
            _ = changes.changed().await;
        }
    }

    /// Waits until the run of one of these sites is superseded; gives the hub's words.
    pub(crate) async fn superseded(&self, source: Source, sites: &[SiteId]) -> String {
        let mut changes = self.changes();
        loop {
            changes.borrow_and_update();
            let why = sites.iter().find_map(|site| self.lock().runs.get(&(source, site.clone()))?.superseded.clone());
            match why {
                Some(why) => return why,
                None => _ = changes.changed().await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic in between leaves a rolled-back transaction and the old counters.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a call of the outbox off the async threads.
pub(crate) async fn on_disk<T: Send + 'static>(
    outbox: &Arc<Outbox>,
    call: impl FnOnce(&Outbox) -> Result<T, OutboxError> + Send + 'static,
) -> Result<T, OutboxError> {
    let outbox = outbox.clone();
    match tokio::task::spawn_blocking(move || call(&outbox)).await {
        Ok(done) => done,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that shuts down cancels: there is nobody left to answer.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Lets go of what waited too long, and says so: the hub learns how things are from the looks that follow. What is said only once stays.
fn let_go(db: &Connection, now: Timestamp, keep: i64) -> Result<(), OutboxError> {
    let gone = db.execute("DELETE FROM queue WHERE at < ? AND once = 0", [now.0.saturating_sub(keep)])?;
    if gone > 0 {
        metrics::counter!("fm_outbox_expired_total").increment(gone as u64);
        tracing::error!(gone, "the hub took nothing for so long that observations were let go");
        db.execute("DELETE FROM sent", [])?;
    }
    Ok(())
}

/// A file of an earlier build lacks columns. Records that wait in it count as put now; of which epoch they are they say themselves.
fn upgrade(db: &Connection) -> Result<(), OutboxError> {
    let has =
        |column: &str| db.query_row("SELECT count(*) FROM pragma_table_info('queue') WHERE name = ?", [column], |r| r.get::<_, i64>(0));
    if has("seq")? == 0 {
        return Ok(());
    }
    if has("at")? == 0 {
        db.execute_batch(
            "ALTER TABLE queue ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
             UPDATE queue SET at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);
             DROP INDEX IF EXISTS queue_lane;",
        )?;
    }
    if has("epoch")? == 0 {
        db.execute_batch(
            "ALTER TABLE queue ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0; ALTER TABLE queue ADD COLUMN once INTEGER NOT NULL DEFAULT 0;",
        )?;
    }
    Ok(())
}
