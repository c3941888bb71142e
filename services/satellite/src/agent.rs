//! What an agent is: it looks at one outside system and says what it saw. It keeps nothing but what it asks to be remembered.

use crate::{ClientError, DeviceList, ListedDevice};
use fleet_schemas::{ConditionReport, Fact, SiteId, Source, Status, StreamId, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, future::Future, time::Duration};
use tokio::time::Instant;

/// An agent. Run by [`crate::run`].
pub trait Agent: Send + Sync + 'static {
    /// The system it looks at.
    const SOURCE: Source;
    /// What ties a listed device to that system: one that was linked after a look is looked at soon, not an interval later. `None` = it goes
    /// by no list.
    const LINK: Option<fn(&ListedDevice) -> Option<&str>> = None;
    /// The sites it speaks for; at least one, always the same.
    fn sites(&self) -> &[SiteId];
    /// From the start of a look to the start of the next.
    fn interval(&self) -> Duration;
    /// One look. An error says nothing about any device. The runner gives it a total deadline.
    fn look(&mut self, look: Look<'_>) -> impl Future<Output = Result<Sweep, ClientError>> + Send;
}

/// What a look is given.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// The devices of the agent's sites.
    pub devices: &'a DeviceList,
    /// What agents of this source asked to be remembered; an agent keeps to keys of its own.
    pub memory: &'a Memory,
    /// When the look began. Facts carry it as `observed_at`: what they say was read at this instant or later.
    pub now: Timestamp,
    /// Half of the look's time is spent: who asks for things one by one stops here and gives what there is.
    pub half_time: Instant,
}

/// What a look gave.
#[derive(Debug, Default)]
pub struct Sweep {
    /// What was seen, in order.
    pub observations: Vec<Seen>,
    /// The sites of which this was a complete look.
    pub complete: Vec<Complete>,
    /// What to remember; stored in the transaction that queues the observations.
    pub memory: MemoryChanges,
    /// What went wrong, where the look has something to say all the same. Becomes a `LookFailed` for each site, after the end of the sweep.
    pub failed: Option<ClientError>,
}

/// A complete look at one site's things.
#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    /// The site.
    pub site: SiteId,
    /// Things seen or known to be there.
    pub count: i64,
}

/// One thing seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// What it is about.
    pub stream: StreamId,
    /// The site it was seen at.
    pub site: SiteId,
    /// The thing's own id in the system.
    pub native_id: String,
    /// What was seen.
    pub fact: Fact,
    /// When.
    pub observed_at: Timestamp,
}

/// A statement about a whole device.
pub(crate) fn report(r#type: &str, status: Status, reason: &str, message: String) -> ConditionReport {
    ConditionReport { r#type: r#type.into(), subject: "device".into(), status, reason: reason.into(), message }
}

/// What the agents of one source remember: texts to JSON documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory(pub(crate) BTreeMap<String, Vec<u8>>);

impl Memory {
    /// What stands under `key`. What cannot be read (an older build's form) counts as forgotten, and is logged.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.0.get(key).and_then(|bytes| read(key, bytes))
    }

    /// Everything whose key begins with `prefix`, by the rest of the key.
    pub fn under<'a, T: DeserializeOwned>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, T)> {
        let keys = self.0.range(prefix.to_owned()..).take_while(move |(key, _)| key.starts_with(prefix));
        keys.filter_map(move |(key, bytes)| Some((&key[prefix.len()..], read(key, bytes)?)))
    }

    /// Takes changes over.
    pub fn apply(&mut self, changes: &MemoryChanges) {
        for (key, value) in &changes.0 {
            match value {
                Some(bytes) => _ = self.0.insert(key.clone(), bytes.clone()),
                None => _ = self.0.remove(key),
            }
        }
    }
}

fn read<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Option<T> {
    let read = serde_json::from_slice(bytes);
    read.inspect_err(|error| tracing::warn!(key, %error, "forgot what an agent remembered: it cannot be read")).ok()
}

/// What to remember and what to forget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryChanges(pub(crate) BTreeMap<String, Option<Vec<u8>>>);

impl MemoryChanges {
    /// Remembers `value` under `key`.
    pub fn put(&mut self, key: impl Into<String>, value: &impl Serialize) {
        // Our records are structs and maps with text keys, which JSON can always hold.
        self.0.insert(key.into(), Some(serde_json::to_vec(value).unwrap_or_default()));
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: impl Into<String>) {
        self.0.insert(key.into(), None);
    }
}

/// Where the time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
