//! Generations: one serves; a rebuild fills the next beside it, compares, and flips in one transaction.

use crate::compare::{Difference, compare};
use crate::db::{Db, Error};
use crate::parked;
use crate::projector::{Progress, Projector};
use crate::queries::Reads;
use fleet_log::{EventLog, TopicPartition};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
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

/// The generation that serves.
struct Active {
    number: i64,
    db: Db,
    progress: watch::Receiver<Progress>,
    feed: Option<(CancellationToken, tokio::task::JoinHandle<Result<(), Error>>)>,
}

/// See the module.
pub struct Generations {
    folder: PathBuf,
    log: Arc<dyn EventLog>,
    journal: Vec<TopicPartition>,
    parked: TopicPartition,
    control: SqlitePool,
    active: Mutex<Active>,
    /// One rebuild at a time.
    rebuilding: Mutex<()>,
    reads: watch::Sender<Reads>,
}

impl Generations {
    /// Opens the generation that serves, or makes the first. Nothing is fed before [`Generations::feed`]. One of another format is
    /// put out of service: a new and empty one takes its place, and is filled from the journal.
    pub async fn open(folder: &Path, log: Arc<dyn EventLog>, journal: Vec<TopicPartition>, parked: TopicPartition) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|source| Error::Io { path: folder.display().to_string(), source })?;
        let control = control(&folder.join("control.sqlite")).await?;
        let number: Option<i64> = sqlx::query_scalar("SELECT active FROM generation").fetch_optional(&control).await?;
        let number = match number {
            Some(number) => number,
            None => {
                sqlx::query("INSERT INTO generation (one, active) VALUES (1, 1)").execute(&control).await?;
                1
            }
        };
        others(folder, number)?;
        let (number, db) = match Db::open(&file(folder, number)).await {
            Err(error @ Error::Format { .. }) => {
                tracing::warn!(%error, "the read model is made anew from the journal");
                let next = next_number(&control).await?;
                remove(&file(folder, next))?;
                let db = Db::open(&file(folder, next)).await?;
                sqlx::query("UPDATE generation SET active = $1").bind(next).execute(&control).await?;
                remove(&file(folder, number))?;
                (next, db)
            }
            opened => (number, opened?),
        };
        let progress = watch::channel(Progress::default()).1;
        let reads = watch::Sender::new(Reads::new(db.clone(), number, progress.clone()));
        let active = Mutex::new(Active { number, db, progress, feed: None });
        Ok(Self { folder: folder.into(), log, journal, parked, control, active, rebuilding: Mutex::default(), reads })
    }

    /// The store beside the generations: what must outlive them.
    pub fn control(&self) -> &SqlitePool {
        &self.control
    }

    /// What the API asks; follows flips.
    pub fn reads(&self) -> watch::Receiver<Reads> {
        self.reads.subscribe()
    }

    /// Feeds the generation that serves, from now on.
    pub async fn feed(&self) -> Result<(), Error> {
        let mut active = self.active.lock().await;
        self.start(&mut active).await
    }

    async fn start(&self, active: &mut Active) -> Result<(), Error> {
        let projector = Projector::new(active.db.clone(), self.log.clone(), self.journal.clone()).await?;
        active.progress = projector.progress();
        let cancel = CancellationToken::new();
        let parked = parked::feed(active.db.clone(), self.log.clone(), self.parked.clone(), cancel.clone());
        let stop = cancel.clone();
        let feeds = async move { tokio::try_join!(projector.run(stop), parked).map(|_| ()) };
        active.feed = Some((cancel, tokio::spawn(feeds)));
        self.reads.send_replace(Reads::new(active.db.clone(), active.number, active.progress.clone()));
        Ok(())
    }

    async fn pause(&self, active: &mut Active) -> Result<(), Error> {
        if let Some((cancel, task)) = active.feed.take() {
            cancel.cancel();
            task.await.map_err(|e| Error::Corrupt(format!("the projector panicked: {e}")))??;
        }
        Ok(())
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
            let mut active = self.active.lock().await;
            match &active.feed {
                Some((_, task)) if task.is_finished() => return self.pause(&mut active).await,
                Some(_) => {}
                None => return Err(Error::Unfed),
            }
        }
        let mut active = self.active.lock().await;
        self.pause(&mut active).await
    }

    /// Fills the next generation while this one serves, compares both at the same position, and flips. Where they differ it flips
    /// only if `flip_anyway`: the new one is what the journal says, but a person should know why the old one was not.
    pub async fn rebuild(&self, flip_anyway: bool) -> Result<Rebuilt, Error> {
        let _one = self.rebuilding.lock().await;
        let started = std::time::Instant::now();
        let number = next_number(&self.control).await?;
        let path = file(&self.folder, number);
        remove(&path)?;
        let next = Db::open(&path).await?;
        let mut projector = Projector::new(next.clone(), self.log.clone(), self.journal.clone()).await?;
        projector.run_to(&self.ends().await?).await?;
        let took = started.elapsed();
        // From here on the old one stands still, so that both can be brought to the same position and compared.
        let mut active = self.active.lock().await;
        let fed = active.feed.is_some();
        self.pause(&mut active).await?;
        let outcome = self.settle(&mut active, &mut projector, (number, &next), flip_anyway).await;
        if fed {
            self.start(&mut active).await?;
        }
        let (differences, flip) = outcome?;
        let count = async |table: &'static str| sqlx::query_scalar::<_, i64>(table).fetch_one(&next.read).await;
        let (decisions, devices) = (count("SELECT count(*) FROM history").await?, count("SELECT count(*) FROM device").await?);
        Ok(Rebuilt { generation: number, decisions, devices, took, differences, flipped: flip })
    }

    /// Brings the new generation to where the old one stands, compares them, and flips. Whatever comes of it, one of them serves.
    async fn settle(
        &self,
        active: &mut Active,
        projector: &mut Projector,
        (number, next): (i64, &Db),
        flip_anyway: bool,
    ) -> Result<(Vec<Difference>, bool), Error> {
        // A journal that was restored from a backup may end before the old generation does: then they differ.
        let ends = self.ends().await?;
        let standing = self.standing(&active.db).await?.into_iter().map(|(p, next)| (p, next.min(ends.get(&p).copied().unwrap_or(0))));
        projector.run_to(&standing.collect()).await?;
        let differences = compare(&active.db, next).await?;
        let flip = differences.is_empty() || flip_anyway;
        if flip {
            sqlx::query("UPDATE generation SET active = $1").bind(number).execute(&self.control).await?;
            // Its connections close when the last request that uses them ends.
            active.db = next.clone();
            let old = std::mem::replace(&mut active.number, number);
            self.reads.send_replace(Reads::new(next.clone(), number, active.progress.clone()));
            remove(&file(&self.folder, old))?;
        }
        Ok((differences, flip))
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

    /// The serving generation's number and the offsets it stands at.
    pub async fn list(&self) -> Result<(i64, BTreeMap<u32, u64>), Error> {
        let (number, db) = {
            let active = self.active.lock().await;
            (active.number, active.db.clone())
        };
        Ok((number, self.standing(&db).await?))
    }
}

/// A number that no generation had.
async fn next_number(control: &SqlitePool) -> Result<i64, Error> {
    let next = "UPDATE generation SET last = max(active, coalesce(last, 0)) + 1 RETURNING last";
    Ok(sqlx::query_scalar(next).fetch_one(control).await?)
}

async fn control(path: &Path) -> Result<SqlitePool, Error> {
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
         CREATE TABLE IF NOT EXISTS reactor_position (partition INTEGER PRIMARY KEY, next INTEGER NOT NULL, state BLOB NOT NULL) STRICT;",
    )
    .execute(&pool)
    .await?;
    Ok(pool)
}

/// Removes what a rebuild left that did not come to its end.
fn others(folder: &Path, active: i64) -> Result<(), Error> {
    let io = |source| Error::Io { path: folder.display().to_string(), source };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("read-")?.strip_suffix(".sqlite")?.parse::<i64>().ok());
        if let Some(number) = number.filter(|n| *n != active) {
            remove(&file(folder, number))?;
        }
    }
    Ok(())
}

fn file(folder: &Path, generation: i64) -> PathBuf {
    folder.join(format!("read-{generation}.sqlite"))
}

fn remove(path: &Path) -> Result<(), Error> {
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
