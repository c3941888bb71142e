//! Generations: one serves; a rebuild fills the next beside it and compares. Both are fed from then on, so that a flip or a roll-back
//! loses nothing; the one that does not serve goes with the next rebuild, or when it is dropped.

use crate::compare::{Difference, compare};
use crate::db::{Db, Error};
use crate::parked;
use crate::projector::{Progress, Projector};
use crate::queries::Reads;
use crate::shelf::{self, Slot, file, remove};
use fleet_log::{EventLog, TopicPartition};
use sqlx::sqlite::SqlitePool;
use std::{collections::BTreeMap, path::Path, path::PathBuf, sync::Arc, time::Duration};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;

/// What a rebuild came to.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The new generation.
    pub generation: i64,
    /// Decisions in its history.
    pub decisions: i64,
    /// Devices.
    pub devices: i64,
    /// How long filling it took.
    pub took: Duration,
    /// Where it differs from the one that served; empty = row for row the same.
    pub differences: Vec<Difference>,
    /// Whether it serves now.
    pub flipped: bool,
}

/// One generation, as it is listed.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Its number.
    pub number: i64,
    /// Whether it serves.
    pub active: bool,
    /// Whether it is fed.
    pub fed: bool,
    /// How far it is.
    pub progress: Progress,
    /// Next offset of each partition, as its file has it.
    pub next: BTreeMap<u32, u64>,
}

/// Why another generation does not serve now.
#[derive(Debug, thiserror::Error)]
pub enum Unturned {
    /// There is none to turn to.
    #[error("there is no generation {0} the one that serves: {1}")]
    None(&'static str, &'static str),
    /// It would show an older fleet.
    #[error("generation {number} is behind in partition {partition}: at offset {behind}, the one that serves at {ahead}")]
    Behind {
        /// The other one.
        number: i64,
        /// Where.
        partition: u32,
        /// Its next offset.
        behind: u64,
        /// That of the one that serves.
        ahead: u64,
    },
    /// The read model failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

/// How long a flip waits for the other generation to come level.
const LEVEL: Duration = Duration::from_secs(10);

/// The generation that serves, and the one beside it.
struct Shelf {
    active: Slot,
    standby: Option<Slot>,
}

/// See the module.
pub struct Generations {
    folder: PathBuf,
    log: Arc<dyn EventLog>,
    journal: Vec<TopicPartition>,
    parked: TopicPartition,
    control: SqlitePool,
    shelf: Mutex<Shelf>,
    /// One rebuild at a time.
    rebuilding: Mutex<()>,
    reads: watch::Sender<Reads>,
}

impl Generations {
    /// Opens the generation that serves, or makes the first. Nothing is fed before [`Generations::feed`]. One of another format is
    /// put out of service: a new and empty one takes its place, and is filled from the journal.
    pub async fn open(folder: &Path, log: Arc<dyn EventLog>, journal: Vec<TopicPartition>, parked: TopicPartition) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|source| Error::Io { path: folder.display().to_string(), source })?;
        let control = shelf::control(&folder.join("control.sqlite")).await?;
        let (number, beside) = shelf::numbers(&control).await?;
        shelf::others(folder, &[Some(number), beside])?;
        let (number, db) = match Db::open(&file(folder, number)).await {
            Err(error @ Error::Format { .. }) => {
                tracing::warn!(%error, "the read model is made anew from the journal");
                let next = shelf::next_number(&control).await?;
                remove(&file(folder, next))?;
                let db = Db::open(&file(folder, next)).await?;
                sqlx::query("UPDATE generation SET active = $1, standby = NULL").bind(next).execute(&control).await?;
                shelf::others(folder, &[Some(next)])?;
                (next, db)
            }
            opened => (number, opened?),
        };
        let standby = shelf::beside(folder, &control, beside.filter(|b| *b != number)).await?;
        let active = Slot::new(number, db);
        let reads = watch::Sender::new(active.reads());
        let shelf = Mutex::new(Shelf { active, standby });
        Ok(Self { folder: folder.into(), log, journal, parked, control, shelf, rebuilding: Mutex::default(), reads })
    }

    /// The store beside the generations: what must outlive them.
    pub fn control(&self) -> &SqlitePool {
        &self.control
    }

    /// What the API asks; follows flips.
    pub fn reads(&self) -> watch::Receiver<Reads> {
        self.reads.subscribe()
    }

    /// Feeds the generation that serves, and the one beside it, from now on.
    pub async fn feed(&self) -> Result<(), Error> {
        let mut shelf = self.shelf.lock().await;
        self.start(&mut shelf.active).await?;
        self.reads.send_replace(shelf.active.reads());
        self.start_beside(&mut shelf).await;
        Ok(())
    }

    async fn start(&self, slot: &mut Slot) -> Result<(), Error> {
        let projector = Projector::new(slot.db.clone(), self.log.clone(), self.journal.clone()).await?;
        slot.progress = projector.progress();
        let cancel = CancellationToken::new();
        let parked = parked::feed(slot.db.clone(), self.log.clone(), self.parked.clone(), cancel.clone());
        let stop = cancel.clone();
        let feeds = async move { tokio::try_join!(projector.run(stop), parked).map(|_| ()) };
        slot.feed = Some((cancel, tokio::spawn(feeds)));
        Ok(())
    }

    /// One that cannot be fed is of no use, and no fault of the one that serves.
    async fn start_beside(&self, shelf: &mut Shelf) {
        let Some(standby) = &mut shelf.standby else { return };
        if let Err(error) = self.start(standby).await {
            tracing::warn!(%error, generation = standby.number, "the generation that does not serve cannot be fed");
        }
    }

    /// Waits until the feed of the serving generation ends by itself, or could not be begun again after a rebuild: both are faults. For
    /// the process that owns it, which has begun the feed.
    pub async fn watch(&self, cancel: CancellationToken) -> Result<(), Error> {
        let mut tick = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = tick.tick() => {}
            }
            let mut shelf = self.shelf.lock().await;
            match &shelf.active.feed {
                Some((_, task)) if task.is_finished() => return shelf.active.pause().await,
                Some(_) => {}
                None => return Err(Error::Unfed),
            }
            if let Some(standby) = shelf.standby.as_mut().filter(|s| s.feed.as_ref().is_some_and(|(_, task)| task.is_finished()))
                && let Err(error) = standby.pause().await
            {
                tracing::error!(%error, generation = standby.number, "the generation that does not serve is no longer fed");
            }
        }
        let mut shelf = self.shelf.lock().await;
        shelf.active.pause().await?;
        match &mut shelf.standby {
            Some(standby) => standby.pause().await,
            None => Ok(()),
        }
    }

    /// Fills the next generation while this one serves, compares both at the same position, and flips. Where they differ it flips
    /// only if `flip_anyway`: the new one is what the journal says, but a person should know why the old one was not. The one that
    /// does not serve then stands beside, in place of any before it.
    pub async fn rebuild(&self, flip_anyway: bool) -> Result<Rebuilt, Error> {
        let _one = self.rebuilding.lock().await;
        let started = std::time::Instant::now();
        self.clear().await?;
        let number = shelf::next_number(&self.control).await?;
        let path = file(&self.folder, number);
        remove(&path)?;
        let next = Slot::new(number, Db::open(&path).await?);
        let mut projector = Projector::new(next.db.clone(), self.log.clone(), self.journal.clone()).await?;
        projector.run_to(&self.ends().await?).await?;
        let took = started.elapsed();
        // From here on the old one stands still, so that both can be brought to the same position and compared.
        let mut shelf = self.shelf.lock().await;
        let fed = shelf.active.feed.is_some();
        shelf.active.pause().await?;
        let count = async |table: &'static str| sqlx::query_scalar::<_, i64>(table).fetch_one(&next.db.read).await;
        let outcome = self.settle(&shelf.active.db, &mut projector, &next.db).await;
        drop(projector);
        let counted = async {
            let differences = outcome?;
            let (decisions, devices) = (count("SELECT count(*) FROM history").await?, count("SELECT count(*) FROM device").await?);
            Ok::<_, Error>((differences, decisions, devices))
        };
        let counted = counted.await;
        let mut flipped = false;
        if let Ok((differences, ..)) = &counted {
            flipped = differences.is_empty() || flip_anyway;
            shelf.standby = Some(next);
            self.put(&mut shelf, flipped).await?;
        }
        if fed {
            self.start(&mut shelf.active).await?;
            self.reads.send_replace(shelf.active.reads());
            self.start_beside(&mut shelf).await;
        }
        let (differences, decisions, devices) = counted?;
        Ok(Rebuilt { generation: number, decisions, devices, took, differences, flipped })
    }

    /// Brings the new generation to where the old one stands, and compares them.
    async fn settle(&self, serves: &Db, projector: &mut Projector, next: &Db) -> Result<Vec<Difference>, Error> {
        // A journal that was restored from a backup may end before the old generation does: then they differ.
        let ends = self.ends().await?;
        let standing = self.standing(serves).await?.into_iter().map(|(p, next)| (p, next.min(ends.get(&p).copied().unwrap_or(0))));
        projector.run_to(&standing.collect()).await?;
        compare(serves, next).await
    }

    /// Notes which generation serves and which stands beside, after they changed places where `turned`.
    async fn put(&self, shelf: &mut Shelf, turned: bool) -> Result<(), Error> {
        let Some(standby) = &mut shelf.standby else { return Ok(()) };
        let (active, beside) = if turned { (standby.number, shelf.active.number) } else { (shelf.active.number, standby.number) };
        sqlx::query("UPDATE generation SET active = $1, standby = $2").bind(active).bind(beside).execute(&self.control).await?;
        if turned {
            std::mem::swap(&mut shelf.active, standby);
            self.reads.send_replace(shelf.active.reads());
        }
        Ok(())
    }

    /// Lets the newer generation serve, which stands beside.
    pub async fn flip(&self) -> Result<i64, Unturned> {
        self.turn("newer than", |standby, active| standby > active).await
    }

    /// Lets the older generation serve again, which stands beside.
    pub async fn roll_back(&self) -> Result<i64, Unturned> {
        self.turn("older than", |standby, active| standby < active).await
    }

    /// It must have everything that the one that serves has: nobody who read that may see less.
    async fn turn(&self, which: &'static str, fits: impl Fn(i64, i64) -> bool) -> Result<i64, Unturned> {
        let _one = self.rebuilding.lock().await;
        let mut shelf = self.shelf.lock().await;
        let active = shelf.active.number;
        let Some(standby) = shelf.standby.as_ref().filter(|s| fits(s.number, active)) else {
            return Err(Unturned::None(which, "a rebuild makes one, and the one before stands beside until it is dropped"));
        };
        let ahead = self.standing(&shelf.active.db).await?;
        let until = tokio::time::Instant::now() + LEVEL;
        for (partition, offset) in &ahead {
            let reads = standby.reads();
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            let level = *offset == 0 || (standby.feed.is_some() && reads.reached(*partition, offset - 1, left).await);
            let behind = self.standing(&standby.db).await?.get(partition).copied().unwrap_or(0);
            if !level && behind < *offset {
                return Err(Unturned::Behind { number: standby.number, partition: *partition, behind, ahead: *offset });
            }
        }
        self.put(&mut shelf, true).await?;
        Ok(shelf.active.number)
    }

    /// Drops the generation that does not serve; tells which, if there was one.
    pub async fn drop_standby(&self) -> Result<Option<i64>, Error> {
        let _one = self.rebuilding.lock().await;
        self.clear().await
    }

    async fn clear(&self) -> Result<Option<i64>, Error> {
        let mut shelf = self.shelf.lock().await;
        let Some(mut standby) = shelf.standby.take() else { return Ok(None) };
        if let Err(error) = standby.pause().await {
            tracing::warn!(%error, generation = standby.number, "the feed of a generation that is dropped had failed");
        }
        sqlx::query("UPDATE generation SET standby = NULL").execute(&self.control).await?;
        // Its connections close when the last request that uses them ends.
        remove(&file(&self.folder, standby.number))?;
        Ok(Some(standby.number))
    }

    async fn ends(&self) -> Result<BTreeMap<u32, u64>, Error> {
        let mut ends = BTreeMap::new();
        for at in &self.journal {
            ends.insert(at.partition, self.log.bounds(at.clone()).await?.end);
        }
        Ok(ends)
    }

    async fn standing(&self, db: &Db) -> Result<BTreeMap<u32, u64>, Error> {
        Ok(crate::projector::positions(db).await?.into_iter().map(|(p, position)| (p, position.next)).collect())
    }

    /// Every generation, the one that serves first.
    pub async fn list(&self) -> Result<Vec<Generation>, Error> {
        let shelf = self.shelf.lock().await;
        let mut out = Vec::new();
        for slot in std::iter::once(&shelf.active).chain(&shelf.standby) {
            let (number, progress) = (slot.number, slot.progress.borrow().clone());
            let (active, fed) = (number == shelf.active.number, slot.feed.as_ref().is_some_and(|(_, task)| !task.is_finished()));
            out.push(Generation { number, active, fed, progress, next: self.standing(&slot.db).await? });
        }
        Ok(out)
    }

    /// Puts a parked input back on its topic, or lets it be, by a person's word; the topic of parked inputs keeps that.
    pub async fn close_parked(&self, row: &crate::ParkedRow, closed: &fleet_schemas::ParkedClosed) -> Result<(), crate::CloseError> {
        parked::close(&*self.log, &self.control, &self.parked, row, closed).await
    }
}
