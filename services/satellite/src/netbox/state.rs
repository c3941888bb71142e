//! What the agent remembers between looks: the devices it knows, which of them are to be read again, and how far the feed was read.

use super::feed::Feed;
use crate::{Memory, MemoryChanges};
use fleet_schemas::{Inventory, SiteId, StatusEdit, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

/// One device at a bound site: what conflicts need, and by what it becomes dirty (rule 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) site: SiteId,
    pub(crate) serial: Option<String>,
    pub(crate) site_id: i64,
    pub(crate) rack: Option<i64>,
    pub(crate) role: i64,
    pub(crate) device_type: i64,
    pub(crate) tenant: Option<i64>,
    /// As last reported: what stands while the row cannot be read.
    pub(crate) inventory: Option<Inventory>,
}

/// A device that the feed named and that was not read again yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dirty {
    /// A delete was among the changes; by whom.
    pub(crate) deleted_by: Option<String>,
    /// Edits by people that go with its next observation, oldest first.
    pub(crate) edits: Vec<StatusEdit>,
}

/// The last complete sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Swept {
    /// When it began.
    pub(crate) at: Timestamp,
    /// Over which sites: when others are bound, a new one is due.
    pub(crate) sites: Vec<SiteId>,
    /// Devices that went without a delete record, in it and since: the cap is for both.
    #[serde(default)]
    pub(crate) unexplained: usize,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// `None` = the feed was never read.
    pub(crate) feed: Option<Feed>,
    /// `None` = never, or a new one is due at once.
    pub(crate) swept: Option<Swept>,
    pub(crate) known: BTreeMap<i64, Known>,
    pub(crate) dirty: BTreeMap<i64, Dirty>,
}

impl State {
    pub(crate) fn load(memory: &Memory, instance: &str) -> Self {
        Self {
            feed: memory.get(&format!("{instance}/feed")),
            swept: memory.get(&format!("{instance}/swept")),
            known: table(memory, &format!("{instance}/device/")),
            dirty: table(memory, &format!("{instance}/dirty/")),
        }
    }

    /// What makes `before` into this.
    pub(crate) fn changes_since(&self, before: &Self, instance: &str) -> MemoryChanges {
        let mut changes = MemoryChanges::default();
        if let Some(feed) = self.feed.as_ref().filter(|f| before.feed.as_ref() != Some(*f)) {
            changes.put(format!("{instance}/feed"), feed);
        }
        match &self.swept {
            Some(swept) if before.swept.as_ref() != Some(swept) => changes.put(format!("{instance}/swept"), swept),
            None if before.swept.is_some() => changes.remove(format!("{instance}/swept")),
            _ => {}
        }
        difference(&mut changes, &format!("{instance}/device/"), &before.known, &self.known);
        difference(&mut changes, &format!("{instance}/dirty/"), &before.dirty, &self.dirty);
        changes
    }
}

fn table<T: DeserializeOwned>(memory: &Memory, prefix: &str) -> BTreeMap<i64, T> {
    memory.under(prefix).filter_map(|(id, value)| Some((id.parse().ok()?, value))).collect()
}

fn difference<T: PartialEq + Serialize>(changes: &mut MemoryChanges, prefix: &str, before: &BTreeMap<i64, T>, after: &BTreeMap<i64, T>) {
    for (id, value) in after.iter().filter(|(id, value)| before.get(id) != Some(value)) {
        changes.put(format!("{prefix}{id}"), value);
    }
    for id in before.keys().filter(|id| !after.contains_key(id)) {
        changes.remove(format!("{prefix}{id}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_build_remembered_is_read() {
        let known = r#"{"site":"dc1","serial":"A1","site_id":1,"rack":null,"role":2,"device_type":3,"tenant":null}"#;
        assert_eq!(serde_json::from_str::<Known>(known).unwrap().inventory, None);
        assert_eq!(serde_json::from_str::<Swept>(r#"{"at":7,"sites":["dc1"]}"#).unwrap().unexplained, 0);
    }
}
