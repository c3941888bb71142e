//! A satellite's copy of its sites' devices: what links a device to the things that agents see.

use fleet_schemas::DeviceId;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// One device as the hub lists it for a site. The hub's item has more fields; these are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedDevice {
    /// The device; as text (`6f0c…`) in JSON.
    #[serde(serialize_with = "id_to_text", deserialize_with = "id_from_text")]
    pub id: DeviceId,
    /// Its name, for people.
    pub name: String,
    /// Its SLURM NodeName, where an explicit link names one; never guessed (knowledge/slurm.md, rule 15).
    #[serde(default)]
    pub slurm_node: Option<String>,
}

/// The devices of one site, or of all the sites of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceList {
    /// In no particular order.
    pub devices: Vec<ListedDevice>,
}

fn id_to_text<S: Serializer>(id: &DeviceId, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}

fn id_from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DeviceId, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}
