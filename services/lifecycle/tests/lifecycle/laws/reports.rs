//! Conditions as a second reader would have them: a plain fold of all reports that count, beside the deciders. (Field report 22.)

use fleet_lifecycle::{Device, Sighting, condition_type};
use fleet_schemas::{ConditionReport, Fact, SchedulerSection, SlurmNodeSeen, Status, Timestamp};
use std::collections::BTreeMap;

/// Status, reason, since when.
type Stands = (Status, String, Timestamp);

/// The reports that counted, folded.
#[derive(Default)]
pub struct Reports(BTreeMap<(String, String), Stands>);

/// Whether a sighting is later than what was recorded of its source.
pub fn is_news(device: &Device, sighting: &Sighting) -> bool {
    device.seqs.get(&(sighting.source, sighting.site.clone())).is_none_or(|highest| *highest < sighting.seq)
}

impl Reports {
    /// The conditions that agents stated of a device so far.
    pub fn of(device: &Device) -> Self {
        let stated = device.conditions.iter().filter(|c| c.source != "hub");
        Self(stated.map(|c| ((c.r#type.clone(), c.subject.clone()), (c.status, c.reason.clone(), c.last_transition_at))).collect())
    }

    /// Takes a sighting in, by the device as it was before.
    pub fn see(&mut self, before: &Device, sighting: &Sighting) {
        if !is_news(before, sighting) {
            return;
        }
        match &sighting.fact {
            Fact::NetboxDeviceSeen(seen) if seen.inventory.netbox_id == crate::dsl::NETBOX_ID => {
                seen.conditions.iter().for_each(|r| self.put(r, sighting));
                let vanished = ("InventoryVanished".to_owned(), "device".to_owned());
                if self.0.get(&vanished).is_some_and(|(status, ..)| *status != Status::False) {
                    self.put(&crate::dsl::says("InventoryVanished", "False", "Present"), sighting);
                }
            }
            Fact::NetboxDeviceGone(_) if before.inventory.is_some() => {
                self.put(&crate::dsl::says("InventoryVanished", "True", "Deleted"), sighting)
            }
            Fact::SlurmNodeSeen(seen) if here(before, sighting, seen) => {
                seen.conditions.iter().for_each(|r| self.put(&known(before, seen, r), sighting))
            }
            _ => {}
        }
    }

    fn put(&mut self, report: &ConditionReport, sighting: &Sighting) {
        if condition_type(&report.r#type).is_none_or(|t| t.source != sighting.source.as_str()) {
            return;
        }
        let key = (report.r#type.clone(), report.subject.clone());
        let since = self.0.get(&key).filter(|(status, ..)| *status == report.status).map_or(sighting.observed_at, |(.., since)| *since);
        self.0.insert(key, (report.status, report.reason.clone(), since));
    }

    /// Holds a device to it.
    pub fn judge(&self, device: &Device) {
        assert_eq!(Self::of(device).0, self.0, "conditions are what all reports that count say");
    }
}

fn here(device: &Device, sighting: &Sighting, seen: &SlurmNodeSeen) -> bool {
    let linked = device.inventory.as_ref().and_then(|i| i.slurm_node.as_ref());
    device.site.as_ref() == Some(&sighting.site) && linked == Some(&seen.slurm_node)
}

/// The agent takes every mark of ours for ours; one that names no task of this device is not.
fn known(device: &Device, seen: &SlurmNodeSeen, report: &ConditionReport) -> ConditionReport {
    let draining = |s: &&SchedulerSection| s.state.iter().any(|t| t == "DRAIN");
    let Some(section) = seen.section.as_ref().filter(draining) else { return report.clone() };
    let reason = section.reason.clone().unwrap_or_default();
    let ours = device.marks.iter().any(|task| reason.starts_with(&format!("fleet:{task}")));
    if report.r#type == "SlurmDrainForeign" && report.status == Status::False && !ours {
        return crate::dsl::says("SlurmDrainForeign", "True", "UnknownMark");
    }
    report.clone()
}
