//! The shape of a decider.

use crate::{Reaction, Reference, Refusal};
use fleet_schemas::{Actor, Ask, DecisionId, Fact, MINUTE, Micros, Notice, SiteId, Source, SourceSeq, StreamId, Timestamp, WaitKind};

/// What a decision may look at beside the state: nothing that the journal could not give again.
pub struct Context<'a> {
    /// The partition's time: never before the record before.
    pub now: Timestamp,
    /// The stream.
    pub stream: &'a StreamId,
    /// The stream's version before this decision.
    pub version: u64,
    /// The decision under way; ids of operations and tasks come from it.
    pub decision: DecisionId,
    /// Who asks, or on whose word it rests.
    pub actor: &'a Actor,
    /// Why, in the asker's words.
    pub reason: &'a str,
    /// The reference streams as confirmed.
    pub reference: &'a Reference,
    /// When the present leader's term began, here or in partition 0, whichever is later: silence before it was nobody's to notice.
    pub leading_since: Timestamp,
}

/// A command, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked.
    pub ask: Ask,
    /// Version that the stream must have.
    pub expected_version: Option<u64>,
}

/// An observation, decoded.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    /// What was seen.
    pub fact: Fact,
    /// Site whose agent looked.
    pub site: SiteId,
    /// Where it looked.
    pub source: Source,
    /// The thing's own id there.
    pub native_id: String,
    /// Place in the source's order.
    pub seq: SourceSeq,
    /// When the agent had the answer.
    pub observed_at: Timestamp,
    /// When the satellite sent it, by the same clock as `observed_at`.
    pub sent_at: Timestamp,
}

/// An observation older than this when it was sent is backfill: it does not speak of now.
pub const BACKFILL: Micros = 10 * MINUTE;

impl Sighting {
    /// Whether it speaks of now.
    pub fn live(&self) -> bool {
        self.sent_at.since(self.observed_at) <= BACKFILL
    }
}

/// What an observation led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed<E> {
    /// What changed.
    pub events: Vec<E>,
    /// Why it was set aside, where it was: it is then kept in the history without effect.
    pub note: Option<&'static str>,
}

impl<E> Observed<E> {
    /// These events.
    pub fn events(events: Vec<E>) -> Self {
        Self { events, note: None }
    }
    /// Set aside.
    pub fn set_aside(note: &'static str) -> Self {
        Self { events: vec![], note: Some(note) }
    }
}

/// A wait of an entity: what it waits for, and which of several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// What it waits for.
    pub kind: WaitKind,
    /// Which: the name of a hold, of a source; else empty.
    pub name: String,
}

/// A decider. Synchronous, total and deterministic; see the crate's doc.
pub trait Decider {
    /// What is folded from the events.
    type State: Clone + PartialEq;
    /// What happens.
    type Event;

    /// The state of a stream without decisions.
    fn new(stream: &StreamId) -> Self::State;
    /// Judges a request.
    fn decide(state: &Self::State, request: &Request, ctx: &Context<'_>) -> Result<Vec<Self::Event>, Refusal>;
    /// Draws what follows from a fact. Facts cannot be refused.
    fn observe(state: &Self::State, sighting: &Sighting, ctx: &Context<'_>) -> Observed<Self::Event>;
    /// Draws what follows from what another stream tells. It cannot be refused.
    fn heed(state: &Self::State, notice: &Notice, ctx: &Context<'_>) -> Observed<Self::Event>;
    /// Silence became a fact: a wait fell due.
    fn expire(state: &Self::State, wait: &Wait, ctx: &Context<'_>) -> Vec<Self::Event>;
    /// The next wait, and when it falls due.
    fn next_wait(state: &Self::State) -> Option<(Timestamp, Wait)>;
    /// From the whole state: what should follow by itself and has not yet. Runs behind every input.
    fn plan(state: &Self::State, ctx: &Context<'_>) -> Vec<Self::Event>;
    /// Folds an event in. `at` is when its decision was recorded. No validation, no panic.
    fn evolve(state: &mut Self::State, event: &Self::Event, at: Timestamp);
    /// What an event of `stream` asks of other streams, or tells them. It looks at nothing else, so that it can be drawn again.
    fn react(stream: &StreamId, event: &Self::Event) -> Vec<Reaction>;
}
