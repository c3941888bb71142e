//! What a decision of one stream means for others. Reactions are drawn from events alone, so that whoever draws them again draws the same.

use fleet_schemas::{Ask, Notice, Payload, StreamId};

/// One reaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Reaction {
    /// Another stream is asked for something.
    Ask(StreamId, Ask),
    /// Another stream is told something.
    Tell(StreamId, Notice),
}

impl Reaction {
    /// The stream that it is for.
    pub fn stream(&self) -> &StreamId {
        match self {
            Self::Ask(stream, _) | Self::Tell(stream, _) => stream,
        }
    }

    /// What it says, for a command record.
    pub fn payload(&self) -> Payload {
        match self {
            Self::Ask(_, ask) => ask.encode(),
            Self::Tell(_, notice) => notice.encode(),
        }
    }
}
