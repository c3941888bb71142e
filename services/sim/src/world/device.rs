//! One device as NetBox has it.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

/// One NetBox device. Sites, racks, roles, types, tenants and tags are named by slug (racks by name).
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// NetBox's primary key; the only identity.
    pub id: u64,
    /// May be null or empty, which are two different things.
    pub name: Option<String>,
    /// Not unique in NetBox.
    pub serial: String,
    /// Unique where set.
    pub asset_tag: Option<String>,
    /// One of NetBox's stock statuses.
    pub status: String,
    /// Site slug, `sim1`.
    pub site: String,
    /// Rack name, `sim1-r02`.
    pub rack: Option<String>,
    /// Lowest rack unit.
    pub position: Option<u32>,
    /// `gpu-node` or `storage`.
    pub role: String,
    /// Device type slug.
    pub device_type: String,
    /// Tenant slug.
    pub tenant: Option<String>,
    /// Free text.
    pub description: String,
    /// Tag slugs.
    pub tags: Vec<String>,
    /// `fleet_phase`, `fleet_id`, `slurm_node`, `gpu_count`.
    pub custom_fields: BTreeMap<String, Value>,
    /// When it was created.
    pub created: DateTime<Utc>,
    /// Bumped by every write, also by an equal one.
    pub last_updated: DateTime<Utc>,
}

impl Device {
    /// Equal but for the time of the last write: nothing that NetBox would put on record.
    pub(crate) fn says_the_same_as(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.last_updated = self.last_updated;
        *self == other
    }
}

/// What [`World::add_device`](crate::World::add_device) needs; the rest is filled in.
#[derive(Clone, Debug)]
pub struct NewDevice {
    /// Site slug.
    pub site: String,
    /// Device name; also the SLURM node's name if `in_slurm`.
    pub name: Option<String>,
    /// Serial number.
    pub serial: String,
    /// NetBox status.
    pub status: String,
    /// Role slug.
    pub role: String,
    /// Whether the site's SLURM gets a node of the same name, IDLE.
    pub in_slurm: bool,
}

impl Default for NewDevice {
    fn default() -> Self {
        Self { site: "sim1".into(), name: None, serial: String::new(), status: "active".into(), role: "gpu-node".into(), in_slurm: false }
    }
}
