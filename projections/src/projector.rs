//! Feeds one generation from the journal: many records, one transaction, the positions in it.

use crate::db::{Db, Error};
use crate::fold::{Fold, Known, thaw};
use crate::write;
use fleet_fence::{Head, Position};
use fleet_log::{EventLog, Item, ReadError, ReadFault, Reader, Stored, TopicPartition};
use fleet_schemas::{Hash, JournalRecord, StreamId, Timestamp};
use futures::FutureExt;
use sqlx::Row;
use std::{collections::BTreeMap, sync::Arc, time::Duration, time::Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Records that one transaction covers.
const BATCH: usize = 2000;

/// How far a generation is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Per partition.
    pub partitions: BTreeMap<u32, Standing>,
    /// Whether everything there is has been read.
    pub idle: bool,
    /// When that was last so.
    pub caught_up: Option<Instant>,
}

/// How far one partition is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Next offset.
    pub next: u64,
    /// When its last accepted record was recorded.
    pub recorded_at: Timestamp,
    /// Why it stopped.
    pub stopped: Option<String>,
}

/// See the module.
pub struct Projector {
    db: Db,
    log: Arc<dyn EventLog>,
    journal: Vec<TopicPartition>,
    fold: Fold,
    stopped: BTreeMap<u32, String>,
    progress: watch::Sender<Progress>,
}

impl Projector {
    /// Takes up where the generation stands, after checking that the journal is still the one it was made from.
    pub async fn new(db: Db, log: Arc<dyn EventLog>, journal: Vec<TopicPartition>) -> Result<Self, Error> {
        begin(&db, &journal).await?;
        let positions = positions(&db).await?;
        for at in &journal {
            let position = positions.get(&at.partition).ok_or(Error::PositionLost { partition: at.partition })?;
            verify(&*log, at, position).await?;
        }
        let projector = Self { db, log, journal, fold: Fold::new(positions), stopped: BTreeMap::new(), progress: watch::Sender::default() };
        projector.show(false);
        Ok(projector)
    }

    /// Its progress.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn reader(&self) -> Box<dyn Reader> {
        let next = |at: &TopicPartition| self.fold.positions.get(&at.partition).map_or(0, |p| p.next);
        let open = self.journal.iter().filter(|at| !self.stopped.contains_key(&at.partition));
        self.log.read(&open.map(|at| (at.clone(), next(at))).collect::<Vec<_>>())
    }

    /// Feeds the generation until `cancel`. A poisoned partition stops and is shown; the others go on.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), Error> {
        let mut reader = self.reader();
        let mut pause = Duration::from_millis(50);
        loop {
            let first = tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                item = reader.next() => item,
            };
            self.progress.send_modify(|p| p.idle = false);
            match self.batch_to(first, reader.as_mut(), None).await {
                Ok(()) => pause = Duration::from_millis(50),
                Err(error) => {
                    // Position and cache may no longer be what the file has: take both from the file again.
                    tracing::warn!(%error, "a projection batch is tried again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                    self.fold = Fold::new(positions(&self.db).await?);
                    reader = self.reader();
                }
            }
        }
    }

    /// Feeds a generation that nobody reads yet up to these offsets, partition by partition those that can be reached. States are
    /// written once, at the end, with the positions: what was begun and not finished is of no use.
    pub async fn run_to(&mut self, ends: &BTreeMap<u32, u64>) -> Result<(), Error> {
        let mut reader = self.reader();
        while self.behind(ends) {
            let first = reader.next().await;
            self.batch_to(first, reader.as_mut(), Some(ends)).await?;
        }
        self.write().await
    }

    fn behind(&self, ends: &BTreeMap<u32, u64>) -> bool {
        ends.iter().any(|(p, end)| !self.stopped.contains_key(p) && self.fold.positions.get(p).map_or(0, |p| p.next) < *end)
    }

    /// Takes `first` and what is there behind it, folds and writes it. Records at or past `ends` are left for later.
    async fn batch_to(
        &mut self,
        first: Result<Item, fleet_log::ReadError>,
        reader: &mut dyn Reader,
        ends: Option<&BTreeMap<u32, u64>>,
    ) -> Result<(), Error> {
        let mut records = Vec::new();
        let mut next = Some(first);
        let (mut idle, mut failed) = (false, None);
        while let Some(item) = next {
            match item {
                Ok(Item::Record(stored)) => {
                    if ends.is_none_or(|e| stored.offset < e.get(&stored.at.partition).copied().unwrap_or(0)) {
                        records.push(stored);
                    }
                }
                Ok(Item::End { .. }) => {}
                // What failed may come back: what was read so far is written, and reading begins anew behind it.
                Err(ReadError { fault: ReadFault::Io(why), .. }) => failed = Some(fleet_log::Error::Io(why)),
                Err(e) => self.stop(e.at.partition, e.fault.to_string()),
            }
            next = if records.len() < BATCH && failed.is_none() { reader.next().now_or_never() } else { None };
            idle = next.is_none() && records.len() < BATCH;
        }
        if !records.is_empty() {
            self.take(records).await?;
            if ends.is_some() {
                write::told(&self.db, &mut self.fold.changes).await?;
            } else {
                self.write().await?;
            }
        }
        self.show(idle && failed.is_none());
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn take(&mut self, records: Vec<Stored>) -> Result<(), Error> {
        let decoded: Vec<_> = records.into_iter().map(|s| (JournalRecord::decode(&s.record.value), s)).collect();
        let streams = decoded.iter().filter_map(|(r, _)| Fold::stream_of(r.as_ref().ok()?));
        let missing: Vec<_> = streams.filter(|s| !self.fold.cache.contains_key(*s)).cloned().collect();
        self.load(missing).await?;
        for (record, stored) in decoded {
            let partition = stored.at.partition;
            if self.stopped.contains_key(&partition) {
                continue;
            }
            let taken = record.map_err(|e| e.to_string()).and_then(|r| self.fold.take(partition, &stored, r));
            if let Err(why) = taken {
                self.stop(partition, format!("offset {}: {why}", stored.offset));
            }
        }
        Ok(())
    }

    async fn write(&mut self) -> Result<(), Error> {
        write::write(&self.db, &self.fold).await?;
        self.fold.written();
        Ok(())
    }

    fn stop(&mut self, partition: u32, why: String) {
        tracing::error!(partition, why, "a projection stopped; a person must look");
        metrics::gauge!("fm_projection_halted", "partition" => partition.to_string()).set(1.0);
        self.stopped.entry(partition).or_insert(why);
    }

    async fn load(&mut self, mut streams: Vec<StreamId>) -> Result<(), Error> {
        streams.sort();
        streams.dedup();
        for some in streams.chunks(500) {
            let mut q = sqlx::QueryBuilder::<sqlx::Sqlite>::new("SELECT id, version, hash, state, at, stopped FROM stream WHERE id IN (");
            let mut list = q.separated(", ");
            for stream in some {
                list.push_bind(stream.to_string());
            }
            q.push(")");
            for row in q.build().fetch_all(&self.db.write).await? {
                let known = known(&row)?;
                self.fold.cache.insert(known.0, known.1);
            }
        }
        Ok(())
    }

    fn show(&self, idle: bool) {
        let standing = |(partition, position): (&u32, &Position)| {
            let recorded_at = Timestamp(position.recorded_at);
            (*partition, Standing { next: position.next, recorded_at, stopped: self.stopped.get(partition).cloned() })
        };
        let partitions: BTreeMap<_, _> = self.fold.positions.iter().map(standing).collect();
        self.progress.send_modify(|p| {
            p.partitions = partitions;
            p.idle = idle;
            p.caught_up = if idle { Some(Instant::now()) } else { p.caught_up };
        });
    }
}

fn known(row: &sqlx::sqlite::SqliteRow) -> Result<(StreamId, Known), Error> {
    let id: String = row.try_get("id")?;
    let stream: StreamId = id.parse().map_err(|_| Error::Corrupt(format!("`{id}` is no stream")))?;
    let hash: Vec<u8> = row.try_get("hash")?;
    let hash = Hash(hash.try_into().map_err(|_| Error::Corrupt(format!("hash of {stream}")))?);
    let entity = thaw(&stream, &row.try_get::<Vec<u8>, _>("state")?)?;
    let head = Head { version: row.try_get::<i64, _>("version")? as u64, hash };
    Ok((stream, Known { entity, head, stopped: row.try_get("stopped")?, at: Timestamp(row.try_get("at")?) }))
}

/// A generation without a single row begins at the first record of every partition.
async fn begin(db: &Db, journal: &[TopicPartition]) -> Result<(), Error> {
    let start = postcard::to_allocvec(&Position::START).map_err(|e| Error::Corrupt(e.to_string()))?;
    let mut transaction = db.write.begin_with("BEGIN IMMEDIATE").await?;
    let rows: i64 =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM position) + EXISTS (SELECT 1 FROM stream)").fetch_one(&mut *transaction).await?;
    if rows == 0 {
        for at in journal {
            let insert = sqlx::query("INSERT INTO position (partition, next, state) VALUES ($1, 0, $2)");
            insert.bind(at.partition).bind(&start).execute(&mut *transaction).await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}

pub(crate) async fn positions(db: &Db) -> Result<BTreeMap<u32, Position>, Error> {
    let rows: Vec<(u32, Vec<u8>)> = sqlx::query_as("SELECT partition, state FROM position").fetch_all(&db.write).await?;
    let read = |(partition, state): (u32, Vec<u8>)| {
        postcard::from_bytes(&state).map(|p| (partition, p)).map_err(|e| Error::Corrupt(format!("position of partition {partition}: {e}")))
    };
    rows.into_iter().map(read).collect()
}

/// The record before the position must be the one that was read then.
async fn verify(log: &dyn EventLog, at: &TopicPartition, position: &Position) -> Result<(), Error> {
    let partition = at.partition;
    let another = |why: String| Err(Error::AnotherJournal { partition, why });
    let bounds = log.bounds(at.clone()).await?;
    if bounds.start > 0 || bounds.end < position.next {
        return another(format!("the journal has offsets {} to {}, the read model stands at {}", bounds.start, bounds.end, position.next));
    }
    let Some(before) = position.next.checked_sub(1) else { return Ok(()) };
    match log.read(&[(at.clone(), before)]).next().await {
        Ok(Item::Record(stored)) if Hash::of(&stored.record.value) == position.before => Ok(()),
        Ok(_) => another(format!("the record at offset {before} is not the one that was read")),
        Err(e) => another(e.to_string()),
    }
}
