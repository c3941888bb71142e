//! A device as REST gives it, and the inventory record that it becomes.

use super::client::Keyed;
use super::state::Known;
use fleet_schemas::{Inventory, SiteId};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The custom field that holds the phase.
pub(crate) const PHASE_FIELD: &str = "fleet_phase";

/// One device. A field that is missing (a `brief` list) makes it unreadable; `null` does not.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Row {
    pub(crate) id: i64,
    #[serde(deserialize_with = "present")]
    pub(crate) name: Option<String>,
    pub(crate) display: String,
    pub(crate) site: Place,
    pub(crate) role: Place,
    pub(crate) device_type: Place,
    pub(crate) serial: String,
    #[serde(deserialize_with = "present")]
    pub(crate) asset_tag: Option<String>,
    #[serde(deserialize_with = "present")]
    pub(crate) rack: Option<Rack>,
    #[serde(deserialize_with = "present")]
    pub(crate) position: Option<f64>,
    #[serde(deserialize_with = "present")]
    pub(crate) face: Option<Choice>,
    pub(crate) status: Choice,
    #[serde(deserialize_with = "present")]
    pub(crate) tenant: Option<Place>,
    pub(crate) tags: Vec<Place>,
    pub(crate) custom_fields: Map<String, Value>,
}

/// With a function of its own serde takes a missing `Option` as an error, as it does for other types.
fn present<'de, T: Deserialize<'de>, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(deserializer)
}

/// Something a device refers to.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Place {
    pub(crate) id: i64,
    pub(crate) slug: String,
}

/// Racks have a name and no slug.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Rack {
    pub(crate) id: i64,
    pub(crate) name: String,
}

/// `{value, label}`. The value is an open string: a site may choose its own.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Choice {
    pub(crate) value: String,
}

/// Which link makes a device a SLURM node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlurmLink {
    /// The value of this custom field (`custom-field`).
    CustomField(String),
    /// The device's name is the NodeName, by this site's rule (`rule:name`).
    Name,
}

impl Keyed for Row {
    fn id(&self) -> i64 {
        self.id
    }
}

impl Row {
    pub(crate) fn is_at(&self, site: &SiteId) -> bool {
        self.site.slug == site.as_str()
    }

    /// The record of this device at `site`, whose slug it has.
    pub(crate) fn inventory(&self, instance: &str, site: &SiteId, link: &SlurmLink) -> Inventory {
        let filled = |text: &Option<String>| text.clone().filter(|t| !t.trim().is_empty());
        let name = filled(&self.name);
        let (slurm_node, from) = match link {
            SlurmLink::CustomField(field) => (self.custom_text(field), "custom-field"),
            SlurmLink::Name => (name.clone(), "rule:name"),
        };
        let mut tags: Vec<String> = self.tags.iter().map(|t| t.slug.clone()).collect();
        tags.sort();
        Inventory {
            instance: instance.into(),
            netbox_id: self.id,
            name,
            display: self.display.clone(),
            site: site.clone(),
            role: self.role.slug.clone(),
            device_type: self.device_type.slug.clone(),
            serial: self.serial(),
            asset_tag: filled(&self.asset_tag),
            rack: self.rack.as_ref().map(|r| r.name.clone()),
            position_tenths: self.position.map(|units| (units * 10.0).round() as i64),
            face: self.face.as_ref().map(|f| f.value.clone()),
            status: self.status.value.clone(),
            fleet_phase: self.custom_text(PHASE_FIELD),
            tenant: self.tenant.as_ref().map(|t| t.slug.clone()),
            tags,
            slurm_node_from: slurm_node.is_some().then(|| from.into()),
            slurm_node,
        }
    }

    /// `serial` as it stands, unless it is empty.
    pub(crate) fn serial(&self) -> Option<String> {
        Some(self.serial.clone()).filter(|s| !s.trim().is_empty())
    }

    /// A custom field of type text, or of type select (`{value, label}`).
    fn custom_text(&self, field: &str) -> Option<String> {
        custom_text(self.custom_fields.get(field)?)
    }

    /// What is to be remembered of it; `inventory` is its record.
    pub(crate) fn known(&self, inventory: Inventory) -> Known {
        Known {
            site: inventory.site.clone(),
            serial: self.serial(),
            site_id: self.site.id,
            rack: self.rack.as_ref().map(|r| r.id),
            role: self.role.id,
            device_type: self.device_type.id,
            tenant: self.tenant.as_ref().map(|t| t.id),
            inventory: Some(inventory),
        }
    }
}

/// A custom field's value as text: plain, or of a select as an object; in change records selects are plain, too.
pub(crate) fn custom_text(value: &Value) -> Option<String> {
    let value = value.get("value").unwrap_or(value);
    value.as_str().map(str::to_owned).filter(|t| !t.is_empty())
}
