//! The records of the journal. Their layout is final: see `docs/adr/0002-journal-record-layout.md`.

use crate::{
    Actor, BootId, CauseKind, CommandId, DecisionId, DecodeError, Hash, JournalId, ObservationId, OutcomeKind, Payload, Record, SiteId,
    Source, StreamId, Timestamp, WaitKind, codec, registry,
};

record! {
    /// The first record of a partition, at offset 0, and nowhere else.
    pub struct Genesis in "journal" {
        /// The journal.
        journal: JournalId,
        /// The partition.
        partition: u32,
        /// When it was made.
        created_at: Timestamp,
        /// The journal it continues, where it was copied from another.
        from: Option<JournalId>,
    }
}
record! {
    /// Somebody claims to lead the partition. Its n is 0.
    pub struct Claim in "journal" {
        /// Highest term seen plus one.
        term: u64,
        /// The claimant; absent = sealed, nobody may lead below this term.
        leader: Option<BootId>,
        /// When, by the claimant's clock.
        recorded_at: Timestamp,
    }
}
record! {
    /// Where to resume reading the inputs.
    pub struct Inputs {
        /// Next offset of the commands.
        commands: u64,
        /// Next offset of the observations.
        observations: u64,
    }
}
record! {
    /// What caused a decision.
    pub struct Cause {
        /// command, observation, deadline, reaction or reference.
        kind: CauseKind,
        /// For a command: its id.
        command: Option<CommandId>,
        /// For a command: SHA-256 of what was asked.
        ask_hash: Option<Hash>,
        /// For an observation: its id.
        observation: Option<ObservationId>,
        /// For an observation: its source.
        source: Option<Source>,
        /// For a deadline: what waited.
        wait: Option<WaitKind>,
        /// For a reaction: the decision that had the event.
        decision: Option<DecisionId>,
        /// For a reaction: which of its reactions.
        index: Option<u32>,
        /// For a reference change: offset in partition 0. For commands, reactions and observations: offset in their topic.
        offset: Option<u64>,
        /// For a reaction: the stream of the decision that had the event.
        stream: Option<StreamId> = default,
        /// For a reaction: that stream's version after it. Of one stream's reactions, none at or below the highest is handled again.
        version: Option<u64> = default,
    }
}
record! {
    /// What a decision came to. The fields behind `code` are filled for rejections and for notes that explain themselves.
    pub struct Outcome {
        /// accepted, rejected or noted.
        kind: OutcomeKind,
        /// Stable code, or empty.
        code: String,
        /// The guard that refused.
        guard: String,
        /// What it expected.
        expected: String,
        /// What it saw.
        seen: String,
        /// What would help.
        helps: String,
    }
}

impl Outcome {
    /// Granted.
    pub fn accepted() -> Self {
        Self::of(OutcomeKind::Accepted, "")
    }
    /// Taken note of.
    pub fn noted(code: &str) -> Self {
        Self::of(OutcomeKind::Noted, code)
    }
    fn of(kind: OutcomeKind, code: &str) -> Self {
        let empty = String::new;
        Self { kind, code: code.into(), guard: empty(), expected: empty(), seen: empty(), helps: empty() }
    }
}

record! {
    /// One decision: cause, outcome, events and its place in the chain, in one record.
    pub struct Decision in "journal" {
        /// Its id.
        id: DecisionId,
        /// Term it was decided under.
        term: u64,
        /// Who led that term.
        leader: BootId,
        /// Its number in the term, dense from 1.
        n: u64,
        /// The stream.
        stream: StreamId,
        /// The stream's version before: the count of its decisions with events.
        version_before: u64,
        /// And after.
        version: u64,
        /// SHA-256 of the stream's previous accepted record; zero for the first.
        prev_hash: Hash,
        /// What caused it.
        cause: Cause,
        /// Where to resume the inputs after it.
        inputs: Inputs,
        /// Next offset of partition 0 that it was decided with; 0 in partition 0 itself.
        reference: u64,
        /// Who asked, or on whose word it rests.
        actor: Actor,
        /// Why, in the asker's words.
        reason: String,
        /// W3C trace id, or empty.
        trace_id: String,
        /// What it came to.
        outcome: Outcome,
        /// What changed.
        events: Vec<Payload>,
        /// When the asker asked, or the source says it happened.
        occurred_at: Option<Timestamp>,
        /// When an agent saw it.
        observed_at: Option<Timestamp>,
        /// When the hub took it.
        received_at: Option<Timestamp>,
        /// When it was decided: never before the record before it.
        recorded_at: Timestamp,
    }
}
record! {
    /// When a source of a site was last looked at completely.
    pub struct LastLook {
        /// The site.
        site: SiteId,
        /// The source.
        source: Source,
        /// When.
        at: Timestamp,
    }
}
record! {
    /// Input was read that left no decision.
    pub struct Progress in "journal" {
        /// Term.
        term: u64,
        /// Who leads it.
        leader: BootId,
        /// Its number in the term.
        n: u64,
        /// Where to resume the inputs.
        inputs: Inputs,
        /// In partition 0: the last complete look at each source.
        last_looks: Vec<LastLook>,
        /// When.
        recorded_at: Timestamp,
    }
}

/// Any record of the journal.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalRecord {
    /// The start.
    Genesis(Genesis),
    /// A claim.
    Claim(Claim),
    /// A decision.
    Decision(Box<Decision>),
    /// Progress.
    Progress(Progress),
}

impl JournalRecord {
    /// Decodes any record of the journal by the fingerprint in its header.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let fingerprint = codec::fingerprint_of(bytes)?;
        let writer = registry::published(fingerprint).ok_or(DecodeError::UnknownSchema(fingerprint))?;
        match writer.name.as_str() {
            Decision::NAME => codec::decode(bytes).map(|d| Self::Decision(Box::new(d))),
            Progress::NAME => codec::decode(bytes).map(Self::Progress),
            Claim::NAME => codec::decode(bytes).map(Self::Claim),
            Genesis::NAME => codec::decode(bytes).map(Self::Genesis),
            other => Err(DecodeError::WrongType { expected: "journal record", found: other.into() }),
        }
    }
    /// The wire bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Genesis(r) => codec::encode(r),
            Self::Claim(r) => codec::encode(r),
            Self::Decision(r) => codec::encode(r.as_ref()),
            Self::Progress(r) => codec::encode(r),
        }
    }
}
