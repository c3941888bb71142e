//! Generations: one serves; a rebuild fills the next beside it and compares. Both are fed from then on, so that a flip or a roll-back
//! loses nothing; the one that does not serve goes with the next rebuild, or when it is dropped.

use crate::compare::Difference;
use crate::control::{Control, Numbers};
use crate::db::{Db, Error};
use crate::parked;
use crate::pauses::Pauses;
use crate::projector::{Progress, Projector};
use crate::queries::Reads;
use crate::shelf::{Shelf, Slot};
use crate::store::{Store, Turn};
use fleet_log::{EventLog, TopicPartition};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
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
    /// Their conditions.
    pub conditions: i64,
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
pub(crate) const LEVEL: Duration = Duration::from_secs(10);

/// How often a process looks which generations another one let serve or stand beside.
const FOLLOW: Duration = Duration::from_secs(1);

/// See the module.
pub struct Generations {
    pub(crate) store: Store,
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) journal: Vec<TopicPartition>,
    parked: TopicPartition,
    pub(crate) control: Control,
    pub(crate) shelf: Mutex<Shelf>,
    /// One rebuild at a time.
    pub(crate) rebuilding: Mutex<()>,
    /// Whether the generations are to be fed.
    feeding: AtomicBool,
    pub(crate) reads: watch::Sender<Reads>,
}

impl Generations {
    /// Opens the generation that serves, or makes the first. Nothing is fed before [`Generations::feed`]. One of an earlier format is
    /// put out of service: a new and empty one takes its place, and is filled from the journal.
    pub async fn open(store: Store, log: Arc<dyn EventLog>, journal: Vec<TopicPartition>, parked: TopicPartition) -> Result<Self, Error> {
        let control = store.control().await?;
        let shelf = Shelf::open(&store, &control).await?;
        let reads = watch::Sender::new(shelf.active.reads());
        let (shelf, rebuilding, feeding) = (Mutex::new(shelf), Mutex::default(), AtomicBool::new(false));
        Ok(Self { store, log, journal, parked, control, shelf, rebuilding, feeding, reads })
    }

    /// The store beside the generations: what must outlive them.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What the API asks; follows flips.
    pub fn reads(&self) -> watch::Receiver<Reads> {
        self.reads.subscribe()
    }

    /// Feeds the generation that serves, and the one beside it, from now on.
    pub async fn feed(&self) -> Result<(), Error> {
        let mut shelf = self.shelf.lock().await;
        self.feed_all(&mut shelf).await?;
        self.feeding.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn feed_all(&self, shelf: &mut Shelf) -> Result<(), Error> {
        if shelf.active.feed.is_none() {
            self.start(&mut shelf.active).await?;
        }
        self.reads.send_replace(shelf.active.reads());
        self.start_beside(shelf).await;
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
        let Some(standby) = shelf.standby.as_mut().filter(|s| s.feed.is_none() && s.fit) else { return };
        if let Err(error) = self.start(standby).await {
            standby.fit = error.unavailable();
            tracing::warn!(%error, generation = standby.number, "the generation that does not serve cannot be fed");
        }
    }

    /// Waits until the feed of the serving generation ends by itself, which is a fault; follows what other processes let serve, and begins
    /// again what could not be fed while the database was away. For the process that owns it, which has begun the feed.
    pub async fn watch(&self, cancel: CancellationToken) -> Result<(), Error> {
        let mut tick = tokio::time::interval(FOLLOW);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut pauses = Pauses::new();
        loop {
            tokio::select! {
                () = cancel.cancelled() => break,
                _ = tick.tick() => {}
            }
            let looked = self.look(&mut *self.shelf.lock().await).await;
            match looked {
                Err(error) if self.store.shared() && error.unavailable() => {
                    tracing::warn!(%error, "which generation serves cannot be looked up; the one that was found last does");
                    pauses.pause(&cancel).await;
                }
                looked => {
                    looked?;
                    pauses = Pauses::new();
                }
            }
        }
        let mut shelf = self.shelf.lock().await;
        shelf.active.pause().await?;
        match &mut shelf.standby {
            Some(standby) => standby.pause().await,
            None => Ok(()),
        }
    }

    /// One look of [`Generations::watch`].
    async fn look(&self, shelf: &mut Shelf) -> Result<(), Error> {
        match shelf.follow(&self.store, &self.control).await {
            Ok(false) => {}
            Ok(true) => self.feed_all(shelf).await?,
            // Told once; then nothing is followed until control says something else.
            Err(error @ Error::Format { .. }) => {
                tracing::warn!(%error, "the generation that another process lets serve cannot be read here")
            }
            Err(error) => return Err(error),
        }
        if let Some(standby) = shelf.standby.as_mut().filter(|s| s.feed.as_ref().is_some_and(|(_, task)| task.is_finished()))
            && let Err(error) = standby.pause().await
        {
            standby.fit = false;
            tracing::error!(%error, generation = standby.number, "the generation that does not serve is no longer fed");
        }
        match &shelf.active.feed {
            Some((_, task)) if task.is_finished() => shelf.active.pause().await,
            Some(_) => {
                self.start_beside(shelf).await;
                Ok(())
            }
            None if self.feeding.load(Ordering::Relaxed) => self.feed_all(shelf).await,
            None => Err(Error::Unfed),
        }
    }

    /// Takes up what other processes changed.
    pub(crate) async fn follow(&self, shelf: &mut Shelf) -> Result<Numbers, Error> {
        if shelf.follow(&self.store, &self.control).await? {
            let fed = self.feeding.load(Ordering::Relaxed);
            self.reads.send_replace(shelf.active.reads());
            if fed {
                self.feed_all(shelf).await?;
            }
        }
        Ok(shelf.numbers())
    }

    /// Notes which generation serves and which stands beside, after they changed places where `turned`.
    pub(crate) async fn put(&self, turn: &mut Turn, seen: Numbers, shelf: &mut Shelf, turned: bool) -> Result<(), Error> {
        let Some(standby) = &mut shelf.standby else { return Ok(()) };
        let (active, beside) = if turned { (standby.number, shelf.active.number) } else { (shelf.active.number, standby.number) };
        turn.renumber(seen, Numbers { active, standby: Some(beside) }).await?;
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

    async fn turn(&self, which: &'static str, fits: impl Fn(i64, i64) -> bool) -> Result<i64, Unturned> {
        let _one = self.rebuilding.lock().await;
        let mut turn = self.store.turn(&self.control).await?;
        let turned = self.turned(&mut turn, which, fits).await;
        turn.end().await;
        turned
    }

    /// It must have everything that the one that serves has: nobody who read that may see less.
    async fn turned(&self, turn: &mut Turn, which: &'static str, fits: impl Fn(i64, i64) -> bool) -> Result<i64, Unturned> {
        let mut shelf = self.shelf.lock().await;
        let seen = self.follow(&mut shelf).await?;
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
        self.put(turn, seen, &mut shelf, true).await?;
        Ok(shelf.active.number)
    }

    /// Drops the generation that does not serve; tells which, if there was one.
    pub async fn drop_standby(&self) -> Result<Option<i64>, Error> {
        let _one = self.rebuilding.lock().await;
        let mut turn = self.store.turn(&self.control).await?;
        let dropped = self.clear(&mut turn).await;
        turn.end().await;
        dropped
    }

    pub(crate) async fn clear(&self, turn: &mut Turn) -> Result<Option<i64>, Error> {
        let mut shelf = self.shelf.lock().await;
        let seen = self.follow(&mut shelf).await?;
        let Some(number) = seen.standby else { return Ok(None) };
        turn.renumber(seen, Numbers { standby: None, ..seen }).await?;
        shelf.unopened = None;
        if let Some(standby) = shelf.standby.take() {
            standby.let_go().await;
        }
        drop(shelf);
        if self.store.shared() {
            // The others let go of it first.
            tokio::time::sleep(FOLLOW + FOLLOW / 2).await;
        }
        self.store.remove(&self.control, number).await?;
        Ok(Some(number))
    }

    pub(crate) async fn standing(&self, db: &Db) -> Result<BTreeMap<u32, u64>, Error> {
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
        // Of another program that runs beside us.
        out.extend(shelf.unopened.map(|number| Generation {
            number,
            active: false,
            fed: false,
            progress: Progress::default(),
            next: BTreeMap::new(),
        }));
        Ok(out)
    }

    /// Puts a parked input back on its topic, or lets it be, by a person's word; the topic of parked inputs keeps that.
    pub async fn close_parked(&self, row: &crate::ParkedRow, closed: &fleet_schemas::ParkedClosed) -> Result<(), crate::CloseError> {
        parked::close(&*self.log, &self.control, &self.parked, row, closed).await
    }
}
