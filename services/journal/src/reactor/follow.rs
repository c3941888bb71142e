//! One partition of the journal, followed for ever.

use super::Positions;
use crate::{Config, partition::jitter};
use fleet_fence::{Position, Verdict, accept};
use fleet_lifecycle::{Decider, Fleet, Reaction};
use fleet_log::{AppendError, Error, Item, ReadError, ReadFault, Reader, Record, Stored};
use fleet_schemas::{Actor, Command, CommandId, Decision, Event, Hash, JournalRecord, ReactionTo, encode, topics as names};
use futures::FutureExt;
use std::{collections::BTreeMap, sync::Arc, time::Duration, time::Instant};
use tokio_util::sync::CancellationToken;

/// Records that are read before their reactions are appended.
const BATCH: usize = 512;
/// How often a position is written at most: what comes again after a crash is known for a repeat.
const STORE_EVERY: Duration = Duration::from_secs(1);

struct Follower {
    config: Config,
    partition: u32,
    positions: Arc<dyn Positions>,
    position: Position,
    /// Next offset of the position that is stored.
    stored: u64,
    stored_at: Instant,
    cancel: CancellationToken,
}

/// Why following ends.
enum End {
    /// The process stops.
    Cancelled,
    /// Nothing further of this partition may be believed.
    Stopped(String),
}

/// Follows `partition` until `cancel`. Where nothing further may be believed it stops and says so; the other partitions go on.
pub(super) async fn run(
    config: Config,
    partition: u32,
    position: Option<Position>,
    positions: Arc<dyn Positions>,
    cancel: CancellationToken,
) -> Result<(), Error> {
    let stored = position.as_ref().map_or(0, |p| p.next);
    let position = match position {
        Some(position) if fits_in_time(&config, partition, &position, &cancel).await => position,
        Some(_) => {
            tracing::warn!(
                partition,
                "the reactor's position is of another journal; it begins at the first record, repeats take no effect"
            );
            Position::START
        }
        None => Position::START,
    };
    let mut follower = Follower { config, partition, positions, position, stored, stored_at: Instant::now(), cancel };
    let end = follower.for_ever().await;
    if let End::Stopped(why) = end {
        tracing::error!(partition, why, "the reactor stopped at this partition; a person must look");
        metrics::gauge!("fm_reactor_stopped", "partition" => partition.to_string()).set(1.0);
        follower.cancel.cancelled().await;
    }
    // What is lost here is appended again, and known for a repeat.
    if let Err(error) = follower.store().await {
        tracing::warn!(partition, %error, "the reactor's position was not written");
    }
    Ok(())
}

/// The same, asked until the log answers; true where this ends first.
async fn fits_in_time(config: &Config, partition: u32, position: &Position, cancel: &CancellationToken) -> bool {
    loop {
        let asked = tokio::select! {
            () = cancel.cancelled() => return true,
            asked = fits(config, partition, position) => asked,
        };
        match asked {
            Ok(fits) => return fits,
            Err(error) => {
                tracing::warn!(partition, %error, "whether the reactor's position fits is asked again");
                tokio::time::sleep(jitter(Duration::from_secs(1))).await;
            }
        }
    }
}

/// Whether the record before the position is the one that was read then.
async fn fits(config: &Config, partition: u32, position: &Position) -> Result<bool, Error> {
    let at = config.topics.at(names::JOURNAL, partition);
    let Some(before) = position.next.checked_sub(1) else { return Ok(true) };
    if config.log.bounds(at.clone()).await?.end < position.next {
        return Ok(false);
    }
    match config.log.read(&[(at, before)]).next().await {
        Ok(Item::Record(stored)) => Ok(Hash::of(&stored.record.value) == position.before),
        Ok(Item::End { .. }) => Ok(false),
        Err(e) => Err(Error::Io(e.to_string())),
    }
}

impl Follower {
    fn reader(&self) -> Box<dyn Reader> {
        self.config.log.read(&[(self.config.topics.at(names::JOURNAL, self.partition), self.position.next)])
    }

    async fn for_ever(&mut self) -> End {
        let mut reader = self.reader();
        loop {
            let late = self.stored < self.position.next;
            let first = tokio::select! {
                () = self.cancel.cancelled() => return End::Cancelled,
                item = reader.next() => Some(item),
                () = tokio::time::sleep(STORE_EVERY), if late => None,
            };
            let outcome = match first {
                Some(first) => self.batch(first, reader.as_mut()).await,
                None => Ok(true),
            };
            match outcome {
                Ok(true) => {}
                Ok(false) => reader = self.reader(),
                Err(end) => return end,
            }
            if self.stored < self.position.next
                && self.stored_at.elapsed() >= STORE_EVERY
                && let Err(error) = self.store().await
            {
                tracing::warn!(partition = self.partition, %error, "the reactor's position is written later");
            }
        }
    }

    /// Takes `first` and what is there behind it; appends what follows from it. False = the reader broke and another one is needed.
    async fn batch(&mut self, first: Result<Item, ReadError>, reader: &mut dyn Reader) -> Result<bool, End> {
        let (mut next, mut whole, mut commands) = (Some(first), true, Vec::new());
        let mut position = self.position.clone();
        for taken in 1..=BATCH {
            match next {
                Some(Ok(Item::Record(stored))) => commands.extend(take(&mut position, &stored).map_err(End::Stopped)?),
                Some(Ok(Item::End { .. })) => {}
                Some(Err(ReadError { fault: ReadFault::Io(why), .. })) => {
                    tracing::warn!(partition = self.partition, why, "reading the journal is tried again");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    whole = false;
                }
                Some(Err(e)) => return Err(End::Stopped(e.to_string())),
                None => break,
            }
            next = if whole && taken < BATCH { reader.next().now_or_never() } else { None };
        }
        self.put(commands).await?;
        self.position = position;
        Ok(whole)
    }

    /// Appends commands, in order for each stream, until the log has them. What may be stored already is stored again.
    async fn put(&self, commands: Vec<Command>) -> Result<(), End> {
        let mut spread: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        for command in commands {
            let record = Record { key: command.stream.to_string().into(), value: encode(&command).into() };
            spread.entry(command.stream.partition(self.config.topics.partitions)).or_default().push(record);
        }
        for (partition, records) in spread {
            let at = self.config.topics.at(names::COMMANDS, partition);
            let mut pause = Duration::from_millis(50);
            while let Err(AppendError::NotStored(why) | AppendError::Unknown(why)) = self.config.append(at.clone(), records.clone()).await {
                tracing::warn!(partition, why, "reactions are appended again");
                tokio::select! {
                    () = self.cancel.cancelled() => return Err(End::Cancelled),
                    () = tokio::time::sleep(jitter(pause)) => {}
                }
                pause = (pause * 2).min(Duration::from_secs(5));
            }
        }
        Ok(())
    }

    /// Writes the position. Another reactor's is left alone: whichever is behind repeats, and repeats take no effect.
    async fn store(&mut self) -> Result<(), Error> {
        if self.stored == self.position.next {
            return Ok(());
        }
        self.stored_at = Instant::now();
        if self.positions.store(self.partition, self.stored, self.position.clone()).await? {
            self.stored = self.position.next;
            return Ok(());
        }
        let standing = self.positions.load().await?.get(&self.partition).map_or(0, |p| p.next);
        tracing::warn!(partition = self.partition, standing, "another reactor moved this partition on");
        self.stored = standing;
        Ok(())
    }
}

/// Judges one record, and gives the reactions to it. The text says why nothing further may be believed.
fn take(position: &mut Position, stored: &Stored) -> Result<Vec<Command>, String> {
    let at = format!("{} offset {}", stored.at, stored.offset);
    let record = JournalRecord::decode(&stored.record.value).map_err(|e| format!("{at}: {e}"))?;
    match (accept(position, None, stored.offset, &record, &stored.record.value), record) {
        (Verdict::Broken(broken), _) => Err(format!("{at}: {broken}")),
        (Verdict::Accepted, JournalRecord::Decision(decision)) => reactions(&decision).map_err(|e| format!("{at}: {e}")),
        (Verdict::Accepted | Verdict::Fenced | Verdict::Duplicate, _) => Ok(vec![]),
    }
}

/// The reactions to a decision, as records: always the same for the same decision.
fn reactions(decision: &Decision) -> Result<Vec<Command>, String> {
    let mut drawn = Vec::new();
    for event in &decision.events {
        let event = Event::decode(&decision.stream, event).map_err(|e| e.to_string())?;
        drawn.extend(Fleet::react(&decision.stream, &event));
    }
    Ok((0..).zip(drawn).map(|(index, reaction)| command(decision, index, &reaction)).collect())
}

fn command(decision: &Decision, index: u32, reaction: &Reaction) -> Command {
    let to = ReactionTo { stream: decision.stream.clone(), version: decision.version, decision: decision.id, index };
    Command {
        id: CommandId::reaction(decision.id, index),
        stream: reaction.stream().clone(),
        ask: reaction.payload(),
        actor: Actor::system("reactor"),
        reason: format!("follows from {} version {}", decision.stream, decision.version),
        expected_version: None,
        dry_run: false,
        issued_at: decision.recorded_at,
        // Not heeded: what follows from a decision does not expire.
        not_after: decision.recorded_at,
        trace_id: decision.trace_id.clone(),
        reaction: Some(to),
    }
}
