//! What must be known of a partition's past to publish what comes next.

use super::records::{Out, of};
use fleet_fence::{Position, Verdict, accept};
use fleet_log::Stored;
use fleet_schemas::{BootstrapConfigEvent, Decision, DeviceEvent, DeviceId, Event, JournalRecord, SiteId, StreamId, Timestamp};
use std::collections::HashMap;

/// Of one subject.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// Where it is.
    pub(super) site: Option<SiteId>,
    /// Public records so far, by topic.
    pub(super) told: [u64; 2],
    /// Version of its stream.
    pub(super) version: u64,
    /// When that was decided.
    pub(super) changed_at: Timestamp,
}

/// Of a partition.
pub(super) struct Fold {
    pub(super) position: Position,
    subjects: HashMap<StreamId, Subject>,
}

/// What a record of the journal means to others.
#[derive(Default)]
pub(super) struct Meant {
    pub(super) out: Vec<Out>,
    /// The device whose state changed.
    pub(super) device: Option<DeviceId>,
}

impl Fold {
    pub(super) fn new() -> Self {
        Self { position: Position::START, subjects: HashMap::new() }
    }

    /// Version of a device, as far as this was read.
    pub(super) fn version(&self, device: DeviceId) -> Option<u64> {
        self.subjects.get(&StreamId::Device(device)).map(|s| s.version)
    }

    /// When a device last changed, as far as this was read.
    pub(super) fn changed_at(&self, device: DeviceId) -> Timestamp {
        self.subjects.get(&StreamId::Device(device)).map_or(Timestamp(0), |s| s.changed_at)
    }

    /// Judges one record, and says what it means. The text says why nothing further may be believed.
    pub(super) fn take(&mut self, stored: &Stored) -> Result<Meant, String> {
        let at = format!("{} offset {}", stored.at, stored.offset);
        let record = JournalRecord::decode(&stored.record.value).map_err(|e| format!("{at}: {e}"))?;
        match (accept(&mut self.position, None, stored.offset, &record, &stored.record.value), record) {
            (Verdict::Broken(broken), _) => Err(format!("{at}: {broken}")),
            (Verdict::Accepted, JournalRecord::Decision(decision)) => self.decision(&decision).map_err(|e| format!("{at}: {e}")),
            (Verdict::Accepted | Verdict::Fenced | Verdict::Duplicate, _) => Ok(Meant::default()),
        }
    }

    fn decision(&mut self, decision: &Decision) -> Result<Meant, String> {
        if decision.events.is_empty() || !matches!(decision.stream, StreamId::Device(_) | StreamId::BootstrapConfig(..)) {
            return Ok(Meant::default());
        }
        let new = || Subject { site: None, told: [0; 2], version: 0, changed_at: decision.recorded_at };
        let subject = self.subjects.entry(decision.stream.clone()).or_insert_with(new);
        (subject.version, subject.changed_at) = (decision.version, decision.recorded_at);
        let mut meant = Meant::default();
        for (index, payload) in decision.events.iter().enumerate() {
            let event = Event::decode(&decision.stream, payload).map_err(|e| e.to_string())?;
            match &event {
                Event::Device(DeviceEvent::InventoryChanged(changed)) => subject.site = Some(changed.inventory.site.clone()),
                Event::Device(DeviceEvent::DeviceMoved(moved)) => subject.site = Some(moved.to.clone()),
                Event::BootstrapConfig(BootstrapConfigEvent::BootstrapConfigCreated(_)) => {
                    if let StreamId::BootstrapConfig(site, _) = &decision.stream {
                        subject.site = Some(site.clone());
                    }
                }
                _ => {}
            }
            meant.out.extend(of(decision, index, &event, subject));
        }
        if let StreamId::Device(device) = decision.stream {
            meant.device = Some(device);
        }
        Ok(meant)
    }
}
