//! From lists to observations. Pure: what was read, the devices and what is remembered in; facts and what to remember out.

use super::answer::{Entry, SlurmNode};
use super::drains::{self, Remembered};
use super::table::{Facts, PartitionsOfNode, judge};
use crate::{DeviceList, ListedDevice, agent::report};
use fleet_schemas::{ConditionReport, SchedulerSection, SlurmNodeSeen, Status, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Looks for which row 13 leaves SlurmSchedulable as it was.
const HELD_FOR: u32 = 2;
/// What GET said of a node that no list has is asked again after so many looks: of an absence, and of a node that is there all the same
/// (22.05 lists no powered-down CLOUD node, but knows it).
const ABSENT_AGAIN: u32 = 15;
const HIDDEN_AGAIN: u32 = 5;

/// What one look read.
pub(crate) struct Listing {
    pub(crate) entries: BTreeMap<String, Entry>,
    pub(crate) partitions: Partitions,
    /// What `GET node/NAME` said of the names that [`to_confirm`] gave.
    pub(crate) confirmed: BTreeMap<String, Confirmed>,
}

/// The partitions, where they were asked for.
pub(crate) enum Partitions {
    /// Nobody asked: each counts as UP.
    AssumedUp,
    /// By name: whether it is UP. Empty = no rights to see them.
    Known(BTreeMap<String, bool>),
}

impl Partitions {
    /// How many are known.
    pub(crate) fn known(&self) -> usize {
        match self {
            Self::AssumedUp => 0,
            Self::Known(list) => list.len(),
        }
    }
}

/// The answer for one name that no list has.
pub(crate) enum Confirmed {
    /// There is no such node.
    Absent,
    /// There is, though the list hides it.
    Present(Box<Entry>),
    /// The answer says neither.
    NotKnown(String),
}

/// What came of it.
pub(crate) struct Translated {
    /// Per device with a link, in the order of the device list, but for hidden nodes that were not asked for: what was said of them stands.
    pub(crate) seen: Vec<(ListedDevice, SlurmNodeSeen)>,
    /// What to remember of each node now; `None` = forget it.
    pub(crate) remembered: BTreeMap<String, Option<Remembered>>,
}

/// A name that may be looked for (section 7).
pub(crate) fn is_node_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// The names whose absence is to be confirmed: not in the list now, nor the last time. Those that wait longest come first, so that a cap
/// starves none.
pub(crate) fn to_confirm(entries: &BTreeMap<String, Entry>, devices: &DeviceList, old: &BTreeMap<String, Remembered>) -> Vec<String> {
    let names = devices.devices.iter().filter_map(|d| d.slurm_node.as_deref()).filter(|n| is_node_name(n) && !entries.contains_key(*n));
    let waits = |name| old.get(name)?.waits().map(|looks| (Reverse(looks), name));
    let due: BTreeSet<(Reverse<u32>, &str)> = names.filter_map(waits).collect();
    due.into_iter().map(|(_, name)| name.to_owned()).collect()
}

impl Remembered {
    /// For how many looks an answer of GET is waited for; `None` = none is due.
    fn waits(&self) -> Option<u32> {
        let looks = self.asked.map_or(u32::MAX, |asked| self.misses.saturating_add(1).saturating_sub(asked));
        let again = if self.gone {
            ABSENT_AGAIN
        } else if self.hidden {
            HIDDEN_AGAIN
        } else {
            1
        };
        (self.misses > 0 && looks >= again).then_some(looks)
    }
}

/// Translates one look.
pub(crate) fn translate(listing: &Listing, devices: &DeviceList, old: &BTreeMap<String, Remembered>, now: Timestamp) -> Translated {
    let linked = || devices.devices.iter().filter_map(|d| Some((d, d.slurm_node.as_deref()?)));
    let claimed: BTreeSet<&str> = linked().map(|(_, name)| name).filter(|n| is_node_name(n)).collect();
    let names: BTreeSet<&str> = listing.entries.keys().map(String::as_str).chain(claimed.iter().copied()).collect();
    let looked: BTreeMap<&str, _> = names.into_iter().map(|n| (n, look_at(n, listing, old.get(n), now))).collect();
    let seen = linked().filter_map(|(device, name)| {
        let bad = || Some(all(name, Status::Unknown, "BadName", "this link is no SLURM NodeName: letters, digits, `.`, `_` and `-`"));
        Some((device.clone(), looked.get(name).map_or_else(bad, |(seen, _)| seen.clone())?))
    });
    let seen = seen.collect();
    let mut remembered: BTreeMap<_, _> = looked.into_iter().map(|(name, (_, new))| (name.to_owned(), Some(new))).collect();
    // Neither listed nor claimed.
    for name in old.keys() {
        remembered.entry(name.clone()).or_insert(None);
    }
    remembered.retain(|name, new| new.as_ref() != old.get(name));
    Translated { seen, remembered }
}

/// `None` in place of a report: there is nothing new to say.
fn look_at(name: &str, listing: &Listing, old: Option<&Remembered>, now: Timestamp) -> (Option<SlurmNodeSeen>, Remembered) {
    let mut new = old.cloned().unwrap_or_default();
    let confirmed = listing.confirmed.get(name);
    let listed = listing.entries.get(name);
    let entry = listed.or(match confirmed {
        Some(Confirmed::Present(entry)) => Some(entry),
        _ => None,
    });
    // A node that only the single GET shows stays a missed one, so that it is asked for again.
    new.misses = if listed.is_some() { 0 } else { new.misses.saturating_add(1) };
    new.gone = entry.is_none() && (new.gone || matches!(confirmed, Some(Confirmed::Absent)));
    // What GET showed stands for a while, not for ever.
    let stands = || new.hidden && confirmed.is_none() && new.asked.is_some_and(|asked| new.misses.saturating_sub(asked) < ABSENT_AGAIN);
    new.hidden = listed.is_none() && (entry.is_some() || stands());
    match confirmed {
        Some(_) => new.asked = Some(new.misses),
        None if listed.is_some() => new.asked = None,
        None => {}
    }
    let seen = match entry {
        Some(Ok(node)) => node_seen(node, &listing.partitions, &mut new, old.is_none(), now),
        Some(Err(why)) => {
            let mut seen = all(name, Status::Unknown, "NoData", &format!("its entry cannot be read: {why}"));
            seen.conditions[0] = report("SlurmMember", Status::True, "Listed", String::new());
            seen
        }
        None if new.hidden => return (None, new),
        None if new.gone => {
            (new.drain_since, new.ours) = (None, false);
            all(name, Status::False, "NotMember", "SLURM knows no such node")
        }
        None => {
            let why = match confirmed {
                Some(Confirmed::NotKnown(why)) => format!("in no list; {why}"),
                _ => "in no list; to be confirmed".into(),
            };
            all(name, Status::Unknown, "NoData", &why)
        }
    };
    (Some(seen), new)
}

/// All four conditions alike, and no section.
pub(crate) fn all(name: &str, status: Status, reason: &str, message: &str) -> SlurmNodeSeen {
    let types = ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"];
    let conditions = types.map(|t| report(t, status, reason, message.to_owned())).to_vec();
    SlurmNodeSeen { slurm_node: name.to_owned(), conditions, section: None }
}

fn node_seen(node: &SlurmNode, partitions: &Partitions, remembered: &mut Remembered, first: bool, now: Timestamp) -> SlurmNodeSeen {
    remembered.see_drain(node, first, now);
    let conditions = vec![
        report("SlurmMember", Status::True, "Listed", String::new()),
        schedulable(node, partitions, remembered),
        drained(node),
        drains::foreign(node, remembered),
    ];
    SlurmNodeSeen { slurm_node: node.name.clone(), conditions, section: Some(section(node, remembered.drain_since)) }
}

fn schedulable(node: &SlurmNode, partitions: &Partitions, remembered: &mut Remembered) -> ConditionReport {
    let partitions = partitions_of(node, partitions);
    let verdict = judge(&Facts { tokens: &node.tokens, cpus: node.cpus, alloc_cpus: node.alloc_cpus, partitions });
    remembered.completing = if verdict.row == 13 { remembered.completing.saturating_add(1) } else { 0 };
    if let Some((status, reason, message)) = &remembered.schedulable
        && (1..=HELD_FOR).contains(&remembered.completing)
    {
        return report("SlurmSchedulable", *status, reason, message.clone());
    }
    let tokens = node.tokens.iter().map(String::as_str).collect::<Vec<_>>().join("+");
    let message = match verdict.row {
        5 | 6 => format!("{tokens}: {}", drains::in_words(node)),
        12 if partitions == PartitionsOfNode::NotKnown => format!("{tokens}: its partitions are not in the list that we may see"),
        12 => format!("{tokens}: partitions {}", node.partitions.iter().cloned().collect::<Vec<_>>().join(", ")),
        14 => format!("{tokens}: not known: {}", verdict.unrecognised.join(", ")),
        _ => tokens,
    };
    if verdict.row != 13 {
        remembered.schedulable = Some((verdict.status, verdict.reason.to_owned(), message.clone()));
    }
    report("SlurmSchedulable", verdict.status, verdict.reason, message)
}

fn partitions_of(node: &SlurmNode, partitions: &Partitions) -> PartitionsOfNode {
    let up = |name: &String| match partitions {
        Partitions::AssumedUp => Some(true),
        Partitions::Known(list) => list.get(name).copied(),
    };
    let states: Vec<Option<bool>> = node.partitions.iter().map(up).collect();
    match partitions {
        Partitions::Known(list) if list.is_empty() => PartitionsOfNode::NotKnown,
        _ if states.is_empty() => PartitionsOfNode::InNone,
        _ if states.contains(&Some(true)) => PartitionsOfNode::SomeUp,
        _ if states.contains(&None) => PartitionsOfNode::NotKnown,
        _ => PartitionsOfNode::NoneUp,
    }
}

/// True only for IDLE+DRAIN without COMPLETING and without work: what destructive work may rest on (rule 11).
fn drained(node: &SlurmNode) -> ConditionReport {
    let has = |token: &str| node.tokens.contains(token);
    let busy = has("COMPLETING") || node.alloc_cpus > 0;
    let (status, reason) = match (has("DRAIN"), has("IDLE"), busy) {
        (true, true, false) => (Status::True, "Drained"),
        (true, _, true) => (Status::False, "Draining"),
        (true, false, false) => (Status::False, "NotIdle"),
        (false, _, _) => (Status::False, "NotDraining"),
    };
    report("SlurmDrained", status, reason, if has("DRAIN") { drains::in_words(node) } else { String::new() })
}

fn section(node: &SlurmNode, drain_since: Option<Timestamp>) -> SchedulerSection {
    let sorted = |set: &BTreeSet<String>| set.iter().cloned().collect();
    SchedulerSection {
        slurm_node: node.name.clone(),
        state: sorted(&node.tokens),
        reservation: node.reservation.clone(),
        slurmd_start_time: node.slurmd_start_time,
        cpus: node.cpus,
        alloc_cpus: node.alloc_cpus,
        partitions: sorted(&node.partitions),
        features: sorted(&node.features),
        gres: node.gres.clone(),
        reason: node.reason.clone(),
        reason_user: node.reason_user.clone(),
        reason_since: node.reason_changed_at,
        drain_since,
    }
}
