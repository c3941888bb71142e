//! What a device waits for, since when, until when, owned by whom, and what would help.

use crate::device::{Drain, TaskState, claims, instruction};
use crate::{Context, Decider, Device, Entity, Fleet, Reference, Refusal, Request, guards};
use fleet_schemas::{Actor, DecisionId, Phase, Scheduler, Source, StreamId, TaskKind, Then, Timestamp, WaitKind, verbs};
use std::sync::Arc;

/// One thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What.
    pub what: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Until when.
    pub until: Option<Timestamp>,
    /// Who can end it.
    pub owner: String,
    /// What would help.
    pub helps: String,
}

/// A verb, and whether it would be granted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The verb.
    pub verb: &'static str,
    /// Why not.
    pub refusal: Option<Refusal>,
}

/// Everything that the device waits for, most pressing first.
pub fn waits(device: &Device, reference: &Reference) -> Vec<Waiting> {
    let mut out = Vec::new();
    if let Err(refusal) = guards::profile(device, reference) {
        out.push(wait(format!("inventory only: {}", refusal.seen), None, "site owner", refusal.helps.to_string()));
    }
    for (name, hold) in &device.holds {
        let until = hold.expires_at;
        let what = format!("hold `{name}` by {}: {}", hold.by, hold.reason);
        out.push(Waiting { until, ..wait(what, Some(hold.since), &hold.by, format!("unhold --name {name}")) });
    }
    for site in device.sites() {
        for (name, freeze) in reference.sites.get(site).into_iter().flat_map(|s| &s.freezes) {
            let what = format!("freeze `{name}` of {site} by {}: {}", freeze.by, freeze.reason);
            out.push(Waiting { until: freeze.until, ..wait(what, Some(freeze.since), "site owner", "its end, or its lifting".into()) });
        }
    }
    for item in device.attention.values() {
        out.push(wait(item.why.clone(), Some(item.since), "operator", item.ways_out.join(", ")));
    }
    for (name, other) in device.claimed().filter_map(|(name, grant)| Some((name, grant.other?))) {
        let noun = claims::noun(name.kind);
        let what = format!("{noun} {} for itself alone: device {other} claims it as well", name.value);
        out.push(wait(what, None, "site owner", format!("correct the {noun} of one of the two in NetBox")));
    }
    sources(device, reference, &mut out);
    phase(device, reference, &mut out);
    tasks(device, &mut out);
    out
}

fn wait(what: String, since: Option<Timestamp>, owner: &str, helps: String) -> Waiting {
    Waiting { what, since, until: None, owner: owner.into(), helps }
}

fn sources(device: &Device, reference: &Reference, out: &mut Vec<Waiting>) {
    let Some(site) = &device.site else { return };
    for source in Source::ALL {
        let relevant = *source != Source::Slurm || guards::profile(device, reference).is_ok_and(|p| p.scheduler == Scheduler::Slurm);
        let Some(state) = reference.source(site, *source).filter(|s| relevant && !s.fresh) else { continue };
        let problem = if state.problem.is_empty() { "no complete look yet".to_owned() } else { state.problem.clone() };
        out.push(wait(
            format!("{source} at {site} is not fresh: {problem}"),
            Some(state.changed_at),
            "site",
            format!("mend the look at {source}"),
        ));
    }
}

fn phase(device: &Device, reference: &Reference, out: &mut Vec<Waiting>) {
    let since = Some(device.phase_since);
    let due = |kind: WaitKind| device.waits.get(&(kind, String::new())).map(|w| w.due);
    match device.phase {
        Some(Phase::Discovered) => out.push(wait("a decision what it is".into(), since, "operator", "site baseline, or enrol".into())),
        Some(Phase::Ready) => out.push(wait("activation".into(), since, "operator", "activate".into())),
        Some(Phase::Quarantined) => {
            let cause = device.cause.as_deref().unwrap_or("unknown");
            out.push(wait(format!("a way out of quarantine ({cause})"), since, "operator", "validate, maintain".into()));
        }
        Some(Phase::Maintenance) => {
            let until = device.until;
            out.push(Waiting { until, ..wait("the end of the maintenance".into(), since, "operator", "end-maintenance".into()) });
        }
        Some(Phase::Draining) if device.drain_proven => {
            out.push(wait("drained; a decision what next".into(), since, "operator", "resume, quarantine".into()))
        }
        Some(Phase::Draining) => {
            let then = device.then.unwrap_or(Then::Stay);
            if let Err(refusal) = guards::workload_proof(device, reference) {
                let what = format!("the proof that no work runs, then {then}: {}", refusal.seen);
                let until = due(WaitKind::Drain);
                out.push(Waiting { until, ..wait(what, since, "site", refusal.helps.to_string()) });
            }
        }
        Some(Phase::InService) if device.operation.is_some() => {
            let what = format!("SLURM to start jobs: SlurmSchedulable is {}", device.reason_of("SlurmSchedulable"));
            out.push(Waiting { until: due(WaitKind::Schedulable), ..wait(what, since, "site", "lift what keeps SLURM from it".into()) });
        }
        Some(Phase::Validating) => out.push(wait("validation".into(), since, "fleet", "end what holds it up".into())),
        Some(
            Phase::InService
            | Phase::Enrolling
            | Phase::Enrolled
            | Phase::Provisioning
            | Phase::Provisioned
            | Phase::BurningIn
            | Phase::Remediating
            | Phase::OutForRepair
            | Phase::Decommissioning
            | Phase::Decommissioned,
        )
        | None => {}
    }
}

/// Planned tasks: in mode `observe` a person does them.
fn tasks(device: &Device, out: &mut Vec<Waiting>) {
    for task in device.tasks.values().filter(|t| t.state == TaskState::Open) {
        let what = format!("planned: {} of {} ({})", task.kind, task.target, task.why);
        let blocked = matches!(device.drain(), Drain::Foreign(_)) && task.kind == TaskKind::SlurmDrain;
        let helps = if blocked { "wait for the foreign drain to end".into() } else { instruction(task.kind, &task.target, &task.mark) };
        out.push(wait(what, Some(task.since), "site staff", helps));
    }
}

/// Every verb of the table, judged now.
pub fn verdicts(device: &Arc<Device>, version: u64, reference: &Reference, now: Timestamp) -> Vec<Verdict> {
    let stream = StreamId::Device(device.id);
    let actor = Actor::system("why");
    let decision = DecisionId(device.id.0);
    let ctx = Context { now, stream: &stream, version, decision, actor: &actor, reason: "", reference, leading_since: now };
    let state = Entity::Device(device.clone());
    let judge = |verb: &'static verbs::Verb| {
        let ask = verbs::plain(verb.name)?;
        let refusal = Fleet::decide(&state, &Request { ask, expected_version: None }, &ctx).err();
        Some(Verdict { verb: verb.name, refusal })
    };
    verbs::TABLE.iter().filter(|v| v.built).filter_map(judge).collect()
}
