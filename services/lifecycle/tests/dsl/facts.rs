//! What agents see, in the words of the systems they look at. A look at NetBox begins with the record as it stands; a look at SLURM
//! yields the conditions that the SLURM agent would report.

use super::run::Run;
use super::world::{INSTANCE, NETBOX_ID, at};
use fleet_lifecycle::Sighting;
use fleet_schemas::{
    ConditionReport, ConditionsSeen, Fact, Inventory, LookFailed, LookFault, Micros, NetboxDeviceGone, NetboxDeviceSeen, SchedulerSection,
    SchedulerSeen, SiteId, SlurmNodeSeen, Source, SourceSeq, Status, StatusEdit, SweepCompleted, TaskKind, Timestamp, UnclaimedSeen,
};

type Facts = Box<dyn FnOnce(&Run) -> Fact>;

/// A look under way.
pub struct Look {
    facts: Facts,
    source: Source,
    site: Option<SiteId>,
    seq: Option<SourceSeq>,
    age: Micros,
}

impl Look {
    fn new(source: Source, facts: impl FnOnce(&Run) -> Fact + 'static) -> Self {
        Self { facts: Box::new(facts), source, site: None, seq: None, age: 0 }
    }

    fn map(self, change: impl FnOnce(&mut Fact, &Run) + 'static) -> Self {
        let facts = self.facts;
        let facts = Box::new(move |run: &Run| {
            let mut fact = facts(run);
            change(&mut fact, run);
            fact
        });
        Self { facts, ..self }
    }

    /// By the agent of another site.
    pub fn by(self, site: &str) -> Self {
        Self { site: Some(at(site)), ..self }
    }
    /// At this place in the source's order.
    pub fn seq(self, epoch: u64, counter: u64) -> Self {
        Self { seq: Some(SourceSeq { epoch, counter }), ..self }
    }
    /// The agent had the answer so long before it sent it.
    pub fn observed(self, before: Micros) -> Self {
        Self { age: before, ..self }
    }

    /// Half of a look at SLURM, as it comes over the wire: section `scheduler` alone.
    pub fn section_alone(self) -> Self {
        self.map(|fact, _| match fact.clone() {
            Fact::SlurmNodeSeen(SlurmNodeSeen { slurm_node, section, .. }) => *fact = SchedulerSeen { slurm_node, section }.into(),
            other => panic!("{other:?} has no section"),
        })
    }
    /// The other half: the conditions.
    pub fn conditions_alone(self) -> Self {
        self.map(|fact, _| match fact.clone() {
            Fact::SlurmNodeSeen(SlurmNodeSeen { conditions, .. }) => *fact = ConditionsSeen { conditions }.into(),
            other => panic!("{other:?} has no conditions"),
        })
    }
    /// From a writer that keeps no order.
    pub fn by_arrival(self) -> Self {
        self.seq(0, 0)
    }

    pub fn sighting(self, run: &mut Run) -> Sighting {
        let fact = (self.facts)(run);
        let here = || match (&fact, &run.stream) {
            (Fact::NetboxDeviceSeen(seen), _) => seen.inventory.site.clone(),
            (_, fleet_schemas::StreamId::Site(id)) => id.clone(),
            _ => run.entity.device().and_then(|d| d.site.clone()).unwrap_or_else(|| at("lhr1")),
        };
        let site = self.site.unwrap_or_else(here);
        let seq = self.seq.unwrap_or_else(|| run.next_seq(self.source, &site));
        let native_id = match &fact {
            Fact::SlurmNodeSeen(seen) => seen.slurm_node.clone(),
            Fact::SchedulerSeen(seen) => seen.slurm_node.clone(),
            Fact::ConditionsSeen(_) => String::new(),
            Fact::UnclaimedSeen(_) => "gpu09".into(),
            _ => NETBOX_ID.to_string(),
        };
        let observed_at = run.now.plus(-self.age);
        Sighting { fact, site, source: self.source, native_id, seq, observed_at, sent_at: run.now }
    }

    fn record(self, change: impl FnOnce(&mut NetboxDeviceSeen) + 'static) -> Self {
        self.map(|fact, _| match fact {
            Fact::NetboxDeviceSeen(seen) => change(seen),
            other => panic!("{other:?} is no look at NetBox"),
        })
    }
    /// Anything else of the record.
    pub fn with(self, change: impl FnOnce(&mut Inventory) + 'static) -> Self {
        self.record(|seen| change(&mut seen.inventory))
    }
    pub fn status(self, status: &'static str) -> Self {
        self.with(move |i| i.status = status.into())
    }
    pub fn fleet_phase(self, phase: &'static str) -> Self {
        self.with(move |i| i.fleet_phase = Some(phase.into()).filter(|p: &String| !p.is_empty()))
    }
    pub fn role(self, role: &'static str) -> Self {
        self.with(move |i| i.role = role.into())
    }
    pub fn site(self, site: &'static str) -> Self {
        self.with(move |i| i.site = at(site))
    }
    pub fn node(self, node: &'static str) -> Self {
        self.map(move |fact, _| match fact {
            Fact::NetboxDeviceSeen(seen) => seen.inventory.slurm_node = Some(node.into()),
            Fact::SlurmNodeSeen(seen) => {
                seen.slurm_node = node.into();
                seen.section.iter_mut().for_each(|s| s.slurm_node = node.into());
            }
            other => panic!("{other:?} names no node"),
        })
    }
    /// A person's edit of `status` or `fleet_phase`, which the record then shows.
    pub fn edit(self, change_id: i64, field: &'static str, before: &'static str, after: &'static str) -> Self {
        self.record(move |seen| {
            let (before, at) = (before.into(), Timestamp(change_id));
            seen.edits.push(StatusEdit {
                change_id,
                request_id: format!("r{change_id}"),
                user: "carol".into(),
                field: field.into(),
                before,
                after: after.into(),
                at,
            });
            match field {
                "status" => seen.inventory.status = after.into(),
                _ => seen.inventory.fleet_phase = Some(after.to_owned()).filter(|p| !p.is_empty()),
            }
        })
    }
    /// Says this, too (in place of what it says of that type).
    pub fn says(self, report: ConditionReport) -> Self {
        self.map(|fact, _| {
            let conditions = match fact {
                Fact::NetboxDeviceSeen(seen) => &mut seen.conditions,
                Fact::SlurmNodeSeen(seen) => &mut seen.conditions,
                other => panic!("{other:?} says no conditions"),
            };
            conditions.retain(|c| (&c.r#type, &c.subject) != (&report.r#type, &report.subject));
            conditions.push(report);
        })
    }

    /// SLURM's reason. `<task>` stands for the drain that is planned, or was last.
    pub fn reason(self, reason: &'static str) -> Self {
        self.map(move |fact, run| {
            let Fact::SlurmNodeSeen(SlurmNodeSeen { section: Some(section), .. }) = fact else { panic!("{fact:?} has no reason") };
            section.reason = Some(reason.replace("<task>", &last_drain(run)));
            (section.reason_user, section.reason_since) = (Some("root".into()), Some(run.now));
        })
        .judged()
    }
    /// Under our own mark.
    pub fn own(self) -> Self {
        self.reason("fleet:<task> on purpose")
    }
    pub fn alloc(self, cpus: i64) -> Self {
        self.map(move |fact, _| {
            let Fact::SlurmNodeSeen(SlurmNodeSeen { section: Some(section), .. }) = fact else { panic!("{fact:?} has no CPUs") };
            section.alloc_cpus = cpus;
        })
        .judged()
    }
    pub fn reservation(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.map(|fact, _| {
            let Fact::SlurmNodeSeen(SlurmNodeSeen { section: Some(section), .. }) = fact else { panic!("{fact:?} has no reservation") };
            section.reservation = Some(name);
        })
    }
    /// The four conditions again, from the section as it now stands.
    fn judged(self) -> Self {
        self.map(|fact, _| {
            let Fact::SlurmNodeSeen(seen) = fact else { return };
            if let Some(section) = &seen.section {
                seen.conditions = slurm_conditions(section);
            }
        })
    }
}

fn last_drain(run: &Run) -> String {
    let Some(device) = run.entity.device() else { return String::new() };
    let planned = device.tasks.iter().find(|(_, t)| t.kind == TaskKind::SlurmDrain).map(|(id, _)| *id);
    planned.or(device.marks.last().copied()).map(|id| id.to_string()).unwrap_or_default()
}

pub fn inventory() -> Inventory {
    Inventory {
        instance: INSTANCE.into(),
        netbox_id: NETBOX_ID,
        name: Some("gpu01".into()),
        display: "gpu01".into(),
        site: at("lhr1"),
        role: "gpu".into(),
        device_type: "xe9680".into(),
        serial: Some("SN0000007".into()),
        asset_tag: None,
        rack: Some("R1".into()),
        position_tenths: Some(100),
        face: Some("front".into()),
        status: "active".into(),
        fleet_phase: None,
        tenant: None,
        tags: vec![],
        slurm_node: Some("gpu01".into()),
        slurm_node_from: Some("custom-field".into()),
    }
}

/// NetBox has the record as it stands.
pub fn netbox() -> Look {
    Look::new(Source::Netbox, |run| {
        let known = run.entity.device().and_then(|d| d.inventory.clone());
        let conditions = vec![says("InventoryMatched", "True", "Complete"), says("IdentityConflict", "False", "SerialUnique")];
        NetboxDeviceSeen { inventory: known.unwrap_or_else(inventory), conditions, edits: vec![] }.into()
    })
}

/// NetBox has the record no more.
pub fn gone() -> Look {
    let gone =
        NetboxDeviceGone { instance: INSTANCE.into(), netbox_id: NETBOX_ID, deleted_by: Some("carol".into()), noticed_by: "sweep".into() };
    Look::new(Source::Netbox, |_| gone.into())
}

/// SLURM shows this state.
pub fn slurm(state: &'static str) -> Look {
    Look::new(Source::Slurm, move |run| {
        let mut tokens: Vec<String> = state.split('+').map(str::to_owned).collect();
        tokens.sort();
        let section = SchedulerSection {
            slurm_node: node(run),
            state: tokens,
            reservation: None,
            slurmd_start_time: None,
            cpus: 64,
            alloc_cpus: if state.contains("ALLOCATED") { 64 } else { 0 },
            partitions: vec!["main".into()],
            features: vec![],
            gres: None,
            reason: None,
            reason_user: None,
            reason_since: None,
            drain_since: None,
        };
        let conditions = slurm_conditions(&section);
        SlurmNodeSeen { slurm_node: section.slurm_node.clone(), conditions, section: Some(section) }.into()
    })
}

fn node(run: &Run) -> String {
    run.entity.device().and_then(|d| d.inventory.as_ref()?.slurm_node.clone()).unwrap_or_else(|| "gpu01".into())
}

fn whole(status: &'static str, reason: &'static str) -> Look {
    Look::new(Source::Slurm, move |run| {
        let types = ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"];
        SlurmNodeSeen { slurm_node: node(run), conditions: types.map(|t| says(t, status, reason)).to_vec(), section: None }.into()
    })
}

/// SLURM was asked for the node and has none.
pub fn not_in_slurm() -> Look {
    whole("False", "NotMember")
}

/// SLURM lists the node, and its entry cannot be read in this look.
pub fn unreadable() -> Look {
    whole("Unknown", "NoData").says(says("SlurmMember", "True", "Listed"))
}

/// A complete look at a source ended.
pub fn sweep(source: Source) -> Look {
    Look::new(source, move |_| SweepCompleted { source, interval_seconds: super::world::INTERVAL, count: 1 }.into())
}

/// A look at a source failed.
pub fn fails(source: Source, fault: LookFault) -> Look {
    Look::new(source, move |_| LookFailed { source, interval_seconds: super::world::INTERVAL, fault, message: format!("{fault:?}") }.into())
}

pub fn says(r#type: &str, status: &str, reason: &str) -> ConditionReport {
    let (status, message) = (status.parse::<Status>().unwrap(), String::new());
    ConditionReport { r#type: r#type.into(), subject: "device".into(), status, reason: reason.into(), message }
}

/// The rows of knowledge/slurm.md, section 8, that the stories meet.
fn slurm_conditions(section: &SchedulerSection) -> Vec<ConditionReport> {
    let has = |token: &str| section.state.iter().any(|t| t == token);
    let busy = has("ALLOCATED") || has("MIXED") || has("COMPLETING") || section.alloc_cpus > 0;
    let schedulable = match () {
        () if has("DOWN") => ("False", "Down"),
        () if has("DRAIN") && busy => ("False", "Draining"),
        () if has("DRAIN") => ("False", "Drained"),
        () if has("RESERVED") => ("False", "Reserved"),
        () if has("COMPLETING") => ("False", "Completing"),
        () if has("ALLOCATED") => ("True", "Allocated"),
        () if has("MIXED") => ("True", "Mixed"),
        () if has("IDLE") => ("True", "Idle"),
        () => ("Unknown", "UnrecognisedState"),
    };
    let drained = has("IDLE") && has("DRAIN") && !busy;
    let foreign = match section.reason.as_deref() {
        _ if !has("DRAIN") => ("False", "NotDraining"),
        Some(reason) if reason.starts_with("fleet:") => ("False", "OwnDrain"),
        Some(_) | None => ("True", "ForeignDrain"),
    };
    vec![
        says("SlurmMember", "True", "Listed"),
        says("SlurmSchedulable", schedulable.0, schedulable.1),
        says("SlurmDrained", if drained { "True" } else { "False" }, if drained { "Drained" } else { "NotDrained" }),
        says("SlurmDrainForeign", foreign.0, foreign.1),
    ]
}

/// SLURM shows node gpu09, which no device claims; or it does not, or no more.
pub fn nobodys(present: bool, detail: &'static str) -> Look {
    Look::new(Source::Slurm, move |_| UnclaimedSeen { present, detail: detail.into() }.into())
}
