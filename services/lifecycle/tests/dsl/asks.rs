//! What people ask, and the standard beginnings of a story.

use super::{Given, START, asked, at, happened, netbox, says, seen, slurm};
use fleet_schemas::{
    AcknowledgeAttention, Activate, Annotate, Annotation, Ask, Baseline, ConditionChanged, ConditionReport, Drain, Effect, EndMaintenance,
    LiftHold, Maintain, NotBuilt, Phase, PhaseChanged, PlaceHold, Quarantine, Resume, SetAnnotations, Severity, Stage, Then, Timestamp,
    Validate,
};

pub fn baseline(phase: Phase) -> Ask {
    Baseline { phase }.into()
}
pub fn activate() -> Ask {
    Activate {}.into()
}
pub fn drain() -> Ask {
    drain_then(Then::Stay)
}
pub fn drain_then(then: Then) -> Ask {
    Drain { mode: "pending".into(), then }.into()
}
pub fn resume() -> Ask {
    Resume {}.into()
}
pub fn quarantine() -> Ask {
    Quarantine { cause: "GpuFault".into() }.into()
}
pub fn validate() -> Ask {
    Validate {}.into()
}
pub fn maintain() -> Ask {
    Maintain { until: None }.into()
}
pub fn maintain_until(until: Timestamp) -> Ask {
    Maintain { until: Some(until) }.into()
}
pub fn end_maintenance() -> Ask {
    EndMaintenance {}.into()
}
pub fn hold(name: &str) -> Ask {
    PlaceHold { name: name.into(), expires_at: None }.into()
}
pub fn hold_until(name: &str, expires_at: Timestamp) -> Ask {
    PlaceHold { name: name.into(), expires_at: Some(expires_at) }.into()
}
pub fn unhold(name: &str) -> Ask {
    LiftHold { name: name.into() }.into()
}
pub fn annotations(pairs: &[(&str, Option<&str>)]) -> Ask {
    let annotation = |(key, value): &(&str, Option<&str>)| Annotation { key: (*key).into(), value: value.map(str::to_owned) };
    SetAnnotations { annotations: pairs.iter().map(annotation).collect() }.into()
}
pub fn accept_drift() -> Ask {
    Annotate { kind: "accept-drift".into() }.into()
}
pub fn acknowledge(name: &str) -> Ask {
    AcknowledgeAttention { name: name.into() }.into()
}
pub fn not_built(verb: &str) -> Ask {
    NotBuilt { verb: verb.into() }.into()
}

/// In NetBox, active; in SLURM, idle.
pub fn discovered() -> Given {
    seen(netbox()).and(seen(slurm("IDLE")))
}

pub fn in_service() -> Given {
    discovered().and(asked(baseline(Phase::InService)))
}

/// Quarantined by the baseline; a drain is planned.
pub fn quarantined() -> Given {
    seen(netbox().status("failed")).and(seen(slurm("DOWN"))).and(asked(baseline(Phase::Quarantined)))
}

/// The planned drain was typed, and no job runs.
pub fn drained() -> Given {
    seen(slurm("IDLE+DRAIN").own())
}

/// Through quarantine and validation; still drained under our mark.
pub fn ready() -> Given {
    quarantined().and(drained()).and(asked(validate()))
}

/// Of a role without scheduler.
pub fn ready_without_slurm() -> Given {
    seen(netbox().role("cpu")).and(asked(baseline(Phase::Ready)))
}

pub fn draining() -> Given {
    in_service().and(asked(drain()))
}

pub fn in_maintenance() -> Given {
    ready().and(asked(maintain()))
}

/// In this phase, by a history that no decision of this build makes.
pub fn put(phase: Phase, stage: Option<Stage>) -> Given {
    let then = (phase == Phase::Draining).then_some(Then::Stay);
    let (edge, guards, reason) = ("20".into(), vec![], String::new());
    happened(PhaseChanged { from: None, to: phase, edge, stage, cause: stage.map(|_| "Test".into()), then, until: None, guards, reason })
}

/// A problem of a type that this build does not have, with this effect, holds.
pub fn effect(effect: Effect) -> Given {
    let report = ConditionReport { message: "it is so".into(), ..says("TestProblem", "True", "Test") };
    happened(ConditionChanged {
        report,
        severity: Severity::Critical,
        effects: vec![effect],
        source: "hub".into(),
        site: at("lhr1"),
        source_seq: None,
        observed_at: START,
        last_transition_at: START,
        confirmed_live: true,
    })
}
