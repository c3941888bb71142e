//! Which stream waits until when.

use fleet_lifecycle::{Decider, Entity, Fleet, Wait};
use fleet_schemas::{StreamId, Timestamp};
use std::collections::{BTreeSet, HashMap};

/// The next wait of every stream that has one.
#[derive(Default)]
pub(crate) struct Timers {
    order: BTreeSet<(Timestamp, StreamId)>,
    due: HashMap<StreamId, (Timestamp, Wait)>,
}

impl Timers {
    /// The stream changed: its next wait is what it says now.
    pub(crate) fn set(&mut self, stream: &StreamId, entity: &Entity) {
        self.mute(stream);
        if let Some((due, wait)) = Fleet::next_wait(entity) {
            self.order.insert((due, stream.clone()));
            self.due.insert(stream.clone(), (due, wait));
        }
    }

    /// No timer until the stream changes.
    pub(crate) fn mute(&mut self, stream: &StreamId) {
        if let Some((due, _)) = self.due.remove(stream) {
            self.order.remove(&(due, stream.clone()));
        }
    }

    /// When the next one falls due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.order.first().map(|(due, _)| *due)
    }

    /// Those due at `now`, at most `limit`.
    pub(crate) fn due(&self, now: Timestamp, limit: usize) -> Vec<(StreamId, Wait)> {
        let ready = self.order.iter().take_while(|(due, _)| *due <= now).take(limit);
        ready.filter_map(|(_, stream)| Some((stream.clone(), self.due.get(stream)?.1.clone()))).collect()
    }
}
