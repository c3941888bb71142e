//! Freshness: looks and their failures flip a source between fresh and stale; only flips are events.

use super::{Site, SourceState};
use crate::{Context, Observed, Sighting, Wait};
use fleet_schemas::{
    Fact, FreezeLifted, FreshnessChanged, LookFailed, LookFault, LooksFailing, SiteEvent, Source, SweepCompleted, Timestamp, WaitKind,
};

/// Draws what follows from a look, or from a failed one.
pub fn observe(site: &Site, sighting: &Sighting, ctx: &Context<'_>) -> Observed<SiteEvent> {
    if !ctx.actor.reaches(&site.id) {
        return Observed::set_aside("out-of-reach");
    }
    let Some(state) = site.sources.get(&sighting.source) else { return Observed::set_aside("unknown-source") };
    if sighting.seq.epoch < state.epoch {
        return Observed::set_aside("superseded");
    }
    if !sighting.live() {
        return Observed::set_aside("not-live");
    }
    match &sighting.fact {
        Fact::SweepCompleted(sweep) => Observed::events(looked(state, sweep, sighting.observed_at)),
        Fact::LookFailed(failed) => Observed::events(failing(site, state, failed)),
        Fact::NetboxDeviceSeen(_)
        | Fact::NetboxDeviceGone(_)
        | Fact::SlurmNodeSeen(_)
        | Fact::SchedulerSeen(_)
        | Fact::ConditionsSeen(_)
        | Fact::UnclaimedSeen(_) => Observed::set_aside("wrong-stream"),
    }
}

fn looked(state: &SourceState, sweep: &SweepCompleted, at: Timestamp) -> Vec<SiteEvent> {
    if !state.fresh {
        let event = FreshnessChanged { source: sweep.source, fresh: true, last_look_at: Some(at), fault: None, message: String::new() };
        return vec![event.into()];
    }
    match state.fault {
        Some(_) => vec![LooksFailing { source: sweep.source, fault: None, message: String::new() }.into()],
        None => vec![],
    }
}

fn failing(site: &Site, state: &SourceState, failed: &LookFailed) -> Vec<SiteEvent> {
    let (source, fault, message) = (failed.source, Some(failed.fault), failed.message.clone());
    if state.fresh && definite(failed.fault) {
        let last_look_at = last_look(site, state, source);
        return vec![FreshnessChanged { source, fresh: false, last_look_at, fault, message }.into()];
    }
    if state.fault == fault { vec![] } else { vec![LooksFailing { source, fault, message }.into()] }
}

/// Faults that no waiting mends: nothing fresh can come before a person acts.
fn definite(fault: LookFault) -> bool {
    match fault {
        LookFault::TokenExpired | LookFault::ApiTooOld => true,
        LookFault::NoData | LookFault::ControllerDown | LookFault::PermissionDenied => false,
    }
}

fn last_look(site: &Site, state: &SourceState, source: Source) -> Option<Timestamp> {
    site.looks.0.get(&source).copied().or(state.last_look_at)
}

/// A source fell silent for too long, or a freeze is over.
pub fn expire(site: &Site, wait: &Wait, ctx: &Context<'_>) -> Vec<SiteEvent> {
    if wait.kind == WaitKind::FreezeEnd {
        let over = site.freezes.get(&wait.name).and_then(|f| f.until).is_some_and(|until| until <= ctx.now);
        return if over { vec![FreezeLifted { name: wait.name.clone(), by: "expiry".into() }.into()] } else { vec![] };
    }
    let Some((source, state)) = site.sources.iter().find(|(source, _)| source.as_str() == wait.name) else { return vec![] };
    let last = last_look(site, state, *source);
    if !state.fresh || last.is_some_and(|l| l.plus(state.patience()) > ctx.now) {
        return vec![];
    }
    let message = match state.fault {
        Some(_) => state.problem.clone(),
        None => format!("no complete look for {} intervals of {} s", super::STALE_AFTER_INTERVALS, state.config.interval_seconds),
    };
    vec![FreshnessChanged { source: *source, fresh: false, last_look_at: last, fault: state.fault, message }.into()]
}
