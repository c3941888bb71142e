//! What is decided and not read back yet: speculative state over the ledger, and the records that would make it true.

use super::Desk;
use crate::{Ledger, Stream, ledger::reaction_of};
use bytes::Bytes;
use fleet_fence::Head;
use fleet_lifecycle::Entity;
use fleet_log::Record;
use fleet_schemas::{
    Actor, BootId, Cause, CommandId, Decision, DecisionId, Event, Hash, Inputs, JournalRecord, Outcome, OutcomeKind, Progress, StreamId,
    Timestamp, encode,
};
use std::collections::HashMap;
use uuid::Uuid;

/// Decisions that one batch may hold.
pub(crate) const MAX_DECISIONS: usize = 512;
/// Bytes that one batch may hold.
const MAX_BYTES: usize = 512 << 10;
/// Bytes that one decision may have.
const MAX_DECISION: usize = 256 << 10;

/// A decision before it has its place in the journal.
pub(crate) struct Draft {
    pub(crate) stream: StreamId,
    pub(crate) cause: Cause,
    pub(crate) actor: Actor,
    pub(crate) reason: String,
    pub(crate) trace_id: String,
    pub(crate) outcome: Outcome,
    /// What happened, and the stream with it folded in.
    pub(crate) events: Events,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) observed_at: Option<Timestamp>,
    pub(crate) received_at: Option<Timestamp>,
}

/// Events, and the state that they lead to; without events it is the state they found.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) list: Vec<Event>,
    pub(crate) after: Option<Entity>,
}

/// One batch.
pub(crate) struct Batch {
    term: u64,
    boot: BootId,
    partition: u32,
    next_n: u64,
    pub(crate) now: Timestamp,
    pub(crate) reference: u64,
    pub(crate) records: Vec<Record>,
    bytes: usize,
    streams: HashMap<StreamId, (Entity, Head)>,
    /// Commands decided in this batch: an exact repeat behind them is answered by them.
    asked: HashMap<CommandId, Hash>,
    /// Reactions handled in this batch: the highest by the stream that reacts and the one that it reacts to.
    reacted: HashMap<(StreamId, StreamId), (u64, u32)>,
}

impl Draft {
    /// The rejection of what does not fit a record.
    pub(crate) fn too_large(stream: StreamId, cause: Cause, actor: Actor, why: String, received_at: Timestamp) -> Self {
        let outcome = Outcome {
            kind: OutcomeKind::Rejected,
            code: "too-large".into(),
            guard: "size".into(),
            expected: "a decision that fits a record".into(),
            seen: why,
            helps: "the input is parked; report it with its text".into(),
        };
        let (reason, trace_id, events) = (String::new(), String::new(), Events::default());
        let (occurred_at, observed_at, received_at) = (None, None, Some(received_at));
        Self { stream, cause, actor, reason, trace_id, outcome, events, occurred_at, observed_at, received_at }
    }
}

impl Batch {
    pub(crate) fn new(desk: &Desk, term: u64, next_n: u64, now: Timestamp, reference: u64) -> Self {
        let (boot, partition) = (desk.boot, desk.partition);
        let (records, streams, asked, reacted) = (Vec::new(), HashMap::new(), HashMap::new(), HashMap::new());
        Self { term, boot, partition, next_n, now, reference, records, bytes: 0, streams, asked, reacted }
    }

    pub(crate) fn full(&self) -> bool {
        self.records.len() >= MAX_DECISIONS || self.bytes >= MAX_BYTES
    }

    /// The id that the next decision will have: a name of its place, so that deciding again after a loss gives another.
    pub(crate) fn decision_id(&self) -> DecisionId {
        DecisionId(Uuid::new_v5(&self.boot.0, format!("{}/{}/{}", self.partition, self.term, self.next_n).as_bytes()))
    }

    /// A stream as it will be when this batch is true.
    pub(crate) fn stream(&self, ledger: &Ledger, stream: &StreamId) -> (Entity, Head) {
        match (self.streams.get(stream), ledger.streams.get(stream)) {
            (Some(speculative), _) => speculative.clone(),
            (None, Some(known)) => (known.entity.clone(), known.head),
            (None, None) => {
                let new = Stream::new(stream);
                (new.entity, new.head)
            }
        }
    }

    /// What this batch has decided on, as it will be.
    pub(crate) fn entities(&self) -> impl Iterator<Item = &Entity> {
        self.streams.values().map(|(entity, _)| entity)
    }

    pub(crate) fn asked(&self, command: &CommandId) -> Option<&Hash> {
        self.asked.get(command)
    }

    /// The highest reaction of `stream` to `source` that will have been handled when this batch is true.
    pub(crate) fn reacted(&self, ledger: &Ledger, stream: &StreamId, source: &StreamId) -> Option<(u64, u32)> {
        let here = self.reacted.get(&(stream.clone(), source.clone())).copied();
        here.or_else(|| ledger.streams.get(stream)?.reacted_to(source))
    }

    /// Adds a decision; gives it back with the reason where it is too large.
    pub(crate) fn push(&mut self, ledger: &Ledger, draft: Draft, inputs: &Inputs) -> Result<(), String> {
        let (before, head) = self.stream(ledger, &draft.stream);
        let events = draft.events;
        let version = head.version + u64::from(!events.list.is_empty());
        let decision = Decision {
            id: self.decision_id(),
            term: self.term,
            leader: self.boot,
            n: self.next_n,
            stream: draft.stream.clone(),
            version_before: head.version,
            version,
            prev_hash: head.hash,
            cause: draft.cause,
            inputs: inputs.clone(),
            reference: self.reference,
            actor: draft.actor,
            reason: draft.reason,
            trace_id: draft.trace_id,
            outcome: draft.outcome,
            events: events.list.iter().map(Event::encode).collect(),
            occurred_at: draft.occurred_at,
            observed_at: draft.observed_at,
            received_at: draft.received_at,
            recorded_at: self.now,
        };
        let bytes = encode(&decision);
        if bytes.len() > MAX_DECISION {
            return Err(format!("the decision has {} bytes, more than {MAX_DECISION}", bytes.len()));
        }
        let entity = events.after.unwrap_or(before);
        self.streams.insert(draft.stream.clone(), (entity, Head::after(&decision, Hash::of(&bytes))));
        if let (Some(command), Some(hash)) = (decision.cause.command, decision.cause.ask_hash) {
            self.asked.insert(command, hash);
        }
        if let Some((source, place)) = reaction_of(&decision) {
            self.reacted.insert((decision.stream.clone(), source.clone()), place);
        }
        self.add(draft.stream.to_string().into(), bytes);
        Ok(())
    }

    /// Adds a Progress.
    pub(crate) fn progress(&mut self, inputs: &Inputs, last_looks: Vec<fleet_schemas::LastLook>) {
        let (term, leader, n, recorded_at) = (self.term, self.boot, self.next_n, self.now);
        let progress = Progress { term, leader, n, inputs: inputs.clone(), last_looks, recorded_at };
        self.add(format!("progress/{}", self.partition).into(), JournalRecord::Progress(progress).encode());
    }

    fn add(&mut self, key: Bytes, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.next_n += 1;
        self.records.push(Record { key, value: bytes.into() });
    }
}
