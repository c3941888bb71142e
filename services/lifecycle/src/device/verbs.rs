//! The verbs, one function each.

use super::{decide::take, step::Step};
use crate::{Refusal, wrong_stream::*};
use fleet_schemas::{
    Annotation, AnnotationsChanged, Ask, AttentionAcknowledged, Baseline, DAY, Drain, DrainRedirected, DriftAccepted, HoldLifted,
    HoldPlaced, MINUTE, Maintain, Micros, OperationState, Phase, PlaceHold, Quarantine, Stage, Status, Then, Timestamp, WaitKind,
};

/// How long a drain may wait before it becomes an attention item.
pub const SEVEN_DAYS: Micros = 7 * DAY;
/// How long an activated device may take until SLURM would start jobs on it.
const ACTIVATION: Micros = 15 * MINUTE;

type Done = Result<(), Refusal>;

pub(super) fn apply(step: &mut Step<'_>, ask: &Ask) -> Done {
    match ask {
        Ask::Baseline(a) => baseline(step, a),
        Ask::Activate(_) => activate(step),
        Ask::Drain(a) => drain(step, a),
        Ask::Resume(_) => resume(step),
        Ask::Quarantine(a) => quarantine(step, a),
        Ask::Validate(_) => validate(step),
        Ask::Maintain(a) => maintain(step, a),
        Ask::EndMaintenance(_) => end_maintenance(step),
        Ask::PlaceHold(a) => hold(step, a),
        Ask::LiftHold(a) => unhold(step, &a.name),
        Ask::Annotate(a) => annotate(step, &a.kind),
        Ask::SetAnnotations(a) => set_annotations(step, &a.annotations),
        Ask::AcknowledgeAttention(a) => acknowledge(step, &a.name),
        Ask::NotBuilt(a) => Err(Refusal::not_available(&format!("`{}`", a.verb))),
        for_site!() | for_config!() | for_name!() => Err(wrong_stream(ask, "a device")),
    }
}

fn baseline(step: &mut Step<'_>, ask: &Baseline) -> Done {
    let (edge, guards) = take(step, "baseline", None, Some(ask.phase))?;
    if !edge.to.contains(&ask.phase) {
        let to: Vec<_> = edge.to.iter().map(|p| p.as_str()).collect();
        return Err(Refusal::new("phase-forbids", "target", to.join(", "), ask.phase.as_str(), "take the phase that the preview shows"));
    }
    let stage = (ask.phase == Phase::Quarantined).then_some(Stage::Fault);
    let cause = stage.map(|_| "Baseline".to_owned());
    step.go(ask.phase, edge.number, guards, |e| (e.stage, e.cause) = (stage, cause));
    Ok(())
}

/// In service from the moment the door is asked to open: jobs may start from then on.
fn activate(step: &mut Step<'_>) -> Done {
    let (edge, guards) = take(step, "activate", None, None)?;
    let deadline = step.ctx.now.plus(ACTIVATION);
    step.start_operation("activate", Some(deadline));
    step.go(Phase::InService, edge.number, guards, |_| {});
    step.arm_at(WaitKind::Schedulable, "", deadline);
    Ok(())
}

fn drain(step: &mut Step<'_>, ask: &Drain) -> Done {
    let (edge, guards) = take(step, "drain", Some(ask.then), None)?;
    if ask.mode != "pending" {
        return Err(Refusal::not_available(&format!("drain mode `{}`; `pending` is there", ask.mode)));
    }
    step.start_operation("drain", None);
    step.start_drain(edge.number, ask.then, guards, |_| {});
    Ok(())
}

fn resume(step: &mut Step<'_>) -> Done {
    let (edge, guards) = take(step, "resume", None, None)?;
    let deadline = step.ctx.now.plus(ACTIVATION);
    step.start_operation("resume", Some(deadline));
    step.go(Phase::InService, edge.number, guards, |_| {});
    step.arm_at(WaitKind::Schedulable, "", deadline);
    Ok(())
}

/// Isolate first, act later: from service it is a drain that leads to Quarantined.
fn quarantine(step: &mut Step<'_>, ask: &Quarantine) -> Done {
    let (edge, guards) = take(step, "quarantine", None, None)?;
    let cause = Some(ask.cause.clone());
    match step.device.phase {
        Some(Phase::Draining) => {
            step.start_operation("quarantine", None);
            step.emit(DrainRedirected { then: Then::Quarantine, cause });
            if !step.device.waits.contains_key(&(WaitKind::Drain, String::new())) {
                step.arm(WaitKind::Drain, "", SEVEN_DAYS);
            }
        }
        Some(Phase::InService) => {
            step.start_operation("quarantine", None);
            step.start_drain(edge.number, Then::Quarantine, guards, |e| e.cause = cause);
        }
        _ => {
            step.end_operation(OperationState::Cancelled, "quarantined");
            step.go(Phase::Quarantined, edge.number, guards, |e| (e.stage, e.cause) = (Some(Stage::Fault), cause));
        }
    }
    Ok(())
}

fn validate(step: &mut Step<'_>) -> Done {
    let (edge, guards) = take(step, "validate", None, None)?;
    step.go(Phase::Validating, edge.number, guards, |_| {});
    Ok(())
}

fn maintain(step: &mut Step<'_>, ask: &Maintain) -> Done {
    let (edge, guards) = take(step, "maintain", Some(Then::Maintenance), None)?;
    if ask.until.is_some_and(|until| until <= step.ctx.now) {
        return Err(Refusal::new(
            "invalid",
            "until",
            "a time to come",
            ask.until.map_or_else(String::new, |t| t.to_string()),
            "give a later time",
        ));
    }
    if step.device.phase == Some(Phase::InService) {
        step.start_operation("maintain", None);
        step.start_drain(edge.number, Then::Maintenance, guards, |e| e.until = ask.until);
    } else {
        enter_maintenance(step, edge.number, guards, ask.until);
    }
    Ok(())
}

pub(super) fn enter_maintenance(step: &mut Step<'_>, edge: &str, guards: Vec<fleet_schemas::GuardSeen>, until: Option<Timestamp>) {
    step.go(Phase::Maintenance, edge, guards, |e| e.until = until);
    if let Some(until) = until {
        step.arm_at(WaitKind::MaintenanceEnd, "", until);
    }
}

/// Back through validation if the device was ever provisioned; else to where it came from.
fn end_maintenance(step: &mut Step<'_>) -> Done {
    let (edge, guards) = take(step, "end-maintenance", None, None)?;
    match step.device.came_from {
        _ if step.device.provisioned => step.go(Phase::Validating, edge.number, guards, |_| {}),
        Some(from @ (Phase::Discovered | Phase::Enrolled)) => step.go(from, edge.number, guards, |_| {}),
        _ => step.go(Phase::Quarantined, edge.number, guards, |e| {
            (e.stage, e.cause) = (Some(Stage::Fault), Some("NeverProvisioned".into()));
        }),
    }
    Ok(())
}

fn hold(step: &mut Step<'_>, ask: &PlaceHold) -> Done {
    if ask.name == "moved" {
        return Err(Refusal::new("invalid", "name", "a name other than `moved`", "moved", "that hold is placed by a move alone"));
    }
    if ask.expires_at.is_some_and(|t| t <= step.ctx.now) {
        return Err(Refusal::new("invalid", "expires_at", "a time to come", "the past", "give a later time"));
    }
    let (by, reason) = (step.ctx.actor.subject.clone(), step.ctx.reason.to_owned());
    step.emit(HoldPlaced { name: ask.name.clone(), by, reason, expires_at: ask.expires_at });
    if let Some(expires_at) = ask.expires_at {
        step.arm_at(WaitKind::HoldExpiry, &ask.name, expires_at);
    }
    Ok(())
}

fn unhold(step: &mut Step<'_>, name: &str) -> Done {
    if !step.device.holds.contains_key(name) {
        let names: Vec<_> = step.device.holds.keys().map(String::as_str).collect();
        let seen = if names.is_empty() { "no hold".to_owned() } else { names.join(", ") };
        return Err(Refusal::new("no-such-hold", "holds", format!("a hold named `{name}`"), seen, "name a hold that stands"));
    }
    let by = step.ctx.actor.subject.clone();
    step.emit(HoldLifted { name: name.into(), by });
    Ok(())
}

/// Annotations that a device may have.
const ANNOTATIONS: usize = 64;

fn set_annotations(step: &mut Step<'_>, asked: &[Annotation]) -> Done {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    for Annotation { key, value } in asked {
        let long = value.as_ref().is_some_and(|v| v.chars().count() > 1024);
        if long || key.is_empty() || key.len() > 64 || !key.chars().all(good) {
            let expected = "a key of at most 64 letters, digits, -, _, . and /, and a value of at most 1,024 characters";
            return Err(Refusal::new("invalid", "annotations", expected, key.chars().take(80).collect::<String>(), "correct it"));
        }
    }
    let differs = |a: &&Annotation| step.device.annotations.get(&a.key) != a.value.as_ref();
    let annotations: Vec<_> = asked.iter().filter(differs).cloned().collect();
    let added = annotations.iter().filter(|a| a.value.is_some() && !step.device.annotations.contains_key(&a.key)).count();
    if step.device.annotations.len() + added > ANNOTATIONS {
        let seen = format!("{} and {added} more", step.device.annotations.len());
        return Err(Refusal::new("invalid", "annotations", format!("at most {ANNOTATIONS}"), seen, "take some away"));
    }
    if !annotations.is_empty() {
        step.emit(AnnotationsChanged { annotations });
    }
    Ok(())
}

fn annotate(step: &mut Step<'_>, kind: &str) -> Done {
    let drifts = step.device.condition("NetboxLifecycleDrift").is_some_and(|c| c.status == Status::True);
    if kind != "accept-drift" || !drifts {
        return Err(Refusal::new(
            "no-drift",
            "drift",
            "a NetBox edit that stands against the lifecycle",
            "none",
            "nothing is to be accepted",
        ));
    }
    let status = step.device.inventory.as_ref().map_or_else(String::new, |i| i.status.clone());
    let by = step.ctx.actor.subject.clone();
    step.emit(DriftAccepted { by: by.clone(), status });
    step.derive("NetboxLifecycleDrift", false, "Accepted", format!("accepted by {by}"));
    Ok(())
}

/// Seen twice is seen.
fn acknowledge(step: &mut Step<'_>, name: &str) -> Done {
    let Some(item) = step.device.attention.get(name) else {
        let names: Vec<_> = step.device.attention.keys().map(String::as_str).collect();
        let seen = if names.is_empty() { "nothing waits for a person".to_owned() } else { names.join(", ") };
        let expected = format!("an item named `{name}`");
        return Err(Refusal::new("no-such-attention", "attention", expected, seen, "look at the list again"));
    };
    if item.acknowledged.is_none() {
        let (by, reason) = (step.ctx.actor.subject.clone(), step.ctx.reason.to_owned());
        step.emit(AttentionAcknowledged { name: name.into(), by, reason });
    }
    Ok(())
}
