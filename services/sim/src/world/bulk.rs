//! A bulk write in its transaction: the watermark trap (knowledge/netbox.md section 2).

use std::sync::Arc;

use super::inventory::Hand;
use super::{Action, Change, Device, World};

/// A bulk write that has begun and not committed. Its change records have ids and times already, and nobody sees them, nor the new values,
/// until [`Bulk::commit`]. Dropping it rolls back: the ids stay unused.
#[must_use = "a bulk write that is dropped is rolled back"]
pub struct Bulk {
    world: Arc<World>,
    changes: Vec<Change>,
}

impl World {
    /// Begins a bulk write of `status` to devices, in one request of `user`.
    ///
    /// # Panics
    /// If there is no such device.
    #[track_caller]
    pub fn begin_bulk(self: &Arc<Self>, ids: &[u64], status: &str, user: &str) -> Bulk {
        let mut state = self.lock();
        let by = Hand::of(user);
        let mut changes = Vec::new();
        for id in ids {
            let Some(before) = state.devices.get(id).cloned() else { panic!("no device {id}") };
            let mut device = Device::clone(&before);
            (device.status, device.last_updated) = (status.to_owned(), state.now());
            changes.push(state.new_change(Action::Update, *id, &by, Some(before), Some(Arc::new(device))));
        }
        Bulk { world: self.clone(), changes }
    }
}

impl Bulk {
    /// The ids that its change records will have.
    pub fn change_ids(&self) -> Vec<u64> {
        self.changes.iter().map(|c| c.id).collect()
    }

    /// Commits: values and records become visible, with the times of the beginning.
    pub fn commit(self) {
        let mut state = self.world.lock();
        for change in self.changes {
            let Some(after) = change.after.clone() else { continue };
            if let Some(device) = state.devices.get_mut(&change.device) {
                let device = Arc::make_mut(device);
                device.status.clone_from(&after.status);
                device.last_updated = device.last_updated.max(after.last_updated);
                state.changes.insert(change.id, Arc::new(change));
            }
        }
    }
}
