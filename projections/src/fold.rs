//! From records to changed rows. The state of a stream is the same fold as the decider's.

use crate::db::Error;
use fleet_fence::{Head, Position, Verdict, accept};
use fleet_lifecycle::{Decider, Entity, Fleet};
use fleet_log::Stored;
use fleet_schemas::{
    BootstrapConfigEvent, Decision, DeviceEvent, DeviceId, Event, Hash, JournalRecord, OperationEnded, OperationId, OperationStarted,
    SealedUserData, StreamId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Streams kept in memory between batches.
const CACHE: usize = 50_000;

/// A stream as the read model knows it.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) entity: Entity,
    pub(crate) head: Head,
    pub(crate) stopped: Option<String>,
    pub(crate) at: Timestamp,
}

/// One accepted decision, for the history.
pub(crate) struct Told {
    pub(crate) stream: StreamId,
    pub(crate) partition: u32,
    pub(crate) offset: u64,
    pub(crate) version: u64,
    pub(crate) at: Timestamp,
    pub(crate) outcome: String,
    pub(crate) hash: Hash,
    pub(crate) record: Vec<u8>,
}

/// What happened to an operation in this batch.
pub(crate) struct OperationTold {
    pub(crate) device: DeviceId,
    pub(crate) started: Option<(OperationStarted, Timestamp)>,
    pub(crate) ended: Option<(OperationEnded, Timestamp)>,
}

/// A version of a bootstrap configuration.
pub(crate) struct ConfigTold {
    pub(crate) stream: StreamId,
    pub(crate) version: u64,
    /// As it stood then, frozen.
    pub(crate) state: Vec<u8>,
    /// The user-data that this version set.
    pub(crate) sealed: Option<SealedUserData>,
}

/// What a batch changed; written in one transaction.
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) positions: BTreeMap<u32, (u64, Position)>,
    pub(crate) streams: BTreeSet<StreamId>,
    pub(crate) conditions: BTreeSet<(DeviceId, String, String)>,
    pub(crate) attention: BTreeSet<(DeviceId, String)>,
    pub(crate) history: Vec<Told>,
    pub(crate) operations: BTreeMap<OperationId, OperationTold>,
    pub(crate) configs: Vec<ConfigTold>,
}

/// The fold of every partition.
pub(crate) struct Fold {
    pub(crate) positions: BTreeMap<u32, Position>,
    pub(crate) cache: HashMap<StreamId, Known>,
    pub(crate) changes: Changes,
}

impl Fold {
    pub(crate) fn new(positions: BTreeMap<u32, Position>) -> Self {
        Self { positions, cache: HashMap::new(), changes: Changes::default() }
    }

    /// The stream that the record is about, where it is a decision: the caller loads it before [`Fold::take`].
    pub(crate) fn stream_of(record: &JournalRecord) -> Option<&StreamId> {
        match record {
            JournalRecord::Decision(decision) => Some(&decision.stream),
            JournalRecord::Genesis(_) | JournalRecord::Claim(_) | JournalRecord::Progress(_) => None,
        }
    }

    /// Judges and folds one record. `Err` stops the partition: skipping would corrupt.
    pub(crate) fn take(&mut self, partition: u32, stored: &Stored, record: JournalRecord) -> Result<(), String> {
        let head = Self::stream_of(&record).map(|s| self.cache.get(s).map_or(Head::default(), |k| k.head));
        let position = self.positions.entry(partition).or_insert(Position::START);
        let before = position.next;
        let mut after = position.clone();
        let verdict = accept(&mut after, head.as_ref(), stored.offset, &record, &stored.record.value);
        if let Verdict::Broken(broken) = &verdict
            && broken.stops_partition()
        {
            return Err(broken.to_string());
        }
        let hash = after.before;
        *position = after.clone();
        let moved = self.changes.positions.entry(partition).or_insert((before, after.clone()));
        moved.1 = after;
        match (verdict, record) {
            (Verdict::Accepted, JournalRecord::Decision(decision)) => self.decision(&decision, stored, hash, partition),
            (Verdict::Broken(fork), JournalRecord::Decision(decision)) => {
                let known = self.known(&decision.stream);
                known.stopped.get_or_insert_with(|| fork.to_string());
                self.changes.streams.insert(decision.stream.clone());
                Ok(())
            }
            (Verdict::Accepted | Verdict::Fenced | Verdict::Duplicate | Verdict::Broken(_), _) => Ok(()),
        }
    }

    fn known(&mut self, stream: &StreamId) -> &mut Known {
        self.cache.entry(stream.clone()).or_insert_with(|| Known {
            entity: Fleet::new(stream),
            head: Head::default(),
            stopped: None,
            at: Timestamp(0),
        })
    }

    fn decision(&mut self, decision: &Decision, stored: &Stored, hash: Hash, partition: u32) -> Result<(), String> {
        let known = self.known(&decision.stream);
        if known.stopped.is_some() {
            return Ok(());
        }
        let events: Result<Vec<_>, _> = decision.events.iter().map(|e| Event::decode(&decision.stream, e)).collect();
        let events = events.map_err(|e| e.to_string())?;
        let folded =
            catch_unwind(AssertUnwindSafe(|| events.iter().for_each(|e| Fleet::evolve(&mut known.entity, e, decision.recorded_at))));
        folded.map_err(|_| format!("folding {} panicked", decision.stream))?;
        known.head = Head::after(decision, hash);
        if !events.is_empty() {
            known.at = decision.recorded_at;
        }
        if matches!(decision.stream, StreamId::BootstrapConfig(..)) && !events.is_empty() {
            let state = freeze(&known.entity).map_err(|e| e.to_string())?;
            let sealed = events.iter().find_map(sealed).cloned();
            self.changes.configs.push(ConfigTold { stream: decision.stream.clone(), version: decision.version, state, sealed });
        }
        self.changes.streams.insert(decision.stream.clone());
        if let StreamId::Device(device) = decision.stream {
            for event in events {
                self.device_event(device, event, decision.recorded_at);
            }
        }
        self.changes.history.push(Told {
            stream: decision.stream.clone(),
            partition,
            offset: stored.offset,
            version: decision.version,
            at: decision.recorded_at,
            outcome: decision.outcome.kind.to_string(),
            hash,
            record: stored.record.value.to_vec(),
        });
        Ok(())
    }

    fn device_event(&mut self, device: DeviceId, event: Event, at: Timestamp) {
        match event {
            Event::Device(DeviceEvent::ConditionChanged(e)) => {
                self.changes.conditions.insert((device, e.report.r#type, e.report.subject));
            }
            Event::Device(DeviceEvent::AttentionRaised(e)) => drop(self.changes.attention.insert((device, e.name))),
            Event::Device(DeviceEvent::AttentionCleared(e)) => drop(self.changes.attention.insert((device, e.name))),
            Event::Device(DeviceEvent::AttentionAcknowledged(e)) => drop(self.changes.attention.insert((device, e.name))),
            Event::Device(DeviceEvent::OperationStarted(e)) => {
                let id = e.operation;
                self.changes.operations.insert(id, OperationTold { device, started: Some((e, at)), ended: None });
            }
            Event::Device(DeviceEvent::OperationEnded(e)) => {
                let told = self.changes.operations.entry(e.operation).or_insert(OperationTold { device, started: None, ended: None });
                told.ended = Some((e, at));
            }
            Event::Device(_) | Event::Site(_) | Event::BootstrapConfig(_) | Event::Exclusive(_) | Event::Unclaimed(_) => {}
        }
    }

    /// The batch is written.
    pub(crate) fn written(&mut self) {
        self.changes = Changes::default();
        if self.cache.len() > CACHE {
            self.cache.clear();
        }
    }
}

/// The user-data that an event brings.
fn sealed(event: &Event) -> Option<&SealedUserData> {
    match event {
        Event::BootstrapConfig(BootstrapConfigEvent::BootstrapConfigCreated(e)) => e.user_data.as_ref(),
        Event::BootstrapConfig(BootstrapConfigEvent::BootstrapConfigChanged(e)) => e.user_data.as_ref(),
        Event::BootstrapConfig(BootstrapConfigEvent::BootstrapConfigRetired(_))
        | Event::Device(_)
        | Event::Site(_)
        | Event::Exclusive(_)
        | Event::Unclaimed(_) => None,
    }
}

/// A stream's state as its row holds it.
pub(crate) fn freeze(entity: &Entity) -> Result<Vec<u8>, Error> {
    let bytes = match entity {
        Entity::Device(device) => postcard::to_allocvec(device.as_ref()),
        Entity::Site(site) => postcard::to_allocvec(site.as_ref()),
        Entity::BootstrapConfig(config) => postcard::to_allocvec(config.as_ref()),
        Entity::Exclusive(name) => postcard::to_allocvec(name.as_ref()),
        Entity::Unclaimed(thing) => postcard::to_allocvec(thing.as_ref()),
    };
    bytes.map_err(|e| Error::Corrupt(e.to_string()))
}

/// And back.
pub(crate) fn thaw(stream: &StreamId, bytes: &[u8]) -> Result<Entity, Error> {
    let corrupt = |e: postcard::Error| Error::Corrupt(format!("state of {stream}: {e}"));
    match stream {
        StreamId::Device(_) => postcard::from_bytes(bytes).map(|d| Entity::Device(Arc::new(d))).map_err(corrupt),
        StreamId::Site(_) => postcard::from_bytes(bytes).map(|s| Entity::Site(Arc::new(s))).map_err(corrupt),
        StreamId::BootstrapConfig(..) => postcard::from_bytes(bytes).map(|c| Entity::BootstrapConfig(Arc::new(c))).map_err(corrupt),
        StreamId::Exclusive { .. } => postcard::from_bytes(bytes).map(|n| Entity::Exclusive(Arc::new(n))).map_err(corrupt),
        StreamId::Unclaimed { .. } => postcard::from_bytes(bytes).map(|t| Entity::Unclaimed(Arc::new(t))).map_err(corrupt),
    }
}
