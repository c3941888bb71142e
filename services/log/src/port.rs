//! The port, and what a provider promises. The promises are weak on purpose: they are what Kafka can keep.

use bytes::Bytes;
use std::{collections::BTreeMap, fmt, future::Future, ops::Range, pin::Pin, sync::Arc, time::Duration};

/// A boxed future, so that the port is object safe.
pub type Fut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// Position of a record in its partition, dense from 0.
pub type Offset = u64;

/// One partition of one topic.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Full name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition, from 0.
    pub partition: u32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: &str, partition: u32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Never empty.
    pub key: Bytes,
    /// The bytes.
    pub value: Bytes,
}

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Where it stands.
    pub at: TopicPartition,
    /// Its offset.
    pub offset: Offset,
    /// When the log took it, microseconds since 1970 by the log's clock.
    pub appended_at: i64,
    /// The record.
    pub record: Record,
}

/// Whether an append is on the disk before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Yes.
    Full,
    /// It survives the process but may be lost with the machine's power, unless a later full append followed.
    Awaited,
}

/// What happens to old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// They go, by age or by [`EventLog::trim`].
    Delete,
    /// The last of each key stays.
    Compact,
}

/// A topic as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// Full name.
    pub name: Arc<str>,
    /// Partitions; part of the contract.
    pub partitions: u32,
    /// Cleanup.
    pub cleanup: Cleanup,
    /// Durability of an append.
    pub durability: Durability,
    /// How long a record is kept where the provider lets go of old ones by itself (the embedded one does not: its owner trims). `None` =
    /// for ever.
    pub retention: Option<Duration>,
    /// What else the provider must be told, as it names it: topic configurations of Kafka's. The embedded one has no use for them.
    pub settings: BTreeMap<String, String>,
}

/// Why an operation on the log as a whole failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is there differs from what must be; nothing was changed.
    #[error("topic {topic}: {what} is {found}, must be {wanted}")]
    Differs {
        /// The topic.
        topic: String,
        /// The property.
        what: String,
        /// As it is.
        found: String,
        /// As it must be.
        wanted: String,
    },
    /// It is not there, and whoever asked may not make it.
    #[error("topic {topic} is not there: `fleet-manager topics apply` makes it")]
    Missing {
        /// The topic.
        topic: String,
    },
    /// No such partition.
    #[error("no partition {0}")]
    NoPartition(TopicPartition),
    /// Somebody else has the log.
    #[error("{path} is in use by another process; stop it, or give this one a folder of its own")]
    InUse {
        /// The folder.
        path: String,
    },
    /// The store is not one of ours, or of a later version.
    #[error("{path}: {why}")]
    Foreign {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The store failed.
    #[error("log: {0}")]
    Io(String),
}

/// Why an append was not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Determinate: none of the records is stored, nor will be.
    #[error("not stored: {0}")]
    NotStored(String),
    /// Indeterminate: any subset of the records, in any order, may be stored, or come to be. Only reading tells.
    #[error("unknown whether stored: {0}")]
    Unknown(String),
}

/// What a reader met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The next record of its partition.
    Record(Stored),
    /// Everything that was there is read; `next` is the offset the next record will have. Said once per arrival at the end.
    End {
        /// The partition.
        at: TopicPartition,
        /// Its end.
        next: Offset,
    },
}

/// Why a partition cannot be read on. The reader says it once for the partition and goes on with the others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {fault}")]
pub struct ReadError {
    /// The partition.
    pub at: TopicPartition,
    /// Why.
    pub fault: ReadFault,
}

/// See [`ReadError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadFault {
    /// The record asked for was trimmed.
    #[error("offset {wanted} is gone, the first is {start}")]
    Gone {
        /// Asked for.
        wanted: Offset,
        /// First there is.
        start: Offset,
    },
    /// The offset asked for lies beyond the end.
    #[error("offset {wanted} lies beyond the end, {end}")]
    BeyondEnd {
        /// Asked for.
        wanted: Offset,
        /// The end.
        end: Offset,
    },
    /// Offsets are not dense.
    #[error("offset {wanted} is missing, {found} follows")]
    Gap {
        /// Expected.
        wanted: Offset,
        /// Found.
        found: Offset,
    },
    /// The bytes are not what was stored: reading again gives the same.
    #[error("what is stored is damaged: {0}")]
    Corrupt(String),
    /// The store failed.
    #[error("{0}")]
    Io(String),
}

/// Reads on for ever, over several partitions.
pub trait Reader: Send {
    /// The next thing met, in offset order within a partition; no partition blocks another. Waits where all is read.
    /// Cancel safe: a dropped future loses nothing.
    fn next(&mut self) -> Fut<'_, Result<Item, ReadError>>;
}

/// A record for others: with headers, and without a value where it says that the key is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Public {
    /// Never empty.
    pub key: Bytes,
    /// The bytes; absent = the key is gone.
    pub value: Option<Bytes>,
    /// Headers, in their order.
    pub headers: Vec<(&'static str, String)>,
}

/// A log that others read as well.
pub trait Publish: EventLog {
    /// Appends as [`EventLog::append`] does.
    fn publish(&self, at: TopicPartition, records: Vec<Public>) -> Fut<'static, Result<(), AppendError>>;
}

/// The log.
pub trait EventLog: Send + Sync {
    /// Creates the topics that are missing, and verifies those that are there: what differs is refused, nothing is changed then.
    fn ensure(&self, topics: &[TopicSpec]) -> Fut<'_, Result<(), Error>>;
    /// Appends. Enqueued in call order before this returns; the future tells the outcome, and dropping it means Unknown.
    /// Never atomic over several records. An empty key is refused before anything is stored.
    fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), AppendError>>;
    /// Reads from these offsets on.
    fn read(&self, from: &[(TopicPartition, Offset)]) -> Box<dyn Reader>;
    /// First offset there is, and the end (the offset the next record will have).
    fn bounds(&self, at: TopicPartition) -> Fut<'_, Result<Range<Offset>, Error>>;
    /// Lets go of the records before `before`, at the log's leisure. The caller owns the rule what may go.
    fn trim(&self, at: TopicPartition, before: Offset) -> Fut<'_, Result<(), Error>>;
}
