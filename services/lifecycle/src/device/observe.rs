//! What follows from a look.

use super::{conditions, drain, netbox, state::Device, step::Step};
use crate::{Context, Observed, Sighting};
use fleet_schemas::{
    ConditionReport, ConditionsSeen, DeviceEvent, Fact, SchedulerChanged, SchedulerSection, SchedulerSeen, SlurmNodeSeen, Source,
    SourceSeq, StreamId,
};

/// Draws what follows from a fact. Late and misaddressed ones, and those beyond their sender's reach, are kept without effect.
pub fn observe(device: &Device, sighting: &Sighting, ctx: &Context<'_>) -> Observed<DeviceEvent> {
    match device.seqs.get(&(sighting.source, sighting.site.clone())) {
        _ if sighting.seq == SourceSeq::BY_ARRIVAL => {}
        Some(highest) if sighting.seq < *highest => return Observed::set_aside("late"),
        // The very same again: a repeated delivery.
        Some(highest) if sighting.seq == *highest && !shared(&sighting.fact) => return Observed::events(vec![]),
        Some(_) | None => {}
    }
    // The gateway asked this when it took the fact; a right may have ended since, and a writer of inputs is not believed for where it stands.
    if !ctx.actor.reaches(&sighting.site) {
        return Observed::set_aside("out-of-reach");
    }
    let mut step = Step::new(device, ctx);
    let note = match &sighting.fact {
        Fact::NetboxDeviceSeen(seen) => not_its_own(device, ctx, &seen.inventory.instance, seen.inventory.netbox_id)
            .or_else(|| (!ctx.actor.reaches(&seen.inventory.site)).then_some("out-of-reach"))
            .or_else(|| netbox::seen(&mut step, sighting, seen)),
        Fact::NetboxDeviceGone(gone) => {
            not_its_own(device, ctx, &gone.instance, gone.netbox_id).or_else(|| netbox::gone(&mut step, sighting, gone))
        }
        Fact::SlurmNodeSeen(SlurmNodeSeen { slurm_node, conditions, section }) => own_node(&step, sighting, slurm_node).or_else(|| {
            scheduler(&mut step, sighting, section.as_ref());
            reports(&mut step, sighting, conditions)
        }),
        Fact::SchedulerSeen(SchedulerSeen { slurm_node, section }) => {
            let note = own_node(&step, sighting, slurm_node);
            if note.is_none() {
                scheduler(&mut step, sighting, section.as_ref());
            }
            note
        }
        Fact::ConditionsSeen(ConditionsSeen { conditions }) => {
            conditions_of(&step, sighting).or_else(|| reports(&mut step, sighting, conditions))
        }
        Fact::SweepCompleted(_) | Fact::LookFailed(_) | Fact::UnclaimedSeen(_) => Some("wrong-stream"),
    };
    match note {
        Some(note) => Observed::set_aside(note),
        None => Observed::events(step.into_events()),
    }
}

/// Why a NetBox record does not speak of this device. The stream's id is computed from the record's: another record cannot speak for it.
/// And where the device stands is for those to say who reach it there: a client of another site can neither take it away nor end it.
fn not_its_own(device: &Device, ctx: &Context<'_>, instance: &str, netbox_id: i64) -> Option<&'static str> {
    if *ctx.stream != StreamId::Device(fleet_schemas::DeviceId::from_netbox(instance, netbox_id)) {
        return Some("identity-mismatch");
    }
    device.site.as_ref().is_some_and(|site| !ctx.actor.reaches(site)).then_some("out-of-reach")
}

/// One look at SLURM comes as two facts under one number, which change nothing when they come again.
fn shared(fact: &Fact) -> bool {
    match fact {
        Fact::SchedulerSeen(_) | Fact::ConditionsSeen(_) => true,
        Fact::NetboxDeviceSeen(_)
        | Fact::NetboxDeviceGone(_)
        | Fact::SlurmNodeSeen(_)
        | Fact::SweepCompleted(_)
        | Fact::LookFailed(_)
        | Fact::UnclaimedSeen(_) => false,
    }
}

/// Why a look at SLURM node `slurm_node` does not speak of this device.
fn own_node(step: &Step<'_>, sighting: &Sighting, slurm_node: &str) -> Option<&'static str> {
    if step.device.site.as_ref() != Some(&sighting.site) {
        return Some("wrong-site");
    }
    let linked = step.device.inventory.as_ref().and_then(|i| i.slurm_node.as_deref());
    (linked != Some(slurm_node)).then_some("identity-mismatch")
}

/// The same of statements: what they were read under must be the device's own, where they name it.
fn conditions_of(step: &Step<'_>, sighting: &Sighting) -> Option<&'static str> {
    if step.device.site.as_ref() != Some(&sighting.site) {
        return Some("wrong-site");
    }
    match sighting.source {
        Source::Slurm if !sighting.native_id.is_empty() => own_node(step, sighting, &sighting.native_id),
        Source::Slurm | Source::Netbox => None,
    }
}

fn scheduler(step: &mut Step<'_>, sighting: &Sighting, section: Option<&SchedulerSection>) {
    if step.device.scheduler.as_ref() != section {
        step.emit(SchedulerChanged { section: section.cloned(), source_seq: sighting.seq.clone() });
    }
}

fn reports(step: &mut Step<'_>, sighting: &Sighting, reports: &[ConditionReport]) -> Option<&'static str> {
    for report in reports {
        let mut report = report.clone();
        if report.r#type == "SlurmDrainForeign" {
            unknown_mark(step, &mut report);
        }
        conditions::report(step, sighting, report, sighting.source);
    }
    None
}

/// Only the decider knows which tasks are this device's: a drain under our mark that names none of them is somebody else's.
fn unknown_mark(step: &Step<'_>, report: &mut fleet_schemas::ConditionReport) {
    let Some(section) = step.device.scheduler.as_ref().filter(|s| drain::draining(s)) else { return };
    let known = drain::mark_of(section.reason.as_deref()).is_some_and(|task| step.device.marks.contains(&task));
    if report.status == fleet_schemas::Status::False && !known {
        report.status = fleet_schemas::Status::True;
        report.reason = "UnknownMark".into();
        report.message =
            format!("drained under a mark that is no plan of this device: \"{}\"", section.reason.as_deref().unwrap_or_default());
    }
}
