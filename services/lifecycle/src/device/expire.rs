//! Deadlines: silence became a fact.

use super::{state::Device, step::Step, verbs::SEVEN_DAYS};
use crate::site::STALE_AFTER_INTERVALS;
use crate::{Context, Reference, Wait};
use fleet_schemas::{
    DeadlineUnobservable, DeviceEvent, HoldLifted, Micros, OperationState, Source, Stage, Then, Timestamp, WaitArmed, WaitKind,
};

/// The next wait, and when it falls due. One that could not be judged waits for its source, not for a time.
pub fn next_wait(device: &Device) -> Option<(Timestamp, Wait)> {
    let open = device.waits.iter().filter(|(_, w)| w.unobservable.is_none());
    open.map(|((kind, name), w)| (w.judge_at, Wait { kind: *kind, name: name.clone() })).min()
}

/// The source whose silence would make a deadline mean nothing.
pub fn source_of(kind: WaitKind) -> Option<Source> {
    match kind {
        WaitKind::Drain | WaitKind::Schedulable => Some(Source::Slurm),
        WaitKind::HoldExpiry | WaitKind::MaintenanceEnd | WaitKind::Look | WaitKind::FreezeEnd => None,
    }
}

/// Intervals of its source that a deadline is judged after it fell due: one more than silence needs to show as staleness, so that a
/// source that is fresh then was looked at after the deadline.
const JUDGED_AFTER_INTERVALS: i64 = STALE_AFTER_INTERVALS + 1;

/// How long after it fell due a wait can be judged.
pub(super) fn grace(device: &Device, kind: WaitKind, reference: &Reference) -> Micros {
    let source = source_of(kind).zip(device.site.as_ref()).and_then(|(source, site)| reference.source(site, source));
    source.map_or(0, |s| s.interval() * JUDGED_AFTER_INTERVALS)
}

/// Draws what follows from a wait that fell due.
pub fn expire(device: &Device, wait: &Wait, ctx: &Context<'_>) -> Vec<DeviceEvent> {
    let key = (wait.kind, wait.name.clone());
    let Some(state) = device.waits.get(&key).filter(|w| w.judge_at <= ctx.now && w.unobservable.is_none()) else { return vec![] };
    let mut step = Step::new(device, ctx);
    // A leader that has only just begun knows of no silence before its time.
    let judge_at = ctx.leading_since.plus(grace(device, wait.kind, ctx.reference));
    if source_of(wait.kind).is_some() && ctx.now < judge_at {
        step.emit(WaitArmed { wait: wait.kind, name: wait.name.clone(), since: state.since, due: state.due, judge_at });
        return step.into_events();
    }
    if let (Some(source), Some(site)) = (source_of(wait.kind), &device.site)
        && !ctx.reference.fresh_since(site, source, state.since)
    {
        step.emit(DeadlineUnobservable { wait: wait.kind, source });
        let why = format!("the deadline of {} fell due while {source} at {site} was not fresh", wait.kind);
        step.raise(&format!("unobservable-{}", wait.kind), why, &["mend the look at the source"]);
        return step.into_events();
    }
    match wait.kind {
        WaitKind::Drain => {
            step.raise(
                "drain",
                format!("draining for more than {} days", SEVEN_DAYS / fleet_schemas::DAY),
                &["resume", "quarantine", "end the work"],
            );
            step.arm(WaitKind::Drain, "", SEVEN_DAYS);
        }
        WaitKind::Schedulable => not_schedulable(&mut step),
        WaitKind::HoldExpiry => step.emit(HoldLifted { name: wait.name.clone(), by: "expiry".into() }),
        WaitKind::MaintenanceEnd => {
            step.raise("maintenance", "the announced end of the maintenance has passed".into(), &["end-maintenance"]);
            step.arm(WaitKind::MaintenanceEnd, "", SEVEN_DAYS);
        }
        WaitKind::Look | WaitKind::FreezeEnd => {}
    }
    step.into_events()
}

/// Edge 9's failure. The wait goes with its operation, so there is one to fail.
fn not_schedulable(step: &mut Step<'_>) {
    let seen = step.device.reason_of("SlurmSchedulable");
    step.end_operation(OperationState::Failed, &format!("SLURM would not start jobs in time: {seen}"));
    step.start_drain("9", Then::Quarantine, vec![], |e| (e.cause, e.stage) = (Some("NotSchedulable".into()), Some(Stage::Activate)));
}
