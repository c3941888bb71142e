//! Leading: gather, decide, append one batch, read it back, answer, arm timers; and again.

use super::{
    BEAT, Desk, End, Phase, batch, batch::Batch, claim::Claimed, commit, deadlines::Deadlines, judge, judge::Bench, judge::Judged, looks,
    tail::Tail,
};
use crate::{park::park, retention};
use fleet_lifecycle::{Fleet, Reference};
use fleet_log::{Item, ReadFault, Reader, Stored};
use fleet_schemas::{Inputs, MINUTE, Micros, StreamId, Timestamp, topics as names};
use futures::FutureExt;
use std::{collections::VecDeque, sync::Arc, time::Duration, time::Instant};
use tokio::sync::watch;

/// Inputs without a decision after which a Progress is written.
const PROGRESS_INPUTS: u64 = 10_000;
/// Time after which one is written where anything was read.
const PROGRESS_AFTER: Micros = 10 * MINUTE;
/// How often old inputs are let go.
const TRIM_EVERY: Micros = 10 * MINUTE;
/// How long the last progress may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// Streams planned at once after a change of the reference.
const SLICE: usize = 500;

/// What a leader has beside the tail.
struct Lead<'a> {
    desk: &'a Desk,
    tail: &'a mut Tail,
    term: u64,
    reader: Box<dyn Reader>,
    /// Where the inputs stand that were taken from the reader.
    passed: Inputs,
    /// The same, before the batch that is being made: what came of those stands in the journal.
    settled: Inputs,
    /// Inputs passed since the last record that says so.
    unrecorded: u64,
    recorded_at: Timestamp,
    reference: Arc<Reference>,
    changes: watch::Receiver<Arc<Reference>>,
    dirty: VecDeque<StreamId>,
    deadlines: Deadlines,
    trimmed_at: Timestamp,
    /// The clock and the machine's own count of time, when this round began.
    round: (Timestamp, Instant),
}

/// Leads until overtaken or cancelled.
pub(super) async fn lead(desk: &Desk, tail: &mut Tail, claimed: Claimed) -> End {
    match Lead::begin(desk, tail, claimed).await {
        Ok(mut lead) => loop {
            if let Err(end) = lead.round().await {
                return lead.finish(end).await;
            }
        },
        Err(end) => end,
    }
}

impl<'a> Lead<'a> {
    async fn begin(desk: &'a Desk, tail: &'a mut Tail, Claimed { term, at: round }: Claimed) -> Result<Self, End> {
        let changes = desk.reference.clone();
        let reference = if desk.partition == 0 { Arc::default() } else { desk.reference(tail.ledger.reference).await? };
        let passed = tail.ledger.inputs.clone();
        let reader = desk.inputs(&passed);
        let now = round.0.max(Timestamp(tail.ledger.position.recorded_at));
        looks::restore(tail, now);
        tail.timers = Default::default();
        for (id, stream) in &tail.ledger.streams {
            tail.timers.set(id, &stream.entity);
        }
        let dirty = tail.ledger.streams.iter().filter(|(_, s)| s.entity.device().is_some()).map(|(id, _)| id.clone()).collect();
        desk.status.send_modify(|s| {
            s.phase = Phase::Leading;
            s.stats.claims += 1;
        });
        metrics::gauge!("fm_leader_term", "partition" => desk.partition.to_string()).set(term as f64);
        tracing::info!(partition = desk.partition, term, streams = tail.ledger.streams.len(), "leading");
        let (settled, unrecorded, recorded_at, trimmed_at) = (passed.clone(), 0, now, now);
        let deadlines = Deadlines::default();
        Ok(Self {
            desk,
            tail,
            term,
            reader,
            passed,
            settled,
            unrecorded,
            recorded_at,
            reference,
            changes,
            dirty,
            deadlines,
            trimmed_at,
            round,
        })
    }

    /// Reads the clock, once for all that is decided until it is read again. A process that was paused, or whose clock was set
    /// forward, may have been overtaken and knows of no silence meanwhile.
    fn same_time(&mut self) -> Result<(), End> {
        let now = (self.desk.config.clock.now(), Instant::now());
        let before = std::mem::replace(&mut self.round, now);
        let counted = now.1.duration_since(before.1);
        let ahead = now.0.since(before.0).saturating_sub(counted.as_micros() as i64);
        let jump = self.desk.config.jump;
        if ahead > jump || counted.as_micros() as i64 > jump.saturating_add(BEAT.as_micros() as i64) {
            return Err(End::SteppedDown(format!("the clock ran {} s ahead, or this process was paused", ahead / fleet_schemas::SECOND)));
        }
        Ok(())
    }

    async fn round(&mut self) -> Result<(), End> {
        if self.desk.cancel.is_cancelled() {
            return Err(End::Cancelled);
        }
        if !self.desk.mine() {
            return Err(End::GivenBack);
        }
        self.same_time()?;
        self.desk.progress();
        let ledger = &self.tail.ledger;
        self.desk.status.send_modify(|s| {
            s.term = self.term;
            (s.stats.commands, s.stats.observations) = (self.settled.commands, self.settled.observations);
            (s.stats.decisions, s.stats.fenced, s.stats.streams) = (ledger.decisions, ledger.fenced, ledger.streams.len());
        });
        self.see_reference();
        let next_n = self.tail.standing(self.desk, self.term)?;
        let mut batch = self.batch(next_n);
        self.deadlines(&mut batch);
        let more = self.gather(&mut batch).await?;
        self.plan_dirty(&mut batch);
        if batch.records.is_empty() && self.progress_due(batch.now) {
            batch.progress(&self.passed, looks::of(&self.tail.ledger));
        }
        let idle = batch.records.is_empty() && !more && self.dirty.is_empty();
        self.commit(batch).await?;
        if idle {
            self.wait().await?;
        }
        self.trim().await;
        Ok(())
    }

    /// Takes a new reference, and marks the streams that the change can concern.
    fn see_reference(&mut self) {
        let now = self.changes.borrow_and_update().clone();
        if self.desk.partition == 0 || Arc::ptr_eq(&now, &self.reference) {
            return;
        }
        let before = std::mem::replace(&mut self.reference, now);
        if before.same_for_plans(&self.reference) {
            return;
        }
        let concerned = self.tail.ledger.streams.iter().filter(|(_, s)| Fleet::concerned(&s.entity, &before, &self.reference));
        let concerned: Vec<_> = concerned.map(|(id, _)| id.clone()).collect();
        let waiting: std::collections::HashSet<_> = self.dirty.iter().cloned().collect();
        self.dirty.extend(concerned.into_iter().filter(|id| !waiting.contains(id)));
    }

    /// A batch at the partition's time: the round's, and never before the last accepted record.
    fn batch(&self, next_n: u64) -> Batch {
        let now = self.round.0.max(Timestamp(self.tail.ledger.position.recorded_at));
        Batch::new(self.desk, self.term, next_n, now, self.reference.next.max(self.tail.ledger.reference))
    }

    fn bench<'b>(&'b self, batch: &'b Batch) -> Bench<'b> {
        let partitions = self.desk.config.topics.partitions;
        Bench {
            rules: self.desk.config.rules,
            partition: self.desk.partition,
            partitions,
            ledger: &self.tail.ledger,
            batch,
            reference: &self.reference,
        }
    }

    /// Takes inputs that are there without waiting, and decides them. True when more may be there.
    async fn gather(&mut self, batch: &mut Batch) -> Result<bool, End> {
        let mut taken = 0;
        while !batch.full() && taken < 4 * batch::MAX_DECISIONS {
            let Some(item) = self.reader.next().now_or_never() else { return Ok(false) };
            match item {
                Ok(Item::Record(stored)) => self.decide(batch, stored).await?,
                Ok(Item::End { .. }) => {}
                Err(e) => self.input_fault(e).await?,
            }
            taken += 1;
        }
        Ok(true)
    }

    /// A store that fails may come back: a new reader goes on behind what was taken. Lost inputs are for a person.
    async fn input_fault(&mut self, e: fleet_log::ReadError) -> Result<(), End> {
        match e.fault {
            ReadFault::Io(why) => {
                tracing::warn!(at = %e.at, why, "reading the inputs is tried again");
                let mut pause = Duration::from_millis(200);
                self.desk.rest(&mut pause).await?;
                self.reader = self.desk.inputs(&self.passed);
                Ok(())
            }
            ReadFault::Corrupt(why) => Err(End::Stopped(format!("{}: {why}; restore the topic from a backup", e.at))),
            ReadFault::Gone { .. } | ReadFault::BeyondEnd { .. } | ReadFault::Gap { .. } => {
                let why = format!("inputs-lost: {e}; inputs that were acknowledged are not there; restore the log from a backup");
                Err(End::Stopped(why))
            }
        }
    }

    async fn decide(&mut self, batch: &mut Batch, input: Stored) -> Result<(), End> {
        let observations = input.at.topic.ends_with(names::OBSERVATIONS);
        let next = input.offset + 1;
        let (judged, look) = if observations { self.bench(batch).observation(&input) } else { (self.bench(batch).command(&input), None) };
        if observations {
            self.passed.observations = next;
        } else {
            self.passed.commands = next;
        }
        self.unrecorded += 1;
        match judged {
            Judged::Nothing => {}
            Judged::Decision(draft) => self.push(batch, &input, *draft).await?,
            Judged::Park(why, draft) => {
                park(self.desk, &input, &why).await?;
                if let Some(draft) = draft {
                    self.push(batch, &input, *draft).await?;
                }
            }
            Judged::Repeated(command) => self.repeated(command, &input),
        }
        if let Some(look) = look {
            self.looked(&look);
        }
        Ok(())
    }

    async fn push(&mut self, batch: &mut Batch, input: &Stored, draft: batch::Draft) -> Result<(), End> {
        let (stream, cause, actor) = (draft.stream.clone(), draft.cause.clone(), draft.actor.clone());
        if let Err(why) = batch.push(&self.tail.ledger, draft, &self.passed) {
            park(self.desk, input, &why).await?;
            if cause.command.is_some() {
                let small = batch::Draft::too_large(stream, cause, actor, why, Timestamp(input.appended_at));
                if let Err(why) = batch.push(&self.tail.ledger, small, &self.passed) {
                    tracing::error!(why, "a rejection could not be recorded");
                }
            }
        }
        Ok(())
    }

    fn repeated(&self, command: fleet_schemas::CommandId, input: &Stored) {
        let stream = std::str::from_utf8(&input.record.key).ok().and_then(|k| k.parse::<StreamId>().ok());
        let stream = stream.and_then(|s| self.tail.ledger.streams.get(&s));
        // One that is only in the batch is answered when that is read back.
        if let Some(answer) = stream.and_then(|s| s.memory.get(&command)) {
            self.desk.outcomes.tell(command, answer, true);
        }
    }

    fn looked(&mut self, look: &judge::Look) {
        if let Some(known) = self.tail.ledger.streams.get_mut(&look.site) {
            Fleet::looked(&mut known.entity, look.source, look.at);
            self.tail.timers.set(&look.site, &known.entity);
        }
    }

    fn deadlines(&mut self, batch: &mut Batch) {
        let Some(until) = self.deadlines.ripe(self.desk, &self.tail.timers, batch.now, &self.passed) else { return };
        for (stream, wait) in self.tail.timers.due(until, batch::MAX_DECISIONS / 2) {
            self.own(batch, &stream, Some(&wait));
        }
    }

    fn plan_dirty(&mut self, batch: &mut Batch) {
        for _ in 0..SLICE {
            if batch.full() {
                return;
            }
            let Some(stream) = self.dirty.pop_front() else { return };
            self.own(batch, &stream, None);
        }
    }

    fn own(&mut self, batch: &mut Batch, stream: &StreamId, wait: Option<&fleet_lifecycle::Wait>) {
        if self.tail.ledger.streams.get(stream).is_none_or(|s| s.stopped.is_some()) {
            self.tail.timers.mute(stream);
            return;
        }
        let pushed = match self.bench(batch).own(stream, wait) {
            Ok(Some(draft)) => batch.push(&self.tail.ledger, draft, &self.passed),
            Ok(None) => {
                if wait.is_some() {
                    // Nothing follows from it: it is not asked again before the stream changes.
                    self.tail.timers.mute(stream);
                }
                Ok(())
            }
            Err(panic) => Err(format!("the decider panicked: {panic}")),
        };
        if let Err(why) = pushed {
            tracing::error!(%stream, ?wait, why, "a deadline or plan could not be decided; the stream waits for its next input");
            self.tail.timers.mute(stream);
        }
    }

    fn progress_due(&self, now: Timestamp) -> bool {
        self.unrecorded >= PROGRESS_INPUTS || (self.unrecorded > 0 && now.since(self.recorded_at) >= PROGRESS_AFTER)
    }

    async fn commit(&mut self, batch: Batch) -> Result<(), End> {
        if !batch.records.is_empty() {
            commit::commit(self.desk, self.tail, self.term, &batch.records).await?;
            (self.unrecorded, self.recorded_at) = (0, batch.now);
        }
        self.settled = self.passed.clone();
        Ok(())
    }

    /// Waits for an input, a record of somebody else, a deadline, a change of the reference, or the next beat.
    async fn wait(&mut self) -> Result<(), End> {
        let due = self.deadlines.next(&self.tail.timers);
        let clock = self.desk.config.clock.clone();
        let mut turns = self.desk.turns.clone();
        let deadline = async {
            match due {
                Some(due) => clock.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let item = tokio::select! {
            biased;
            () = self.desk.cancel.cancelled() => return Err(End::Cancelled),
            item = self.reader.next() => Some(item),
            met = self.tail.step(self.desk) => return met,
            changed = self.changes.changed(), if self.desk.partition != 0 => return changed.map_err(|_| End::Cancelled),
            Ok(_) = turns.wait_for(|t| !t.mine.contains(&self.desk.partition)) => None,
            () = deadline => None,
            () = self.deadlines.told() => None,
            () = tokio::time::sleep(BEAT) => None,
        };
        self.desk.outcomes.sweep();
        match item {
            Some(Ok(Item::Record(stored))) => self.first(stored).await,
            Some(Ok(Item::End { .. })) | None => Ok(()),
            Some(Err(e)) => self.input_fault(e).await,
        }
    }

    /// An input that ended a wait: decided with whatever else has come by now.
    async fn first(&mut self, stored: Stored) -> Result<(), End> {
        self.same_time()?;
        let next_n = self.tail.standing(self.desk, self.term)?;
        self.see_reference();
        let mut batch = self.batch(next_n);
        self.decide(&mut batch, stored).await?;
        self.gather(&mut batch).await?;
        self.commit(batch).await
    }

    /// Lets go of old inputs.
    async fn trim(&mut self) {
        let now = self.round.0;
        if self.desk.config.topics.trims && now.since(self.trimmed_at) >= TRIM_EVERY {
            self.trimmed_at = now;
            retention::trim(&self.desk.config, self.desk.partition, &self.tail.ledger.inputs, now).await;
        }
    }

    /// A clean stop, or giving back, says how far the inputs were read; what was only in a batch that is dropped here is read again.
    async fn finish(mut self, end: End) -> End {
        if matches!(end, End::Cancelled | End::GivenBack)
            && self.settled != self.tail.ledger.inputs
            && let Ok(next_n) = self.tail.standing(self.desk, self.term)
        {
            let mut batch = self.batch(next_n);
            batch.progress(&self.settled, looks::of(&self.tail.ledger));
            // Where the log is away, the next one reads the inputs again: a stop does not wait for it.
            if !matches!(tokio::time::timeout(FAREWELL, self.commit(batch)).await, Ok(Ok(()))) {
                let partition = self.desk.partition;
                tracing::info!(partition, "the last progress was not recorded; the inputs are read again at the next start");
            }
        }
        end
    }
}
