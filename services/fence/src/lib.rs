//! The one rule of what a reader of the journal may believe. Decider, projectors, publisher, reactor and audit all call
//! [`accept`] for every record they read, in offset order, and do what the [`Verdict`] says.
//!
//! Leadership is a record: a partition is led by the claimant of the highest term read so far, and a record counts only if it
//! names that term, that claimant, and the next `n`. So a paused or cut-off leader may write as much as it likes; every reader
//! drops it at the same place, and whoever answers a command only after reading its decision back never says yes to a dropped one.

use fleet_schemas::{BootId, Decision, Hash, JournalId, JournalRecord};
use serde::{Deserialize, Serialize};

/// Where a reader stands in one partition of the journal. Stored whole, in the transaction of the reader's output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The journal; `None` before its Genesis was read.
    pub journal: Option<JournalId>,
    /// Offset of the next record.
    pub next: u64,
    /// The standing term; 0 before any claim.
    pub term: u64,
    /// Its claimant; `None` before any claim, and for a sealed partition.
    pub claimant: Option<BootId>,
    /// The n that the term's next record must have.
    pub n: NextN,
    /// SHA-256 of the record before `next`; zero at the start.
    pub before: Hash,
    /// When the last accepted record was recorded, in microseconds: a partition's time never runs back.
    pub recorded_at: i64,
}

/// See [`Position::n`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NextN {
    /// This one.
    Is(u64),
    /// None: a number was skipped, so a record is missing and nothing of this term may be believed any more.
    Over,
}

impl Position {
    /// Before the first record.
    pub const START: Self = Self { journal: None, next: 0, term: 0, claimant: None, n: NextN::Over, before: Hash([0; 32]), recorded_at: 0 };
}

/// Where a stream stands: what its next decision must build on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Head {
    /// Count of its decisions with events.
    pub version: u64,
    /// SHA-256 of its last accepted record; zero before the first.
    pub hash: Hash,
}

impl Head {
    /// The head after `decision`, whose wire bytes hash to `hash`.
    pub fn after(decision: &Decision, hash: Hash) -> Self {
        Self { version: decision.version, hash }
    }
}

/// What to do with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Believe it.
    Accepted,
    /// Drop it: its writer does not lead, or a record of its term is missing.
    Fenced,
    /// Drop it: it was believed before.
    Duplicate,
    /// Believe nothing further of what `Broken` names, and call a person.
    Broken(Broken),
}

/// What is broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The partition: a record is not where it must be.
    #[error("the next record must be at offset {wanted}, this one is at {found}")]
    Offset {
        /// Expected.
        wanted: u64,
        /// Found.
        found: u64,
    },
    /// The partition: it does not begin with a Genesis, or has a second one.
    #[error("{0}")]
    Genesis(&'static str),
    /// The stream alone: its decision does not build on its head.
    #[error("a fork: the decision builds on version {version_before} and hash {prev_hash}, the stream stands at {head:?}")]
    Fork {
        /// Version that it builds on.
        version_before: u64,
        /// Hash that it builds on.
        prev_hash: Hash,
        /// Where the stream stands.
        head: Head,
    },
}

impl Broken {
    /// Whether the whole partition stops, or only the record's stream.
    pub fn stops_partition(&self) -> bool {
        !matches!(self, Self::Fork { .. })
    }
}

/// Judges the record at `offset` and moves `position` past it. `head` is the stream's head where the reader keeps heads
/// (`Head::default()` for a stream it has never seen), and `None` where it relies on n alone. `bytes` are the exact wire bytes.
pub fn accept(position: &mut Position, head: Option<&Head>, offset: u64, record: &JournalRecord, bytes: &[u8]) -> Verdict {
    if offset < position.next {
        // Delivered again: it was judged when it came first.
        return Verdict::Duplicate;
    }
    if offset != position.next {
        return Verdict::Broken(Broken::Offset { wanted: position.next, found: offset });
    }
    let verdict = match record {
        JournalRecord::Genesis(_) if offset != 0 => return Verdict::Broken(Broken::Genesis("a Genesis behind the first record")),
        JournalRecord::Genesis(genesis) => {
            position.journal = Some(genesis.journal);
            position.recorded_at = genesis.created_at.0;
            Verdict::Accepted
        }
        _ if offset == 0 => return Verdict::Broken(Broken::Genesis("the first record is no Genesis: this is no journal of ours")),
        JournalRecord::Claim(claim) if claim.term <= position.term => Verdict::Fenced,
        JournalRecord::Claim(claim) => {
            position.term = claim.term;
            position.claimant = claim.leader;
            position.n = NextN::Is(1);
            position.recorded_at = position.recorded_at.max(claim.recorded_at.0);
            Verdict::Accepted
        }
        JournalRecord::Progress(p) => number(position, p.term, p.leader, p.n, p.recorded_at.0),
        JournalRecord::Decision(d) => match number(position, d.term, d.leader, d.n, d.recorded_at.0) {
            Verdict::Accepted => chain(head, d),
            dropped => dropped,
        },
    };
    position.next = offset + 1;
    position.before = Hash::of(bytes);
    verdict
}

fn number(position: &mut Position, term: u64, leader: BootId, n: u64, recorded_at: i64) -> Verdict {
    if term != position.term || Some(leader) != position.claimant {
        return Verdict::Fenced;
    }
    match position.n {
        NextN::Over => Verdict::Fenced,
        NextN::Is(next) if n < next => Verdict::Duplicate,
        NextN::Is(next) if n > next => {
            position.n = NextN::Over;
            Verdict::Fenced
        }
        NextN::Is(next) => {
            position.n = NextN::Is(next + 1);
            position.recorded_at = position.recorded_at.max(recorded_at);
            Verdict::Accepted
        }
    }
}

fn chain(head: Option<&Head>, decision: &Decision) -> Verdict {
    match head {
        Some(head) if head.version != decision.version_before || head.hash != decision.prev_hash => {
            Verdict::Broken(Broken::Fork { version_before: decision.version_before, prev_hash: decision.prev_hash, head: *head })
        }
        _ => Verdict::Accepted,
    }
}
