//! The fold. No validation, no panic, no I/O: what was decided is so.

use super::claims;
use super::state::{Acknowledged, Attention, Condition, Device, Hold, Operation, Task, TaskState, WaitState};
use fleet_schemas::{
    Annotation, ConditionChanged, DeviceEvent, InventoryChanged, OperationStarted, Phase, PhaseChanged, SchedulerChanged, SiteId, Source,
    SourceSeq, TaskDone, TaskKind, TaskPlanned, Timestamp, WaitKind,
};

/// Marks that are remembered: enough to know an old drain of ours for what it is.
const MARKS: usize = 16;

/// Folds an event in.
pub fn evolve(device: &mut Device, event: &DeviceEvent, at: Timestamp) {
    match event {
        DeviceEvent::InventoryChanged(e) => inventory_changed(device, e),
        DeviceEvent::DeviceMoved(e) => {
            device.profile_site.get_or_insert_with(|| e.from.clone());
            device.site = Some(e.to.clone());
        }
        DeviceEvent::PhaseChanged(e) => phase_changed(device, e, at),
        DeviceEvent::DrainRedirected(e) => {
            device.then = Some(e.then);
            device.cause = e.cause.clone().or(device.cause.take());
            device.drain_proven = false;
        }
        DeviceEvent::DrainProven(_) => {
            device.drain_proven = true;
            device.waits.remove(&(WaitKind::Drain, String::new()));
        }
        DeviceEvent::DrainUnproven(_) => device.drain_proven = false,
        DeviceEvent::StageSkipped(e) => {
            device.untested.insert(e.stage);
        }
        DeviceEvent::ConditionChanged(e) => condition_changed(device, e),
        DeviceEvent::SchedulerChanged(e) => scheduler_changed(device, e),
        DeviceEvent::HoldPlaced(e) => {
            let hold = Hold { by: e.by.clone(), reason: e.reason.clone(), since: at, expires_at: e.expires_at };
            device.holds.insert(e.name.clone(), hold);
            device.waits.remove(&(WaitKind::HoldExpiry, e.name.clone()));
        }
        DeviceEvent::HoldLifted(e) => hold_lifted(device, &e.name),
        DeviceEvent::OperationStarted(e) => device.operation = Some(operation(e, at)),
        DeviceEvent::OperationEnded(_) => {
            device.operation = None;
            device.waits.remove(&(WaitKind::Schedulable, String::new()));
        }
        DeviceEvent::TaskPlanned(e) => task_planned(device, e, at),
        DeviceEvent::TaskDone(e) => task_done(device, e),
        DeviceEvent::TaskWithdrawn(e) => {
            device.tasks.remove(&e.task);
        }
        DeviceEvent::AttentionRaised(e) => {
            let since = device.attention.get(&e.name).map_or(at, |a| a.since);
            device
                .attention
                .insert(e.name.clone(), Attention { why: e.why.clone(), ways_out: e.ways_out.clone(), since, acknowledged: None });
        }
        DeviceEvent::AttentionCleared(e) => {
            device.attention.remove(&e.name);
        }
        DeviceEvent::AttentionAcknowledged(e) => {
            if let Some(item) = device.attention.get_mut(&e.name) {
                item.acknowledged = Some(Acknowledged { by: e.by.clone(), reason: e.reason.clone(), at });
            }
        }
        DeviceEvent::WaitArmed(e) => {
            let wait = WaitState { since: e.since, due: e.due, judge_at: e.judge_at, unobservable: None };
            device.waits.insert((e.wait, e.name.clone()), wait);
        }
        DeviceEvent::DeadlineUnobservable(e) => {
            if let Some(wait) = device.waits.get_mut(&(e.wait, String::new())) {
                wait.unobservable = Some(e.source);
            }
        }
        DeviceEvent::DriftAccepted(e) => device.accepted_status = Some(e.status.clone()),
        DeviceEvent::ClaimsChanged(e) => claims::changed(device, e),
        DeviceEvent::GrantChanged(e) => claims::granted(device, e),
        DeviceEvent::AnnotationsChanged(e) => annotated(device, &e.annotations),
        DeviceEvent::EditJudged(e) => {
            device.judged_edit = device.judged_edit.max(e.change_id);
            device.accepted_status = None;
        }
    }
}

fn annotated(device: &mut Device, annotations: &[Annotation]) {
    for a in annotations {
        match &a.value {
            Some(value) => _ = device.annotations.insert(a.key.clone(), value.clone()),
            None => _ = device.annotations.remove(&a.key),
        }
    }
}

fn inventory_changed(device: &mut Device, e: &InventoryChanged) {
    let site = e.inventory.site.clone();
    device.site.get_or_insert_with(|| site.clone());
    device.inventory = Some(e.inventory.clone());
    seen(device, Source::Netbox, &site, &e.source_seq);
}

fn scheduler_changed(device: &mut Device, e: &SchedulerChanged) {
    device.scheduler = e.section.clone();
    if let Some(site) = device.site.clone() {
        seen(device, Source::Slurm, &site, &e.source_seq);
    }
}

/// The hold of a move keeps the old site's profile in force; lifted, the new site's applies.
fn hold_lifted(device: &mut Device, name: &str) {
    device.holds.remove(name);
    device.waits.remove(&(WaitKind::HoldExpiry, name.to_owned()));
    if name == "moved" {
        device.profile_site = None;
    }
}

fn operation(e: &OperationStarted, at: Timestamp) -> Operation {
    let (verb, by, reason) = (e.verb.clone(), e.by.clone(), e.reason.clone());
    Operation { id: e.operation, verb, by, reason, since: at, deadline: e.deadline }
}

/// A drain that was seen done stays known, so that its loss is noticed.
fn task_done(device: &mut Device, e: &TaskDone) {
    if let Some(task) = device.tasks.get_mut(&e.task) {
        task.state = TaskState::Done;
    }
    device.tasks.retain(|id, task| *id != e.task || task.kind == TaskKind::SlurmDrain);
}

fn phase_changed(device: &mut Device, e: &PhaseChanged, at: Timestamp) {
    if e.to == Phase::Maintenance {
        device.came_from = match e.from {
            Some(Phase::Draining) => Some(Phase::InService),
            from => from,
        };
    } else if e.to != Phase::Draining {
        device.came_from = None;
    }
    (device.phase, device.phase_since) = (Some(e.to), at);
    (device.stage, device.cause, device.then, device.until) = (e.stage, e.cause.clone(), e.then, e.until);
    device.drain_proven = false;
    // A device that is taken over as it runs was provisioned by somebody.
    device.provisioned |=
        e.edge == "1b" || matches!(e.to, Phase::Provisioned | Phase::Validating | Phase::BurningIn | Phase::Ready | Phase::InService);
    if e.to == Phase::Validating {
        device.untested.clear();
    }
    for kind in [WaitKind::Drain, WaitKind::Schedulable, WaitKind::MaintenanceEnd] {
        device.waits.remove(&(kind, String::new()));
    }
}

fn condition_changed(device: &mut Device, e: &ConditionChanged) {
    let condition = Condition {
        r#type: e.report.r#type.clone(),
        subject: e.report.subject.clone(),
        status: e.report.status,
        reason: e.report.reason.clone(),
        message: e.report.message.clone(),
        severity: e.severity,
        effects: e.effects.clone(),
        source: e.source.clone(),
        site: e.site.clone(),
        observed_at: e.observed_at,
        last_transition_at: e.last_transition_at,
        confirmed_live: e.confirmed_live,
    };
    device.conditions.set(condition);
    if let (Ok(source), Some(seq)) = (e.source.parse(), &e.source_seq) {
        seen(device, source, &e.site, seq);
    }
}

fn task_planned(device: &mut Device, e: &TaskPlanned, at: Timestamp) {
    let (kind, target, mark, why) = (e.kind, e.target.clone(), e.mark.clone(), e.why.clone());
    device.tasks.retain(|_, task| task.kind != kind);
    device.tasks.insert(e.task, Task { kind, target, mark, why, since: at, state: TaskState::Open });
    if kind == TaskKind::SlurmDrain {
        device.marks.push(e.task);
        let surplus = device.marks.len().saturating_sub(MARKS);
        device.marks.drain(..surplus);
    }
}

fn seen(device: &mut Device, source: Source, site: &SiteId, seq: &SourceSeq) {
    let highest = device.seqs.entry((source, site.clone())).or_insert_with(|| seq.clone());
    if *highest < *seq {
        *highest = seq.clone();
    }
}
