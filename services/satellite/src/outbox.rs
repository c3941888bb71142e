//! What agents saw, until the hub has it: one SQLite file, fsynced, in order.
//!
//! A look's observations, the end of its sweep and the agent's memory are one transaction ([`Outbox::put`]): after a crash there is all of
//! a look or nothing of it. A *lane* is one source: its records are sent in exactly the order in which they were put.
//!
//! An observation that says of its stream what the last one said is dropped, unless that one was acknowledged and is older than the
//! resync span: then it is sent again, so that the hub can confirm after an outage, and an outage does not fill the disk with repetitions.

use crate::{ClientError, Complete, Memory, Seen, Sweep};
use fleet_schemas::{
    BootId, Fact, LookFailed, Observation, ObservationId, SiteId, Source, SourceSeq, StreamId, SweepCompleted, Timestamp, decode, encode,
};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, path::Path, sync::Arc, sync::Mutex, sync::MutexGuard, sync::PoisonError, time::Duration};
use tokio::sync::watch;
use uuid::Uuid;

/// Observations that are sent together: at most this many.
const BATCH_ITEMS: i64 = 500;
/// And of at most this many bytes (but always one).
const BATCH_BYTES: usize = 1 << 20;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    -- AUTOINCREMENT: a number is never given twice, so that `sent.seq` below the lowest one queued means acknowledged.
    CREATE TABLE IF NOT EXISTS queue (seq INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, site TEXT NOT NULL, bytes BLOB NOT NULL,
        at INTEGER NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS queue_lane ON queue (source, site, seq);
    CREATE TABLE IF NOT EXISTS memory (source TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (source, key)) STRICT;
    CREATE TABLE IF NOT EXISTS sent (source TEXT NOT NULL, stream TEXT NOT NULL, site TEXT NOT NULL, digest BLOB NOT NULL, at INTEGER NOT NULL,
        seq INTEGER NOT NULL, PRIMARY KEY (source, stream)) STRICT;
";

/// Why the outbox cannot go on. The process ends: nothing may be seen that is not kept.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
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
        let db = Connection::open(path)?;
        upgrade(&db)?;
        db.execute_batch(SCHEMA)?;
        let inner = Inner { db, runs: BTreeMap::new() };
        let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        Ok(Self { inner: Mutex::new(inner), changed: watch::Sender::new(0), resync: micros(resync), keep: micros(keep) })
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
        let mut inner = self.lock();
        for (site, epoch) in epochs {
            inner.db.execute("DELETE FROM sent WHERE source = ? AND site = ?", params![source.as_str(), site.as_str()])?;
            let run = Run { boot, seq: SourceSeq { epoch: *epoch, counter: 0 }, superseded: None };
            inner.runs.insert((source, site.clone()), run);
        }
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
    pub(crate) fn head(&self, source: Source, sites: &[SiteId]) -> Result<Option<Batch>, OutboxError> {
        let inner = self.lock();
        let wanted =
            "SELECT seq, site, bytes FROM queue WHERE source = ? AND site IN (SELECT value FROM json_each(?)) ORDER BY seq LIMIT ?";
        let mut query = inner.db.prepare_cached(wanted)?;
        let sites = serde_json::to_string(sites).unwrap_or_default();
        let mut rows = query.query(params![source.as_str(), sites, BATCH_ITEMS])?;
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

    /// A newer run of the agent exists: what this one queued for the site is worth nothing any more, since the newer one looks itself.
    /// Gives how many records were dropped.
    pub(crate) fn supersede(&self, source: Source, site: &SiteId, why: &str) -> Result<usize, OutboxError> {
        let mut inner = self.lock();
        let dropped = inner.db.execute("DELETE FROM queue WHERE source = ? AND site = ?", params![source.as_str(), site.as_str()])?;
        if let Some(run) = inner.runs.get_mut(&(source, site.clone())) {
            run.superseded = Some(why.to_owned());
        }
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
        Ok(dropped)
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

/// A file of an earlier build has no time of each record: those that wait in it count as put in the year 1970 would be let go, so as now.
fn upgrade(db: &Connection) -> Result<(), OutboxError> {
    let columns: i64 = db.query_row("SELECT count(*) FROM pragma_table_info('queue') WHERE name IN ('seq', 'at')", [], |r| r.get(0))?;
    if columns == 1 {
        db.execute_batch(
            "ALTER TABLE queue ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
             UPDATE queue SET at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);
             DROP INDEX IF EXISTS queue_lane;",
        )?;
    }
    Ok(())
}

/// A look on its way into the file.
struct Put<'a> {
    source: Source,
    now: Timestamp,
    resync: i64,
    keep: i64,
    runs: &'a mut BTreeMap<(Source, SiteId), Run>,
    db: Transaction<'a>,
}

impl Put<'_> {
    fn all(mut self, look: Finished<'_>) -> Result<u64, OutboxError> {
        let Finished { sites, interval, sweep, .. } = look;
        let interval_seconds = i64::try_from(interval.as_secs_f64().ceil() as u64).unwrap_or(i64::MAX);
        let mut queued = 0;
        self.let_go()?;
        let mut unsent = BTreeMap::new();
        for site in sites {
            let lowest = "SELECT coalesce(min(seq), 9223372036854775807) FROM queue WHERE source = ? AND site = ?";
            let lowest: i64 = self.db.query_row(lowest, params![self.source.as_str(), site.as_str()], |row| row.get(0))?;
            unsent.insert(site.clone(), lowest);
        }
        let mut observations = sweep.observations;
        // A batch holds one site; within a site the agent's order stays.
        observations.sort_by(|a, b| a.site.cmp(&b.site));
        for seen in observations {
            let unsent = unsent.get(&seen.site).copied().unwrap_or(i64::MAX);
            queued += u64::from(self.changed_or_due(&seen, unsent)?);
        }
        for Complete { site, count } in sweep.complete {
            queued += self.about_site(&site, SweepCompleted { source: self.source, interval_seconds, count }.into())?;
        }
        if let Some(ClientError { asked, came, fault, .. }) = sweep.failed {
            for site in sites {
                let message = format!("{asked}: {came}");
                queued += self.about_site(site, LookFailed { source: self.source, interval_seconds, fault, message }.into())?;
            }
        }
        for (key, value) in sweep.memory.0 {
            let source = self.source.as_str();
            match value {
                Some(bytes) => {
                    self.db.execute("INSERT OR REPLACE INTO memory (source, key, value) VALUES (?, ?, ?)", params![source, key, bytes])
                }
                None => self.db.execute("DELETE FROM memory WHERE source = ? AND key = ?", params![source, key]),
            }?;
        }
        self.db.commit()?;
        Ok(queued)
    }

    /// Lets go of what waited too long, and says so: the hub learns how things are from the looks that follow.
    fn let_go(&self) -> Result<(), OutboxError> {
        let oldest = self.now.0.saturating_sub(self.keep);
        let gone = self.db.execute("DELETE FROM queue WHERE at < ?", [oldest])?;
        if gone > 0 {
            metrics::counter!("fm_outbox_expired_total").increment(gone as u64);
            tracing::error!(gone, "the hub took nothing for so long that observations were let go");
            self.db.execute("DELETE FROM sent", [])?;
        }
        Ok(())
    }

    /// Queues what says something new of its stream, or what has not been said for the resync span.
    fn changed_or_due(&mut self, seen: &Seen, unsent: i64) -> Result<bool, OutboxError> {
        let payload = seen.fact.encode();
        let mut digest = Sha256::new();
        for part in [seen.site.as_str().as_bytes(), seen.native_id.as_bytes(), payload.r#type.as_bytes(), &payload.schema.0, &payload.bytes]
        {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let (digest, source, stream) = (digest.finalize().to_vec(), self.source.as_str(), seen.stream.to_string());
        let last = "SELECT digest, at, seq FROM sent WHERE source = ? AND stream = ?";
        let last: Option<(Vec<u8>, i64, i64)> = {
            let mut query = self.db.prepare_cached(last)?;
            query.query_row(params![source, stream], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?
        };
        if let Some((said, at, seq)) = last {
            // A clock that was put back must not silence us: an age below zero is due as well.
            let due = seq < unsent && !(0..self.resync).contains(&self.now.since(Timestamp(at)));
            if said == digest && !due {
                return Ok(false);
            }
        }
        let seq = self.queue(seen)?;
        let keep = "INSERT OR REPLACE INTO sent (source, stream, site, digest, at, seq) VALUES (?, ?, ?, ?, ?, ?)";
        self.db.prepare_cached(keep)?.execute(params![source, stream, seen.site.as_str(), digest, self.now.0, seq])?;
        Ok(true)
    }

    fn about_site(&mut self, site: &SiteId, fact: Fact) -> Result<u64, OutboxError> {
        let (stream, native_id) = (StreamId::Site(site.clone()), site.to_string());
        self.queue(&Seen { stream, site: site.clone(), native_id, fact, observed_at: self.now })?;
        Ok(1)
    }

    fn queue(&mut self, seen: &Seen) -> Result<i64, OutboxError> {
        let run = self.runs.get_mut(&(self.source, seen.site.clone()));
        let run = run.ok_or_else(|| OutboxError::NotClaimed(seen.site.clone(), self.source))?;
        run.seq.counter += 1;
        // Counters of two sites, or sources, of one boot are the same numbers: the name holds all four.
        let name = format!("{}/{}/{}/{}", seen.site, self.source, run.seq.epoch, run.seq.counter);
        let observation = Observation {
            id: ObservationId(Uuid::new_v5(&run.boot.0, name.as_bytes())),
            stream: seen.stream.clone(),
            fact: seen.fact.encode(),
            site: seen.site.clone(),
            source: self.source,
            native_id: seen.native_id.clone(),
            source_seq: run.seq.clone(),
            observed_at: seen.observed_at,
            // Set when it is sent, and by the gateway.
            sent_at: Timestamp::default(),
            received_at: Timestamp::default(),
            client: String::new(),
            trace_id: String::new(),
            reach: Vec::new(),
        };
        let insert = "INSERT INTO queue (source, site, bytes, at) VALUES (?, ?, ?, ?)";
        self.db.prepare_cached(insert)?.execute(params![self.source.as_str(), seen.site.as_str(), encode(&observation), self.now.0])?;
        Ok(self.db.last_insert_rowid())
    }
}
