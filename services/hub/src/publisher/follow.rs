//! One partition of the journal, published.

use super::fold::{Fold, Meant};
use super::records::{Frame, Out, state};
use super::{Publisher, partitions};
use fleet_fence::Position;
use fleet_log::{AppendError, Error, Item, ReadError, ReadFault, Reader};
use fleet_schemas::{DeviceId, StreamId, topics};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Records of the journal that are read before what they mean is appended.
const BATCH: usize = 512;
/// How long they are gathered: a device that changes three times meanwhile has its state told once.
const GATHERED: Duration = Duration::from_millis(200);
/// Records of the state topic that are looked at again when a turn begins.
const WATCHED: u64 = 5000;
/// How long public records may take to be acknowledged before publishing begins again: a client may have met what it does not get over.
const ACKNOWLEDGED: Duration = Duration::from_secs(60);
/// How often a position is written at most.
const STORE_EVERY: Duration = Duration::from_secs(1);
/// Between two beginnings.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the state of a device is waited for, each time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why following ends.
enum End {
    Cancelled,
    /// The log or the store of positions does not answer: it is begun again.
    Away(String),
    /// Nothing further of this partition may be believed, or published.
    Stopped(String),
}

/// Publishes a partition until `cancel`.
pub(super) async fn run(publisher: Publisher, partition: u32, cancel: CancellationToken) -> Result<(), Error> {
    let stopped = metrics::gauge!("fm_publisher_stopped", "partition" => partition.to_string());
    stopped.set(0.0);
    // A closed channel: whoever was to know how records are framed is gone, and the process is ending.
    let known = async { publisher.framing.clone().wait_for(Option::is_some).await.ok().and_then(|frame| frame.clone()) };
    let Some(Some(frame)) = cancel.run_until_cancelled(known).await else { return Ok(()) };
    loop {
        let end = match Follower::begin(publisher.clone(), frame.clone(), partition, cancel.clone()).await {
            Ok(mut follower) => {
                let end = follower.for_ever().await;
                // What is lost here is published again, and dropped by whoever has it.
                if let Err(error) = follower.store().await {
                    tracing::warn!(partition, %error, "the publisher's position was not written");
                }
                end
            }
            Err(end) => end,
        };
        match end {
            End::Cancelled => return Ok(()),
            End::Away(why) => {
                tracing::warn!(partition, why, "publishing begins again");
                if cancel.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
                    return Ok(());
                }
            }
            End::Stopped(why) => {
                tracing::error!(partition, why, "the publisher stopped at this partition; a person must look");
                stopped.set(1.0);
                cancel.cancelled().await;
                return Ok(());
            }
        }
    }
}

struct Follower {
    publisher: Publisher,
    frame: Frame,
    partition: u32,
    fold: Fold,
    reader: Box<dyn Reader>,
    /// The state topic behind what we publish: a late record of another publisher must not stay on top.
    watched: Option<Box<dyn Reader>>,
    /// Devices whose state is to be told.
    due: BTreeSet<DeviceId>,
    /// Up to here the log has everything that the journal means: what may be stored.
    published: Position,
    stored: u64,
    stored_at: Instant,
    cancel: CancellationToken,
}

impl Follower {
    /// Reads the past, so that it can be counted on from there.
    async fn begin(publisher: Publisher, frame: Frame, partition: u32, cancel: CancellationToken) -> Result<Self, End> {
        let failed = |e: Error| End::Away(e.to_string());
        let stored = publisher.positions.load().await.map_err(failed)?.remove(&partition);
        if stored.is_none() && !untouched(&publisher, partition).await.map_err(failed)? {
            return Err(End::Stopped(
                "the position is lost, and the public topics have records: either another hub published, and keeps its positions in a file of its \
                 own (hubs that share a log share [postgres]), or `fleet-manager publisher restart` publishes all of it again, and readers \
                 drop what they have by fleet_seq"
                    .into(),
            ));
        }
        if stored.is_none() {
            // Now, so that a position that is missing later is one that was lost.
            publisher.positions.store(partition, 0, Position::START).await.map_err(failed)?;
        }
        let log = publisher.journal.log().clone();
        let at = publisher.journal.topics().at(topics::JOURNAL, partition);
        let watched = watched(&publisher, partition).await.map_err(failed)?;
        let reader = log.read(&[(at, 0)]);
        let (fold, due, stored_at) = (Fold::new(), BTreeSet::new(), Instant::now());
        let mut follower =
            Self { publisher, frame, partition, fold, reader, watched, due, published: Position::START, stored: 0, stored_at, cancel };
        if let Some(position) = stored {
            follower.past(&position).await?;
            (follower.stored, follower.published) = (position.next, position);
        }
        Ok(follower)
    }

    /// Folds what was published before; nothing of it is published again.
    async fn past(&mut self, position: &Position) -> Result<(), End> {
        while self.fold.position.next < position.next {
            let read = tokio::select! {
                () = self.cancel.cancelled() => return Err(End::Cancelled),
                read = self.reader.next() => read,
            };
            match read {
                Ok(Item::Record(stored)) => {
                    self.fold.take(&stored).map_err(End::Stopped)?;
                }
                Ok(Item::End { next, .. }) if next < position.next => {
                    return Err(End::Stopped(format!("the journal ends at offset {next}, and was published up to {}", position.next)));
                }
                Ok(Item::End { .. }) => {}
                Err(error) => self.again(error).await?,
            }
        }
        if self.fold.position == *position {
            return Ok(());
        }
        Err(End::Stopped("the journal is not the one that was published: the record before the position is another".into()))
    }

    async fn again(&mut self, error: ReadError) -> Result<(), End> {
        let ReadFault::Io(why) = &error.fault else { return Err(End::Stopped(error.to_string())) };
        tracing::warn!(partition = self.partition, why, "reading the journal is tried again");
        tokio::time::sleep(Duration::from_millis(200)).await;
        let at = self.publisher.journal.topics().at(topics::JOURNAL, self.partition);
        self.reader = self.publisher.journal.log().read(&[(at, self.fold.position.next)]);
        Ok(())
    }

    async fn for_ever(&mut self) -> End {
        loop {
            let late = self.stored < self.published.next;
            let round = tokio::select! {
                () = self.cancel.cancelled() => return End::Cancelled,
                read = self.reader.next() => self.batch(read).await,
                read = watch_on(&mut self.watched) => self.seen(read).await,
                () = tokio::time::sleep(STORE_EVERY), if late => Ok(()),
            };
            if let Err(end) = round {
                return end;
            }
            if self.stored_at.elapsed() >= STORE_EVERY {
                match self.store().await {
                    Ok(true) => {}
                    Ok(false) => return End::Away("somebody else moved the position: it is read again".into()),
                    Err(error) => tracing::warn!(partition = self.partition, %error, "the publisher's position is written later"),
                }
            }
        }
    }

    /// Takes `first` and what is there behind it, and publishes what it means.
    async fn batch(&mut self, first: Result<Item, ReadError>) -> Result<(), End> {
        let (mut next, mut out) = (Some(first), Vec::new());
        let until = tokio::time::Instant::now() + GATHERED;
        let mut taken = 0;
        while let Some(read) = next.take() {
            taken += 1;
            match read {
                Ok(Item::Record(stored)) => {
                    let Meant { out: some, device } = self.fold.take(&stored).map_err(End::Stopped)?;
                    out.extend(some);
                    self.due.extend(device);
                }
                Ok(Item::End { .. }) => {}
                Err(error) => {
                    self.again(error).await?;
                    break;
                }
            }
            if taken < BATCH {
                next = tokio::select! {
                    // What is there is taken, whatever the clock says; what was taken is heeded.
                    biased;
                    () = self.cancel.cancelled() => return Err(End::Cancelled),
                    read = self.reader.next() => Some(read),
                    () = tokio::time::sleep_until(until) => None,
                };
            }
        }
        self.put(out).await?;
        self.states().await?;
        self.published = self.fold.position.clone();
        Ok(())
    }

    /// The states that are due, as the partition's own loop has them: the journal as far as we have read it, or further.
    async fn states(&mut self) -> Result<(), End> {
        while !self.due.is_empty() {
            let streams: Vec<_> = self.due.iter().map(|d| StreamId::Device(*d)).collect();
            let read = self.fold.position.next;
            let states = tokio::select! {
                () = self.cancel.cancelled() => return Err(End::Cancelled),
                states = self.publisher.journal.states(self.partition, streams, read, PATIENCE) => states,
            };
            let Some(states) = states else {
                tracing::warn!(
                    partition = self.partition,
                    "the states of devices are published later: the partition's loop does not answer"
                );
                continue;
            };
            let told = |(entity, head): &(fleet_lifecycle::Entity, fleet_fence::Head)| {
                let device = entity.device()?;
                state(device, head.version, self.fold.changed_at(device.id))
            };
            self.put(states.iter().filter_map(told).collect()).await?;
            self.due.clear();
        }
        Ok(())
    }

    /// A record of the state topic, ours or another's: one that is older than what stands is followed by the current one again.
    async fn seen(&mut self, read: Result<Item, ReadError>) -> Result<(), End> {
        match read {
            Ok(Item::Record(stored)) => {
                let key = std::str::from_utf8(&stored.record.key).ok().and_then(|k| k.parse::<StreamId>().ok());
                let Some(StreamId::Device(device)) = key else { return Ok(()) };
                let told = self.frame.version(&stored.record.value);
                let older = told.is_some_and(|told| self.fold.version(device).is_some_and(|stands| told < stands));
                if older && self.due.insert(device) {
                    self.states().await?;
                }
                Ok(())
            }
            Ok(Item::End { .. }) => Ok(()),
            Err(error) => {
                tracing::warn!(partition = self.partition, %error, "reading the state topic is tried again");
                tokio::time::sleep(Duration::from_millis(200)).await;
                self.watched = watched(&self.publisher, self.partition).await.map_err(|e| End::Away(e.to_string()))?;
                Ok(())
            }
        }
    }

    /// Appends until the log has it all, in order for each subject.
    async fn put(&mut self, out: Vec<Out>) -> Result<(), End> {
        let mut spread: BTreeMap<(&'static str, u32), Vec<fleet_log::Public>> = BTreeMap::new();
        for Out { topic, name, mut record } in out {
            if let Some(value) = record.value.take() {
                record.value = Some(self.frame.put(name, value).map_err(End::Stopped)?);
            }
            let partition = topics::java_partition(&record.key, partitions(topic));
            spread.entry((topic, partition)).or_default().push(record);
        }
        let (publisher, cancel) = (&self.publisher, &self.cancel);
        let appended = spread.into_iter().map(|((topic, partition), records)| append(publisher, cancel, topic, partition, records));
        futures::future::try_join_all(appended).await.map(drop)
    }

    /// False = somebody else moved it.
    async fn store(&mut self) -> Result<bool, Error> {
        if self.stored == self.published.next {
            return Ok(true);
        }
        self.stored_at = Instant::now();
        let position = self.published.clone();
        if self.publisher.positions.store(self.partition, self.stored, position.clone()).await? {
            self.stored = position.next;
            return Ok(true);
        }
        Ok(false)
    }
}

async fn watch_on(watched: &mut Option<Box<dyn Reader>>) -> Result<Item, ReadError> {
    match watched {
        Some(watched) => watched.next().await,
        None => std::future::pending().await,
    }
}

/// The states of a partition's devices: those of the journal's partition n lie in n - 1, and partition 0 has no devices.
async fn watched(publisher: &Publisher, partition: u32) -> Result<Option<Box<dyn Reader>>, Error> {
    let Some(below) = partition.checked_sub(1) else { return Ok(None) };
    let at = publisher.journal.topics().at(topics::DEVICE_STATE, below);
    let bounds = publisher.journal.log().bounds(at.clone()).await?;
    // From before our turn: what a late one wrote between two turns is looked at too.
    let from = bounds.end.saturating_sub(WATCHED).max(bounds.start);
    Ok(Some(publisher.journal.log().read(&[(at, from)])))
}

/// Whether nothing of this partition was ever published.
async fn untouched(publisher: &Publisher, partition: u32) -> Result<bool, Error> {
    let all = publisher.journal.topics();
    let places: Vec<_> = if partition == 0 {
        (0..partitions(topics::BOOTSTRAP_CONFIG_EVENTS)).map(|p| all.at(topics::BOOTSTRAP_CONFIG_EVENTS, p)).collect()
    } else {
        [topics::DEVICE_EVENTS, topics::CONDITION_EVENTS, topics::DEVICE_STATE].map(|t| all.at(t, partition - 1)).into()
    };
    for at in places {
        if publisher.journal.log().bounds(at).await?.end > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Until the log has all of them, in order.
async fn append(
    publisher: &Publisher,
    cancel: &CancellationToken,
    topic: &'static str,
    partition: u32,
    records: Vec<fleet_log::Public>,
) -> Result<(), End> {
    let at = publisher.journal.topics().at(topic, partition);
    let mut pause = Duration::from_millis(50);
    loop {
        let appended = tokio::select! {
            () = cancel.cancelled() => return Err(End::Cancelled),
            appended = tokio::time::timeout(ACKNOWLEDGED, publisher.log.publish(at.clone(), records.clone())) => {
                appended.map_err(|_| End::Away(format!("{at} was not acknowledged within {} s", ACKNOWLEDGED.as_secs())))?
            }
        };
        let Err(AppendError::NotStored(why) | AppendError::Unknown(why)) = appended else { break };
        tracing::warn!(%at, why, "public records are appended again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
    metrics::counter!("fm_published_total", "topic" => topic).increment(records.len() as u64);
    Ok(())
}
