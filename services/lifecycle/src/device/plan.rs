//! From the whole state: what should follow by itself and has not yet. A crash, a lost wake-up or a repeat changes only when.

use super::{claims, drain::Drain, netbox, state::Device, state::TaskState, step::Step, verbs};
use crate::{Context, edges, guards};
use fleet_schemas::{
    DeviceEvent, DrainProven, DrainUnproven, OperationState, Phase, RoleProfile, Scheduler, Stage, StageSkipped, Status, TaskDone, TaskId,
    TaskKind, TaskPlanned, TaskWithdrawn, Then, WaitArmed, WaitKind,
};

/// Plans; idempotent: planning again after its events are folded in gives nothing.
pub fn plan(device: &Device, ctx: &Context<'_>) -> Vec<DeviceEvent> {
    let mut step = Step::new(device, ctx);
    if let Ok(profile) = guards::profile(device, ctx.reference).cloned() {
        discover(&mut step);
        reopen_drain(&mut step);
        finish_drain(&mut step);
        pass_suites(&mut step, &profile);
        finish_activation(&mut step);
        drain_task(&mut step, &profile);
        undrain_task(&mut step, &profile);
        unreserve_task(&mut step);
    }
    derived(&mut step);
    claims::plan(&mut step);
    rearm(&mut step);
    attention(&mut step);
    step.into_events()
}

/// Edge 1.
fn discover(step: &mut Step<'_>) {
    if step.device.phase.is_none() && step.device.inventory.is_some() {
        step.go(Phase::Discovered, "1", vec![], |_| {});
    }
}

/// A proven drain whose node SLURM shows in use, or open to new work, waits for its proof anew.
fn reopen_drain(step: &mut Step<'_>) {
    if step.device.drain_proven && step.device.believed("SlurmDrained", step.ctx.reference) == Status::False {
        step.emit(DrainUnproven { seen: step.device.scheduler_words() });
        step.arm(WaitKind::Drain, "", verbs::SEVEN_DAYS);
    }
}

/// Edge 11: the workload proofs hold.
fn finish_drain(step: &mut Step<'_>) {
    if step.device.phase != Some(Phase::Draining) || step.device.drain_proven {
        return;
    }
    let Some(edge) = edges::observed("11") else { return };
    let Ok(seen) = guards::all(edge, &step.device, None, None, step.ctx) else { return };
    let (then, cause) = (step.device.then.unwrap_or(Then::Stay), step.device.cause.clone());
    let stage = step.device.stage.unwrap_or(Stage::Fault);
    step.emit(DrainProven { guards: seen.clone() });
    match then {
        Then::Stay => {}
        Then::Quarantine => step.go(Phase::Quarantined, edge.number, seen, |e| (e.stage, e.cause) = (Some(stage), cause)),
        Then::Maintenance => verbs::enter_maintenance(step, edge.number, seen, step.device.until),
        // Refused when asked for; nothing leads here before they are built.
        Then::Reprovision | Then::Release => return,
    }
    step.end_operation(OperationState::Succeeded, "no work runs");
}

/// Edge 7 where the profile asks for no suite: passed through, and shown as untested.
fn pass_suites(step: &mut Step<'_>, profile: &RoleProfile) {
    if step.device.phase != Some(Phase::Validating) {
        return;
    }
    let Some(edge) = edges::observed("7") else { return };
    let Ok(seen) = guards::all(edge, &step.device, None, None, step.ctx) else { return };
    for (stage, suite) in [(Stage::Validate, &profile.validation), (Stage::BurnIn, &profile.burn_in)] {
        if suite.is_none() {
            step.emit(StageSkipped { stage, reason: "the role profile names no suite".into() });
        }
    }
    step.go(Phase::Ready, edge.number, seen, |_| {});
}

/// Edge 9's end: SLURM would start a job.
fn finish_activation(step: &mut Step<'_>) {
    let activating = step.device.operation.as_ref().is_some_and(|o| matches!(o.verb.as_str(), "activate" | "resume"));
    let schedulable = step.device.believed("SlurmSchedulable", step.ctx.reference) == Status::True;
    let no_scheduler = guards::profile(&step.device, step.ctx.reference).is_ok_and(|p| p.scheduler == Scheduler::None);
    if activating && step.device.phase == Some(Phase::InService) && (schedulable || no_scheduler) {
        step.end_operation(
            OperationState::Succeeded,
            if schedulable { "SLURM would start a fitting job" } else { "no scheduler to wait for" },
        );
    }
}

/// Phases in which a SLURM node must be kept from new work.
fn isolated(phase: Option<Phase>) -> bool {
    matches!(phase, Some(Phase::Draining | Phase::Quarantined | Phase::Maintenance))
}

/// The drain is asked for where it is wanted and nobody's stands; lost ones are asked for again.
fn drain_task(step: &mut Step<'_>, profile: &RoleProfile) {
    let task = step.device.tasks.iter().find(|(_, t)| t.kind == TaskKind::SlurmDrain).map(|(id, t)| (*id, t.clone()));
    let drain = step.device.drain();
    if let (Some((id, task)), Drain::Own(own)) = (&task, &drain)
        && task.state == TaskState::Open
        && id == own
    {
        step.emit(TaskDone { task: *id, seen: step.device.scheduler_words() });
        return;
    }
    let member = step.device.believed("SlurmMember", step.ctx.reference) == Status::True;
    let wanted = profile.scheduler == Scheduler::Slurm && isolated(step.device.phase) && member;
    match (&task, &drain) {
        (Some((id, _)), _) if step.device.phase == Some(Phase::InService) => {
            step.emit(TaskWithdrawn { task: *id, why: "the device is back in service".into() });
        }
        (Some((_, task)), Drain::None) if wanted && task.state == TaskState::Done => ask_drain(step),
        (None, Drain::None) if wanted => ask_drain(step),
        _ => {}
    }
}

fn ask_drain(step: &mut Step<'_>) {
    let Some(target) = step.device.inventory.as_ref().and_then(|i| i.slurm_node.clone()) else { return };
    let why = match &step.device.operation {
        Some(operation) if !operation.reason.is_empty() => operation.reason.clone(),
        _ => step.device.cause.clone().or_else(|| step.device.phase.map(|p| p.to_string())).unwrap_or_default(),
    };
    let task = TaskId::of(step.ctx.decision, 0);
    let mark = format!("fleet:{task} {}", shell_safe(&why));
    step.emit(TaskPlanned { task, kind: TaskKind::SlurmDrain, target, mark, why });
}

/// People type the mark into a shell, and SLURM keeps one line.
fn shell_safe(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || matches!(c, '"' | '\'' | '`' | '$' | '\\' | '!') { ' ' } else { c }).take(80).collect()
}

/// Our own drain is lifted once the device is back in service.
fn undrain_task(step: &mut Step<'_>, profile: &RoleProfile) {
    let open = step.device.tasks.iter().find(|(_, t)| t.kind == TaskKind::SlurmUndrain).map(|(id, _)| *id);
    let wanted = profile.scheduler == Scheduler::Slurm && step.device.phase == Some(Phase::InService);
    match (open, step.device.drain()) {
        (None, Drain::Own(own)) if wanted => {
            let Some(target) = step.device.inventory.as_ref().and_then(|i| i.slurm_node.clone()) else { return };
            let (task, mark) = (TaskId::of(step.ctx.decision, 1), format!("fleet:{own}"));
            step.emit(TaskPlanned { task, kind: TaskKind::SlurmUndrain, target, mark, why: "the device is in service".into() });
        }
        (Some(task), Drain::None) => step.emit(TaskDone { task, seen: step.device.scheduler_words() }),
        (Some(task), _) if !wanted => step.emit(TaskWithdrawn { task, why: "the device left service".into() }),
        _ => {}
    }
}

/// Our own reservation is lifted once the device is in service.
fn unreserve_task(step: &mut Step<'_>) {
    let open = step.device.tasks.iter().find(|(_, t)| t.kind == TaskKind::SlurmUnreserve).map(|(id, _)| *id);
    let own = step.device.scheduler.as_ref().and_then(|s| s.reservation.clone()).filter(|r| *r == format!("fleet-{}", step.device.id));
    let wanted = step.device.phase == Some(Phase::InService);
    match (open, own) {
        (None, Some(mark)) if wanted => {
            let Some(target) = step.device.inventory.as_ref().and_then(|i| i.slurm_node.clone()) else { return };
            let task = TaskId::of(step.ctx.decision, 2);
            step.emit(TaskPlanned { task, kind: TaskKind::SlurmUnreserve, target, mark, why: "the device is in service".into() });
        }
        (Some(task), None) => step.emit(TaskDone { task, seen: step.device.scheduler_words() }),
        (Some(task), Some(_)) if !wanted => step.emit(TaskWithdrawn { task, why: "the device left service".into() }),
        _ => {}
    }
}

/// Conditions that mirror the device's own state.
fn derived(step: &mut Step<'_>) {
    let hold = step.device.holds.get("moved").map(|h| h.reason.clone());
    step.derive("Moved", hold.is_some(), if hold.is_some() { "NotAccepted" } else { "Accepted" }, hold.unwrap_or_default());
    let working = step.device.phase == Some(Phase::Maintenance);
    step.derive("MaintenanceInProgress", working, if working { "Maintenance" } else { "Ended" }, String::new());
    let drifts = step.device.condition("NetboxLifecycleDrift").is_some_and(|c| c.status == Status::True);
    if drifts && !netbox::drifts_still(&step.device) {
        step.derive("NetboxLifecycleDrift", false, "Agrees", "NetBox and the lifecycle agree".into());
    }
}

/// A wait that could not be judged is judged two intervals after its source is fresh again.
fn rearm(step: &mut Step<'_>) {
    let Some(site) = step.device.site.clone() else { return };
    let waiting: Vec<_> = step.device.waits.iter().filter_map(|(key, w)| w.unobservable.map(|s| (key.clone(), s))).collect();
    for ((wait, name), source) in waiting {
        if let Some(state) = step.ctx.reference.source(&site, source).filter(|s| s.fresh) {
            let due = step.ctx.now.max(state.changed_at).plus(2 * state.interval());
            step.emit(WaitArmed { wait, name, since: state.changed_at, due, judge_at: due });
        }
    }
}

/// An item goes with what it asks a person to do.
fn attention(step: &mut Step<'_>) {
    let draining = step.device.phase == Some(Phase::Draining) && !step.device.drain_proven;
    let unobservable = |kind: WaitKind| step.device.waits.iter().any(|((k, _), w)| *k == kind && w.unobservable.is_some());
    let stands = |name: &str| match (name, name.strip_prefix("unobservable-").map(str::parse)) {
        ("drain", _) => draining,
        ("maintenance", _) => step.device.phase == Some(Phase::Maintenance),
        (_, Some(Ok(kind))) => unobservable(kind),
        _ => true,
    };
    let over: Vec<_> = step.device.attention.keys().filter(|name| !stands(name)).cloned().collect();
    over.iter().for_each(|name| step.clear(name));
}
