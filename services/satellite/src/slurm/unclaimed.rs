//! Nodes of SLURM that no device claims. Pure: the list, the links and what is remembered in; what to say and to remember out.

use super::answer::Entry;
use super::translate::is_node_name;
use crate::DeviceList;
use fleet_schemas::UnclaimedSeen;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that are told of at most; those known already come first, then by name.
const MOST: usize = 500;
/// Characters of a name, and of what is said of a node.
const LONGEST: usize = 200;

/// What is remembered of an unclaimed node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noted {
    /// Whether the hub was told of it. It is from the second look on: the first may have been given a list older than a link.
    said: bool,
}

/// What one look says of unclaimed nodes.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Unclaimed {
    /// By NodeName. One that was told of and is claimed now, or gone, is said to be so once.
    pub(super) seen: Vec<(String, UnclaimedSeen)>,
    /// What to remember of each; `None` = forget it.
    pub(super) remembered: BTreeMap<String, Option<Noted>>,
}

/// Judges one list.
pub(super) fn judge(entries: &BTreeMap<String, Entry>, devices: &DeviceList, old: &BTreeMap<String, Noted>) -> Unclaimed {
    let claimed: BTreeSet<&str> = devices.devices.iter().filter_map(|d| d.slurm_node.as_deref()).collect();
    let good = |name: &&String| is_node_name(name) && name.len() <= LONGEST && !claimed.contains(name.as_str());
    let (known, new): (Vec<&String>, Vec<&String>) = entries.keys().filter(good).partition(|name| old.contains_key(*name));
    let open: BTreeSet<&String> = known.into_iter().chain(new).take(MOST).collect();
    let mut out = Unclaimed::default();
    for name in &open {
        let said = match old.get(*name) {
            None => false,
            Some(_) => {
                out.seen.push(((*name).clone(), UnclaimedSeen { present: true, detail: detail(&entries[*name]) }));
                true
            }
        };
        let now = Noted { said };
        if old.get(*name) != Some(&now) {
            out.remembered.insert((*name).clone(), Some(now));
        }
    }
    for (name, noted) in old.iter().filter(|(name, _)| !open.contains(name)) {
        if noted.said {
            out.seen.push((name.clone(), UnclaimedSeen { present: false, detail: String::new() }));
        }
        out.remembered.insert(name.clone(), None);
    }
    out
}

/// What tells people which machine it is, and stays the same from look to look: no state, no reason.
fn detail(entry: &Entry) -> String {
    let Ok(node) = entry else { return "its entry cannot be read".into() };
    let partitions = node.partitions.iter().cloned().collect::<Vec<_>>().join(", ");
    let gres = node.gres.as_ref().map_or_else(String::new, |g| format!(", {g}"));
    format!("{} CPUs{gres}, partitions {partitions}", node.cpus).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListedDevice;
    use fleet_schemas::DeviceId;

    fn list(names: &[&str]) -> BTreeMap<String, Entry> {
        names.iter().map(|n| ((*n).to_owned(), Err("unread".into()))).collect()
    }

    fn linked(names: &[&str]) -> DeviceList {
        let device = |(i, name): (usize, &&str)| ListedDevice {
            id: DeviceId::from_netbox("t", i as i64),
            name: (*name).into(),
            slurm_node: Some((*name).into()),
        };
        DeviceList { devices: names.iter().enumerate().map(device).collect() }
    }

    fn look(names: &[&str], links: &[&str], memory: &mut BTreeMap<String, Noted>) -> Vec<(String, bool)> {
        let came = judge(&list(names), &linked(links), memory);
        for (name, new) in came.remembered {
            match new {
                Some(new) => _ = memory.insert(name, new),
                None => _ = memory.remove(&name),
            }
        }
        came.seen.into_iter().map(|(name, seen)| (name, seen.present)).collect()
    }

    #[test]
    fn told_from_the_second_look_on_and_closed_once() {
        let mut memory = BTreeMap::new();
        assert_eq!(look(&["a", "b"], &["a"], &mut memory), []);
        for _ in 0..2 {
            assert_eq!(look(&["a", "b"], &["a"], &mut memory), [("b".into(), true)]);
        }
        assert_eq!(look(&["a", "b"], &["a", "b"], &mut memory), [("b".into(), false)]);
        assert_eq!(look(&["a", "b"], &["a", "b"], &mut memory), []);
        assert_eq!(look(&["a", "b", "c"], &["a", "b"], &mut memory), []);
        assert_eq!(look(&["a", "b"], &["a", "b"], &mut memory), [], "one that went before it was told of is never told of");
        assert!(memory.is_empty());
    }

    #[test]
    fn at_most_so_many_and_those_told_of_stay() {
        let many: Vec<String> = (0..MOST + 50).map(|i| format!("m{i:04}")).collect();
        let names: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut memory = BTreeMap::new();
        look(&names[50..], &[], &mut memory);
        assert_eq!(memory.len(), MOST);
        let told = look(&names, &[], &mut memory);
        assert_eq!((told.len(), told[0].0.as_str()), (MOST, "m0050"), "earlier names do not push out those that are known");
        let told = look(&names, &["m0050"], &mut memory);
        assert_eq!((told.len(), memory.len()), (MOST, MOST), "one is closed, and another takes its place: {told:?}");
    }
}
