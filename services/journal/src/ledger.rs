//! What the accepted records of one partition add up to. The same fold for a leader, a follower, a replay and an audit.

use crate::Rules;
use fleet_fence::{Broken, Head, Position, Verdict, accept};
use fleet_lifecycle::{Decider, Entity, Fleet};
use fleet_log::Stored;
use fleet_schemas::{
    CommandId, Decision, DecisionId, Event, HOUR, Hash, Inputs, JournalRecord, LastLook, MINUTE, Micros, OperationId, Outcome, StreamId,
    Timestamp,
};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

/// How long a command's answer is remembered: longer than any command may live.
const MEMORY: Micros = 24 * HOUR + 5 * MINUTE;
/// Answers that one stream remembers; with so many in a day, further commands are refused.
pub(crate) const MEMORY_CAP: usize = 2000;

/// The code of a noted read of user-data.
pub(crate) const USER_DATA_READ: &str = "user-data-read";

/// One stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The fold of its events.
    pub entity: Entity,
    /// What its next decision builds on.
    pub head: Head,
    /// Commands answered lately.
    pub memory: Arc<Memory>,
    /// Of each stream that it reacts to: the highest (version, index) that was handled. It never expires, so a reaction never takes effect
    /// twice, however late it comes again.
    pub reacted: Vec<(StreamId, (u64, u32))>,
    /// Why nothing further of it is believed.
    pub stopped: Option<String>,
}

/// The memory of a stream that was never asked: most are of this kind, and share it.
static NOTHING: LazyLock<Arc<Memory>> = LazyLock::new(Arc::default);

/// Commands answered lately, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    order: VecDeque<(Timestamp, CommandId)>,
    answers: HashMap<CommandId, Remembered>,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// SHA-256 of what was asked.
    pub ask_hash: Hash,
    /// What it came to.
    pub outcome: Arc<Outcome>,
    /// The decision.
    pub decision: DecisionId,
    /// The stream's version after it.
    pub version: u64,
    /// The operation it started.
    pub operation: Option<OperationId>,
    /// Where it stands in the journal.
    pub at: (u32, u64),
}

impl Memory {
    /// The answer to this command, if it was given lately.
    pub fn get(&self, command: &CommandId) -> Option<&Remembered> {
        self.answers.get(command)
    }
    /// Whether it holds as many as it may.
    pub fn full(&self) -> bool {
        self.order.len() >= MEMORY_CAP
    }
    fn remember(&mut self, now: Timestamp, command: CommandId, answer: Remembered) {
        while self.order.front().is_some_and(|(at, _)| now.since(*at) > MEMORY) {
            if let Some((_, old)) = self.order.pop_front() {
                self.answers.remove(&old);
            }
        }
        if !self.full() && self.answers.insert(command, answer).is_none() {
            self.order.push_back((now, command));
        }
    }
}

impl Stream {
    /// The highest reaction to `source` that was handled.
    pub fn reacted_to(&self, source: &StreamId) -> Option<(u64, u32)> {
        self.reacted.iter().find(|(stream, _)| stream == source).map(|(_, highest)| *highest)
    }

    fn react(&mut self, decision: &Decision) {
        let Some((source, place)) = reaction_of(decision) else { return };
        match self.reacted.iter_mut().find(|(stream, _)| stream == source) {
            Some((_, highest)) => *highest = place.max(*highest),
            None => {
                // Most streams react to one or two others.
                self.reacted.reserve_exact(1);
                self.reacted.push((source.clone(), place));
            }
        }
    }

    /// A stream without decisions.
    pub fn new(stream: &StreamId) -> Self {
        Self { entity: Fleet::new(stream), head: Head::default(), memory: NOTHING.clone(), reacted: Vec::new(), stopped: None }
    }
}

/// See the module.
pub struct Ledger {
    /// The partition.
    pub partition: u32,
    /// Where the reading stands.
    pub position: Position,
    /// Every stream.
    pub streams: HashMap<StreamId, Stream>,
    /// Where to resume the inputs.
    pub inputs: Inputs,
    /// Highest reference position that a decision was made with.
    pub reference: u64,
    /// Last complete looks, as the last Progress has them.
    pub last_looks: Vec<LastLook>,
    /// Records that were dropped, by reason.
    pub fenced: u64,
    /// Decisions accepted.
    pub decisions: u64,
    /// When the standing term was claimed.
    pub claimed_at: Timestamp,
    rules: Rules,
}

/// What a record turned out to be.
#[derive(Debug)]
pub enum Applied {
    /// An accepted decision.
    Decision(Box<Decision>),
    /// Accepted, and no decision.
    Other,
    /// Dropped.
    Dropped,
    /// Its stream was stopped, now or before.
    Stopped(StreamId),
}

impl Ledger {
    /// Before the first record.
    pub fn new(partition: u32, rules: Rules) -> Self {
        Self {
            rules,
            partition,
            position: Position::START,
            streams: HashMap::new(),
            inputs: Inputs { commands: 0, observations: 0 },
            reference: 0,
            last_looks: Vec::new(),
            fenced: 0,
            decisions: 0,
            claimed_at: Timestamp(0),
        }
    }

    /// Judges and folds one record. `Err` stops the partition: the text says why, and what a person can do.
    pub fn apply(&mut self, stored: &Stored) -> Result<Applied, String> {
        let at = format!("{} offset {}", stored.at, stored.offset);
        let record = JournalRecord::decode(&stored.record.value)
            .map_err(|e| format!("{at} cannot be decoded: {e}; restore the log from a backup, or start the program that wrote it"))?;
        let head = match &record {
            JournalRecord::Decision(d) => Some(self.streams.get(&d.stream).map_or(Head::default(), |s| s.head)),
            JournalRecord::Genesis(_) | JournalRecord::Claim(_) | JournalRecord::Progress(_) => None,
        };
        let mut position = self.position.clone();
        let verdict = accept(&mut position, head.as_ref(), stored.offset, &record, &stored.record.value);
        if let Verdict::Broken(broken) = &verdict
            && broken.stops_partition()
        {
            return Err(format!("{at}: {broken}; this log is not the journal that was read before, or lost records"));
        }
        self.position = position;
        match (verdict, record) {
            (Verdict::Accepted, JournalRecord::Decision(decision)) => self.decision(decision, stored, &at),
            (Verdict::Accepted, JournalRecord::Progress(progress)) => {
                self.inputs = progress.inputs;
                self.last_looks = progress.last_looks;
                Ok(Applied::Other)
            }
            (Verdict::Accepted, JournalRecord::Claim(_)) => {
                self.claimed_at = Timestamp(self.position.recorded_at);
                Ok(Applied::Other)
            }
            (Verdict::Accepted, JournalRecord::Genesis(_)) => Ok(Applied::Other),
            (Verdict::Broken(fork), JournalRecord::Decision(decision)) => Ok(self.fork(&decision, &fork, &at)),
            (Verdict::Fenced | Verdict::Duplicate | Verdict::Broken(_), _) => {
                self.fenced += 1;
                Ok(Applied::Dropped)
            }
        }
    }

    fn decision(&mut self, decision: Box<Decision>, stored: &Stored, at: &str) -> Result<Applied, String> {
        self.inputs = decision.inputs.clone();
        self.reference = self.reference.max(decision.reference);
        let stream = self.streams.entry(decision.stream.clone()).or_insert_with(|| Stream::new(&decision.stream));
        if stream.stopped.is_some() {
            return Ok(Applied::Stopped(decision.stream));
        }
        let events: Result<Vec<Event>, _> = decision.events.iter().map(|e| Event::decode(&decision.stream, e)).collect();
        let events = events.map_err(|e| format!("{at}: an event of {} cannot be decoded: {e}", decision.stream))?;
        fold(self.rules, &mut stream.entity, &events, decision.recorded_at)
            .map_err(|e| format!("{at}: folding {} panicked: {e}", decision.stream))?;
        stream.head = Head::after(&decision, self.position.before);
        stream.react(&decision);
        remember(stream, &decision, (self.partition, stored.offset));
        self.decisions += 1;
        Ok(Applied::Decision(decision))
    }

    fn fork(&mut self, decision: &Decision, fork: &Broken, at: &str) -> Applied {
        tracing::error!(stream = %decision.stream, %at, %fork, "a stream forked and is stopped; a person must look");
        metrics::counter!("fm_forks_total").increment(1);
        let stream = self.streams.entry(decision.stream.clone()).or_insert_with(|| Stream::new(&decision.stream));
        stream.stopped.get_or_insert_with(|| format!("{at}: {fork}"));
        Applied::Stopped(decision.stream.clone())
    }
}

/// Folds events in. A panic of the fold on an accepted record is a defect that stops the partition, not the process.
fn fold(rules: Rules, entity: &mut Entity, events: &[Event], at: Timestamp) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| events.iter().for_each(|e| (rules.evolve)(entity, e, at)))).map_err(|e| panic_text(&*e))
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without text".into())
}

/// The stream that a decision reacts to, and the place of the reaction in that stream's order.
pub(crate) fn reaction_of(decision: &Decision) -> Option<(&StreamId, (u64, u32))> {
    let cause = &decision.cause;
    Some((cause.stream.as_ref()?, (cause.version?, cause.index?)))
}

fn remember(stream: &mut Stream, decision: &Decision, at: (u32, u64)) {
    let (Some(command), Some(ask_hash)) = (decision.cause.command, decision.cause.ask_hash) else { return };
    // Reads are many, and a repeat of one is one more: they take no room from requests.
    if decision.outcome.code == USER_DATA_READ {
        return;
    }
    let started = decision.events.iter().any(|e| e.r#type == "OperationStarted");
    let answer = Remembered {
        ask_hash,
        outcome: Arc::new(decision.outcome.clone()),
        decision: decision.id,
        version: decision.version,
        operation: started.then(|| OperationId::of(decision.id, 0)),
        at,
    };
    Arc::make_mut(&mut stream.memory).remember(decision.recorded_at, command, answer);
}
