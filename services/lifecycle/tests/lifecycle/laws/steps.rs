//! What holds of every step, judged event by event against the state before each.

use crate::dsl::Came;
use fleet_lifecycle::device::{Drain, status_of};
use fleet_lifecycle::edges::{EDGES, Edge, Kind};
use fleet_lifecycle::{Decider, Device, Entity, Fleet, Reference};
use fleet_schemas::{DeviceEvent, Event, Phase, PhaseChanged, Scheduler, Source, Status, TaskKind, WaitKind};

/// Judges a step that led from `before` to `after`.
pub fn judge(before: &Entity, after: &Entity, came: &Came, reference: &Reference) {
    if came.refusal.is_some() || came.note.is_some() {
        assert_eq!(came.all().count(), 0, "refused or set aside, and yet something changed");
    }
    let mut now = before.clone();
    for event in came.all() {
        if let (Event::Device(event), Some(device)) = (event, now.device()) {
            one(device, event, reference);
        }
        Fleet::evolve(&mut now, event, came.at);
    }
    assert_eq!(now, *after, "what was decided is what was folded");
    let (before, after) = (before.device().unwrap(), after.device().unwrap());
    standing(after);
    if before.phase == Some(Phase::Decommissioned) {
        assert_eq!(after.phase, before.phase, "terminal is terminal");
    }
}

fn one(device: &Device, event: &DeviceEvent, reference: &Reference) {
    match event {
        DeviceEvent::PhaseChanged(e) => phase_changed(device, e, reference),
        DeviceEvent::DrainProven(_) => proven(device, reference),
        DeviceEvent::OperationStarted(_) => assert!(device.operation.is_none(), "one operation at a time"),
        DeviceEvent::OperationEnded(e) => assert_eq!(device.operation.as_ref().map(|o| o.id), Some(e.operation), "what ends had begun"),
        DeviceEvent::TaskPlanned(e) => match e.kind {
            TaskKind::SlurmDrain => assert!(!matches!(device.drain(), Drain::Foreign(_)), "nobody else's drain is overwritten"),
            TaskKind::SlurmUndrain => assert!(matches!(device.drain(), Drain::Own(_)), "we undo only what we did"),
            TaskKind::SlurmUnreserve => {
                let reserved = device.scheduler.as_ref().and_then(|s| s.reservation.clone());
                assert_eq!(reserved, Some(format!("fleet-{}", device.id)), "we undo only what we did");
            }
        },
        DeviceEvent::TaskDone(e) => assert!(device.tasks.contains_key(&e.task), "what is done was planned"),
        DeviceEvent::TaskWithdrawn(e) => assert!(device.tasks.contains_key(&e.task), "what is withdrawn was planned"),
        DeviceEvent::HoldLifted(e) => assert!(device.holds.contains_key(&e.name), "what is lifted was placed"),
        DeviceEvent::AttentionCleared(e) => assert!(device.attention.contains_key(&e.name), "what is cleared was raised"),
        _ => {}
    }
}

/// Along an edge of the table, or edge 9's failure, which no edge of its own tells.
fn phase_changed(device: &Device, e: &PhaseChanged, reference: &Reference) {
    assert_eq!(e.from, device.phase, "it leaves where it was");
    if (e.edge.as_str(), e.from, e.to) == ("9", Some(Phase::InService), Phase::Draining) {
        assert!(device.waits.contains_key(&(WaitKind::Schedulable, String::new())) || device.operation.is_none());
        return;
    }
    let leaves = |edge: &Edge| e.from.map_or(edge.from.is_empty(), |p| edge.from.contains(&p));
    let edge = EDGES.iter().find(|edge| edge.number == e.edge && leaves(edge) && edge.to.contains(&e.to));
    let Some(edge) = edge else { panic!("no edge {} leads from {:?} to {}", e.edge, e.from, e.to) };
    assert!(edge.built, "edge {} is not built", e.edge);
    if e.to == Phase::InService {
        assert!(["1b", "9", "10b"].contains(&edge.number), "into service by edge {}", edge.number);
    }
    if edge.kind == Kind::Advance {
        assert_eq!(device.holds.len(), 0, "an advance past a hold");
        assert!(!reference.stale, "an advance by a reference that lags");
        let prevented =
            device.conditions.iter().find(|c| c.status == Status::True && c.effects.contains(&fleet_schemas::Effect::PreventStateChange));
        assert_eq!(prevented, None, "an advance past a condition");
    }
    if matches!(edge.number, "9" | "10b") {
        assert!(!matches!(device.drain(), Drain::Foreign(_)), "into service under a foreign drain");
    }
    if edge.number == "11" || edge.number == "12v" {
        proven(device, reference);
    }
}

/// IDLE+DRAIN under our own mark, nothing allocated, nothing completing; fresh, live, and by the agent of where the device is.
fn proven(device: &Device, reference: &Reference) {
    let site = device.site.as_ref().unwrap();
    let section = device.scheduler.as_ref().unwrap();
    let has = |token: &str| section.state.iter().any(|t| t == token);
    assert!(has("IDLE") && has("DRAIN") && !has("COMPLETING") && section.alloc_cpus == 0, "work may run: {section:?}");
    let Drain::Own(task) = device.drain() else { panic!("not our drain: {section:?}") };
    assert!(section.reason.as_ref().unwrap().starts_with(&format!("fleet:{task}")));
    assert!(reference.fresh(site, Source::Slurm), "proven by a silent source");
    for (r#type, status) in [("SlurmDrained", Status::True), ("SlurmDrainForeign", Status::False)] {
        let condition = device.condition(r#type).unwrap();
        assert_eq!((condition.status, &condition.site), (status, site), "{}", r#type);
    }
    assert!(device.condition("SlurmDrained").unwrap().confirmed_live, "proven by a forwarded look");
}

/// What holds of a device whenever a step has ended.
fn standing(device: &Device) {
    let waits = |kind: WaitKind| device.waits.contains_key(&(kind, String::new()));
    if let Some(operation) = &device.operation {
        let (phase, wait) = match operation.verb.as_str() {
            "activate" | "resume" => (Phase::InService, WaitKind::Schedulable),
            "drain" | "quarantine" | "maintain" => (Phase::Draining, WaitKind::Drain),
            other => panic!("`{other}` is no operation"),
        };
        assert_eq!(device.phase, Some(phase), "`{}` runs", operation.verb);
        assert!(waits(wait), "`{}` runs and waits for nothing", operation.verb);
    }
    assert!(device.phase == Some(Phase::Quarantined) || device.phase == Some(Phase::Draining) || device.stage.is_none());
    assert_eq!(device.then.is_some(), device.phase == Some(Phase::Draining), "a drain leads somewhere, and nothing else does");
    assert!(!device.drain_proven || device.phase == Some(Phase::Draining));
    let says = |r#type: &str| device.condition(r#type).is_some_and(|c| c.status == Status::True);
    assert_eq!(says("Moved"), device.holds.contains_key("moved"), "Moved mirrors the hold");
    assert_eq!(says("MaintenanceInProgress"), device.phase == Some(Phase::Maintenance), "MaintenanceInProgress mirrors the phase");
    if says("NetboxLifecycleDrift") {
        let inventory = device.inventory.as_ref().unwrap();
        let agrees = device.phase.is_some_and(|p| status_of(p).contains(&inventory.status.as_str()));
        let phase = device.phase.map_or("none", Phase::as_str);
        assert!(!agrees || inventory.fleet_phase.as_deref().is_some_and(|p| p != phase), "drift that stands agrees with nothing");
    }
    let expiring = device.waits.keys().filter(|(kind, _)| *kind == WaitKind::HoldExpiry);
    expiring.for_each(|(_, name)| assert!(device.holds.contains_key(name), "the wait of hold `{name}` outlived it"));
}

/// A verb to the safe side is refused for what the table, the profile or the request say, never for what stands in the way.
pub fn safer(verb: &str, came: &Came) {
    let safer = ["drain", "quarantine", "maintain", "end-maintenance", "hold", "unhold"].contains(&verb);
    if let Some(refusal) = came.refusal.as_ref().filter(|_| safer) {
        let may = ["phase-forbids", "not-available", "no-role-profile", "unknown-device", "no-such-hold", "invalid"];
        assert!(may.contains(&refusal.code), "`{verb}` refused: {refusal:?}");
    }
}

/// Only SLURM's devices have plans for SLURM made.
pub fn planned_for(device: &Device, reference: &Reference, came: &Came) {
    let plans = came.planned.iter().any(|e| matches!(e, Event::Device(DeviceEvent::TaskPlanned(p)) if p.kind == TaskKind::SlurmDrain));
    let scheduler = device.profile_key().and_then(|(site, role)| reference.profile(site, role)).map(|p| p.scheduler);
    assert!(!plans || scheduler == Some(Scheduler::Slurm), "a drain for a device without scheduler");
}
