//! Feeds one generation from the journal: many records, one transaction, the positions in it.

use crate::db::{Db, Error};
use crate::fold::{Fold, Known, thaw};
use crate::pauses::Pauses;
use crate::sql::{Dialect, Line};
use crate::write;
use fleet_fence::{Head, Position};
use fleet_log::{EventLog, Item, ReadError, ReadFault, Reader, Stored, TopicPartition};
use fleet_schemas::{Hash, JournalRecord, StreamId, Timestamp};
use futures::FutureExt;
use std::{collections::BTreeMap, sync::Arc, time::Duration, time::Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Records that one transaction covers.
const BATCH: usize = 2000;
/// The same in a rebuild on PostgreSQL, where COPY pays from 5,000 rows on.
const LARGE_BATCH: usize = 10_000;
/// The least time from the beginning of one batch to the next on PostgreSQL, where each costs some ten round trips however little is in it. A
/// record that comes after a silence waits for nothing, and where more comes than fits, batches take longer than this.
const PACE: Duration = Duration::from_millis(10);
/// How long a batch may go on after the process is told to stop.
const GRACE: Duration = Duration::from_secs(3);
/// How often a projector that stands by looks how far the other one is.
const LOOK: Duration = Duration::from_millis(100);
/// How often it asks the log how far that is.
const MEASURE: Duration = Duration::from_secs(1);
/// How long the other one may stand still, with records before it, until this one goes on in its place.
const STILL: Duration = Duration::from_secs(2);

/// How long a record may wait although the generation seems to have all there is.
pub(crate) fn pace(dialect: Dialect) -> Duration {
    if dialect == Dialect::Postgres { PACE } else { Duration::ZERO }
}

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

    /// Feeds the generation until `cancel`. A poisoned partition stops and is shown; the others go on. While log or database are away
    /// it waits; while another projector feeds the generation it stands by.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), Error> {
        let mut reader = self.reader();
        let mut pauses = Pauses::new();
        let mut next = tokio::time::Instant::now();
        loop {
            let first = tokio::select! {
                () = cancel.cancelled() => return Ok(()),
                item = async { tokio::time::sleep_until(next).await; reader.next().await } => item,
            };
            let began = tokio::time::Instant::now();
            self.progress.send_modify(|p| p.idle = false);
            let done = tokio::select! {
                done = self.batch_to(first, reader.as_mut(), None) => done,
                // A database that does not answer must not hold up the end of the process; what breaks off was not.
                () = async { cancel.cancelled().await; tokio::time::sleep(GRACE).await } => return Ok(()),
            };
            let error = match done {
                Ok(wrote) => {
                    pauses = Pauses::new();
                    if wrote {
                        next = began + pace(self.db.write.dialect());
                    }
                    continue;
                }
                Err(error) if error.dropped() => return Err(error),
                Err(error) => error,
            };
            // Position and cache may no longer be what the database has: both are taken from it again.
            let positions = if let Error::Overtaken { partition } = error {
                tracing::info!(partition, "another projector feeds this generation; this one stands by");
                self.stand_by(&cancel).await?
            } else {
                tracing::warn!(%error, "a projection batch is tried again");
                self.positions_again(&mut pauses, &cancel).await?
            };
            let Some(positions) = positions else { return Ok(()) };
            self.fold = Fold::new(positions);
            reader = self.reader();
        }
    }

    /// The positions, however long the database is away; nothing when `cancel` comes first.
    async fn positions_again(&self, pauses: &mut Pauses, cancel: &CancellationToken) -> Result<Option<BTreeMap<u32, Position>>, Error> {
        while pauses.pause(cancel).await {
            match positions(&self.db).await {
                Err(error) if error.unavailable() => {
                    tracing::warn!(%error, "the read model's database is away; its position is asked for again")
                }
                positions => return positions.map(Some),
            }
        }
        Ok(None)
    }

    /// Shows how far the other projector is, until it stands still with records before it; gives the positions to go on from.
    async fn stand_by(&mut self, cancel: &CancellationToken) -> Result<Option<BTreeMap<u32, Position>>, Error> {
        let (mut pauses, mut moved) = (Pauses::new(), Instant::now());
        let (mut ends, mut measured) = (BTreeMap::new(), None::<Instant>);
        loop {
            let now = match positions(&self.db).await {
                Err(error) if error.unavailable() => match self.positions_again(&mut pauses, cancel).await? {
                    Some(positions) => positions,
                    None => return Ok(None),
                },
                positions => positions?,
            };
            if measured.is_none_or(|at| at.elapsed() > MEASURE) {
                ends = self.ends().await.unwrap_or(ends);
                measured = Some(Instant::now());
            }
            let stands = now.iter().all(|(p, at)| self.fold.positions.get(p).is_some_and(|before| before.next == at.next));
            self.fold.positions = now;
            let behind = self.behind(&ends);
            if !stands || !behind {
                moved = Instant::now();
            }
            self.show(!behind);
            if moved.elapsed() > STILL {
                tracing::info!("the other projector stands still; this one goes on in its place");
                return Ok(Some(std::mem::take(&mut self.fold.positions)));
            }
            tokio::select! {
                () = cancel.cancelled() => return Ok(None),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    async fn ends(&self) -> Result<BTreeMap<u32, u64>, Error> {
        let mut ends = BTreeMap::new();
        for at in &self.journal {
            ends.insert(at.partition, self.log.bounds(at.clone()).await?.end);
        }
        Ok(ends)
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

    /// Takes `first` and what is there behind it, folds and writes it; whether there was anything. Records at or past `ends` are left for later.
    async fn batch_to(
        &mut self,
        first: Result<Item, fleet_log::ReadError>,
        reader: &mut dyn Reader,
        ends: Option<&BTreeMap<u32, u64>>,
    ) -> Result<bool, Error> {
        let large = ends.is_some() && self.db.write.dialect() == Dialect::Postgres;
        let most = if large { LARGE_BATCH } else { BATCH };
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
            next = if records.len() < most && failed.is_none() { reader.next().now_or_never() } else { None };
            idle = next.is_none() && records.len() < most;
        }
        let any = !records.is_empty();
        if any {
            self.take(records).await?;
            if ends.is_some() {
                write::told(&self.db, &mut self.fold.changes).await?;
            } else {
                self.write().await?;
            }
        }
        self.show(idle && failed.is_none());
        failed.map_or(Ok(any), |error| Err(error.into()))
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
            let mut q = self.db.write.sql("SELECT id, version, hash, state, at, stopped FROM stream WHERE ");
            q.among("id", some.iter().map(ToString::to_string));
            for row in self.db.write.all(q).await? {
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

fn known(row: &Line) -> Result<(StreamId, Known), Error> {
    let id = row.text("id")?;
    let stream: StreamId = id.parse().map_err(|_| Error::Corrupt(format!("`{id}` is no stream")))?;
    let entity = thaw(&stream, &row.bytes("state")?)?;
    let head = Head { version: row.number("version")?, hash: row.hash("hash")? };
    Ok((stream, Known { entity, head, stopped: row.opt_text("stopped")?, at: row.time("at")? }))
}

/// A generation without a single row begins at the first record of every partition.
async fn begin(db: &Db, journal: &[TopicPartition]) -> Result<(), Error> {
    let start = postcard::to_allocvec(&Position::START).map_err(|e| Error::Corrupt(e.to_string()))?;
    let mut t = db.write.begin().await?;
    let rows = t.sql("SELECT EXISTS (SELECT 1 FROM position) OR EXISTS (SELECT 1 FROM stream) AS begun");
    if !t.optional(rows).await?.map_or(Ok(false), |row| row.truth("begun"))? {
        for at in journal {
            // Of several that begin it at once, one does.
            let insert = t.sql("INSERT INTO position (partition, next, state) VALUES ($1, 0, $2) ON CONFLICT DO NOTHING");
            t.run(insert.with(at.partition).with(start.as_slice())).await?;
        }
    }
    t.commit().await
}

pub(crate) async fn positions(db: &Db) -> Result<BTreeMap<u32, Position>, Error> {
    let mut out = BTreeMap::new();
    for row in db.write.all(db.write.sql("SELECT partition, state FROM position")).await? {
        let partition = row.number("partition")?;
        let position = postcard::from_bytes(&row.bytes("state")?);
        out.insert(partition, position.map_err(|e| Error::Corrupt(format!("position of partition {partition}: {e}")))?);
    }
    Ok(out)
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
        // It may answer later: that says nothing about whose journal it is.
        Err(ReadError { fault: ReadFault::Io(why), .. }) => Err(fleet_log::Error::Io(why).into()),
        Err(e) => another(e.to_string()),
    }
}
