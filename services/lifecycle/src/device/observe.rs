//! What follows from a look.

use super::{conditions, drain, netbox, state::Device, step::Step};
use crate::{Context, Observed, Sighting};
use fleet_schemas::{DeviceEvent, Fact, SchedulerChanged, SlurmNodeSeen, Source, StreamId};

/// Draws what follows from a fact. Late and misaddressed ones are kept without effect.
pub fn observe(device: &Device, sighting: &Sighting, ctx: &Context<'_>) -> Observed<DeviceEvent> {
    match device.seqs.get(&(sighting.source, sighting.site.clone())) {
        Some(highest) if sighting.seq < *highest => return Observed::set_aside("late"),
        // The very same again: a repeated delivery.
        Some(highest) if sighting.seq == *highest => return Observed::events(vec![]),
        Some(_) | None => {}
    }
    let mut step = Step::new(device, ctx);
    let note = match &sighting.fact {
        Fact::NetboxDeviceSeen(seen) => match identity(ctx, &seen.inventory.instance, seen.inventory.netbox_id) {
            true => netbox::seen(&mut step, sighting, seen),
            false => Some("identity-mismatch"),
        },
        Fact::NetboxDeviceGone(gone) => match identity(ctx, &gone.instance, gone.netbox_id) {
            true => netbox::gone(&mut step, sighting, gone),
            false => Some("identity-mismatch"),
        },
        Fact::SlurmNodeSeen(seen) => slurm(&mut step, sighting, seen),
        Fact::SweepCompleted(_) | Fact::LookFailed(_) => Some("wrong-stream"),
    };
    match note {
        Some(note) => Observed::set_aside(note),
        None => Observed::events(step.into_events()),
    }
}

/// The stream's id is computed from the record's: another record cannot speak for this device.
fn identity(ctx: &Context<'_>, instance: &str, netbox_id: i64) -> bool {
    *ctx.stream == StreamId::Device(fleet_schemas::DeviceId::from_netbox(instance, netbox_id))
}

fn slurm(step: &mut Step<'_>, sighting: &Sighting, seen: &SlurmNodeSeen) -> Option<&'static str> {
    if step.device.site.as_ref() != Some(&sighting.site) {
        return Some("wrong-site");
    }
    if step.device.inventory.as_ref().and_then(|i| i.slurm_node.as_deref()) != Some(seen.slurm_node.as_str()) {
        return Some("identity-mismatch");
    }
    if step.device.scheduler != seen.section {
        step.emit(SchedulerChanged { section: seen.section.clone(), source_seq: sighting.seq.clone() });
    }
    for report in &seen.conditions {
        let mut report = report.clone();
        if report.r#type == "SlurmDrainForeign" {
            unknown_mark(step, &mut report);
        }
        conditions::report(step, sighting, report, Source::Slurm);
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
