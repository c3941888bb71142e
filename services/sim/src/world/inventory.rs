//! The NetBox side of the world: what people and programs do to devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Action, Change, Device, Moment, NewDevice, SlurmNode, State, World};

/// Change records kept; older ones are gone, as after NetBox's retention time.
const CHANGES_KEPT: usize = 50_000;

/// One write: by whom, in which request, with which note.
pub(crate) struct Hand<'a> {
    pub(crate) user: &'a str,
    pub(crate) request_id: Uuid,
    pub(crate) note: &'a str,
}

impl<'a> Hand<'a> {
    /// A write of its own request without a note.
    pub(crate) fn of(user: &'a str) -> Self {
        Self { user, request_id: Uuid::new_v4(), note: "" }
    }
}

impl State {
    /// Applies `edit` to a device: `last_updated` moves always, a record is written only if something changed. None = no such device.
    pub(crate) fn edit_device(&mut self, id: u64, by: &Hand<'_>, edit: impl FnOnce(&mut Device)) -> Option<Arc<Device>> {
        let before = self.devices.get(&id)?.clone();
        let mut device = Device::clone(&before);
        edit(&mut device);
        device.id = id;
        let changed = !device.says_the_same_as(&before);
        device.last_updated = self.now();
        let after = Arc::new(device);
        self.devices.insert(id, after.clone());
        if changed {
            self.put_on_record(Action::Update, id, by, Some(before), Some(after.clone()));
        }
        Some(after)
    }

    /// Removes a device. False = no such device.
    pub(crate) fn delete_device(&mut self, id: u64, by: &Hand<'_>) -> bool {
        let before = self.devices.remove(&id);
        let existed = before.is_some();
        if existed {
            self.put_on_record(Action::Delete, id, by, before, None);
        }
        existed
    }

    fn put_on_record(&mut self, action: Action, device: u64, by: &Hand<'_>, before: Option<Arc<Device>>, after: Option<Arc<Device>>) {
        let change = self.new_change(action, device, by, before, after);
        self.changes.insert(change.id, Arc::new(change));
        while self.changes.len() > CHANGES_KEPT {
            self.changes.pop_first();
        }
    }

    /// A record with the next id and the time now, not yet visible.
    pub(crate) fn new_change(
        &mut self,
        action: Action,
        device: u64,
        by: &Hand<'_>,
        before: Option<Arc<Device>>,
        after: Option<Arc<Device>>,
    ) -> Change {
        let (id, time) = (self.next_change, self.now());
        self.next_change += 1;
        Change { id, time, user: by.user.to_owned(), request_id: by.request_id, action, device, note: by.note.to_owned(), before, after }
    }
}

impl World {
    /// All devices, by id.
    pub fn devices(&self) -> Vec<Device> {
        self.lock().devices.values().map(|d| Device::clone(d)).collect()
    }

    /// One device.
    pub fn device(&self, id: u64) -> Option<Device> {
        self.lock().devices.get(&id).map(|d| Device::clone(d))
    }

    /// The device of this name; the first, if two sites have it.
    pub fn device_named(&self, name: &str) -> Option<Device> {
        self.lock().devices.values().find(|d| d.name.as_deref() == Some(name)).map(|d| Device::clone(d))
    }

    /// Adds a device, with a change record by `user`; gives its NetBox id.
    ///
    /// # Panics
    /// If it shall be in SLURM and has no name, or there is no such site.
    #[track_caller]
    pub fn add_device(&self, new: NewDevice, user: &str) -> u64 {
        let mut state = self.lock();
        let (id, now) = (state.next_device, state.now());
        assert!(state.cluster(&new.site).is_some(), "no site {}", new.site);
        let slurm_name = if new.in_slurm { new.name.clone() } else { None };
        assert!(!new.in_slurm || slurm_name.is_some(), "a SLURM node needs a name");
        state.next_device += 1;
        let device = Device {
            id,
            name: new.name,
            serial: new.serial,
            asset_tag: Some(format!("AT{id:06}")),
            status: new.status,
            rack: Some(format!("{}-r01", new.site)),
            site: new.site.clone(),
            position: None,
            device_type: if new.role == "gpu-node" { "xe9680" } else { "sto-60" }.into(),
            role: new.role,
            tenant: Some("tenant-a".into()),
            description: String::new(),
            tags: vec!["managed".into()],
            custom_fields: custom_fields(slurm_name.as_deref(), 8),
            created: now,
            last_updated: now,
        };
        let device = Arc::new(device);
        state.devices.insert(id, device.clone());
        state.put_on_record(Action::Create, id, &Hand::of(user), None, Some(device));
        if let (Some(name), Some(cluster)) = (slurm_name, state.cluster_mut(&new.site)) {
            let node = SlurmNode::idle(&new.site, &name, 1, Moment::now(self.pace, cluster.release, 0.5).unix);
            cluster.nodes.insert(name, node);
        }
        id
    }

    /// Edits a device as `user` would in NetBox: an edit that changes nothing bumps `last_updated` and writes no change record. `edit`
    /// must not call the world, which is locked.
    ///
    /// # Panics
    /// If there is no such device.
    #[track_caller]
    pub fn edit_device(&self, id: u64, user: &str, edit: impl FnOnce(&mut Device)) {
        let done = self.lock().edit_device(id, &Hand::of(user), edit);
        assert!(done.is_some(), "no device {id}");
    }

    /// Renames a device; the SLURM node keeps its name. Panics as [`World::edit_device`] does.
    #[track_caller]
    pub fn rename_device(&self, id: u64, name: Option<&str>, user: &str) {
        self.edit_device(id, user, |d| d.name = name.map(str::to_owned));
    }

    /// Moves a device to another site's first rack, in NetBox only: SLURM nodes stay. Panics as [`World::edit_device`] does.
    #[track_caller]
    pub fn move_device(&self, id: u64, site: &str) {
        self.edit_device(id, "admin", |d| (d.site, d.rack) = (site.to_owned(), Some(format!("{site}-r01"))));
    }

    /// Sets a device's NetBox status. Panics as [`World::edit_device`] does.
    #[track_caller]
    pub fn set_status(&self, id: u64, status: &str, user: &str) {
        self.edit_device(id, user, |d| d.status = status.to_owned());
    }

    /// Sets one custom field. Panics as [`World::edit_device`] does.
    #[track_caller]
    pub fn set_custom_field(&self, id: u64, field: &str, value: Value, user: &str) {
        self.edit_device(id, user, |d| _ = d.custom_fields.insert(field.to_owned(), value));
    }

    /// An equal PATCH: `last_updated` moves, no change record. Panics as [`World::edit_device`] does.
    #[track_caller]
    pub fn touch_device(&self, id: u64) {
        self.edit_device(id, "admin", |_| ());
    }

    /// Deletes a device in NetBox; its SLURM node stays.
    ///
    /// # Panics
    /// If there is no such device.
    #[track_caller]
    pub fn delete_device(&self, id: u64, user: &str) {
        let existed = self.lock().delete_device(id, &Hand::of(user));
        assert!(existed, "no device {id}");
    }
}

/// The custom fields that our NetBox has for devices.
pub(crate) fn custom_fields(slurm_node: Option<&str>, gpus: u32) -> BTreeMap<String, Value> {
    let pairs = [("fleet_phase", Value::Null), ("fleet_id", Value::Null), ("slurm_node", json!(slurm_node)), ("gpu_count", json!(gpus))];
    pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}
