//! NetBox: inventory, moves, disappearance, and people's edits.

use super::{conditions, state::Device, status_of, step::Step, verbs};
use crate::{Context, Sighting};
use fleet_schemas::{
    Actor, Ask, ConditionReport, DeviceMoved, Drain, EditJudged, HoldPlaced, Inventory, InventoryChanged, Maintain, NetboxDeviceGone,
    NetboxDeviceSeen, NotBuilt, Phase, Quarantine, Source, Status, StatusEdit, Then,
};

pub(super) fn seen(step: &mut Step<'_>, sighting: &Sighting, seen: &NetboxDeviceSeen) -> Option<&'static str> {
    let before = step.device.inventory.clone();
    if before.as_ref() != Some(&seen.inventory) {
        let changed = before.as_ref().map_or_else(Vec::new, |b| differences(b, &seen.inventory));
        step.emit(InventoryChanged { inventory: seen.inventory.clone(), changed, source_seq: sighting.seq.clone() });
    }
    moved(step, &seen.inventory);
    for report in &seen.conditions {
        conditions::report(step, sighting, report.clone(), Source::Netbox);
    }
    if step.device.condition("InventoryVanished").is_some_and(|c| c.status != Status::False) {
        conditions::report(step, sighting, vanished(Status::False, "Present", "NetBox has the record"), Source::Netbox);
    }
    for edit in &seen.edits {
        if edit.change_id > step.device.judged_edit {
            judge(step, edit);
        }
    }
    None
}

/// The site changes at once; the hold says that nobody accepted it yet. Until then the old profile applies.
fn moved(step: &mut Step<'_>, inventory: &Inventory) {
    let Some(from) = step.device.site.clone().filter(|s| *s != inventory.site) else { return };
    let to = inventory.site.clone();
    let reason = format!("moved from {from} to {to} in NetBox");
    step.emit(DeviceMoved { from, to });
    step.emit(HoldPlaced { name: "moved".into(), by: "system:hub".into(), reason, expires_at: None });
}

pub(super) fn gone(step: &mut Step<'_>, sighting: &Sighting, gone: &NetboxDeviceGone) -> Option<&'static str> {
    step.device.inventory.as_ref()?;
    let by = gone.deleted_by.as_deref().map_or_else(|| "by nobody known".into(), |user| format!("by {user}"));
    let message = format!("deleted in NetBox {by}, noticed by the {}, confirmed by GET 404", gone.noticed_by);
    conditions::report(step, sighting, vanished(Status::True, "Deleted", &message), Source::Netbox);
    None
}

fn vanished(status: Status, reason: &str, message: &str) -> ConditionReport {
    ConditionReport { r#type: "InventoryVanished".into(), subject: "device".into(), status, reason: reason.into(), message: message.into() }
}

/// Judges a person's edit of the status or of `fleet_phase`: it becomes the command it maps to, with that person as actor, or drift.
fn judge(step: &mut Step<'_>, edit: &StatusEdit) {
    let (verb, result) = match step.device.phase {
        None | Some(Phase::Discovered) => (String::new(), "no-phase-yet".to_owned()),
        Some(phase) if agrees(phase, edit) => (String::new(), "agrees".into()),
        Some(_) => become_command(step, edit),
    };
    let text = format!("{}: {} -> {}", edit.field, edit.before, edit.after);
    let drifts = !matches!(result.as_str(), "accepted" | "agrees" | "no-phase-yet");
    step.emit(EditJudged { change_id: edit.change_id, user: edit.user.clone(), edit: text.clone(), verb, result: result.clone() });
    if drifts {
        let message = format!("{} set {text} in NetBox: {result}", edit.user);
        step.derive("NetboxLifecycleDrift", true, if result == "unmapped" { "Unmapped" } else { "Refused" }, message);
    }
}

fn agrees(phase: Phase, edit: &StatusEdit) -> bool {
    if edit.field == "status" { status_of(phase).contains(&edit.after.as_str()) } else { edit.after == phase.as_str() }
}

fn become_command(step: &mut Step<'_>, edit: &StatusEdit) -> (String, String) {
    let Some(ask) = command_of(&step.device, edit) else { return (String::new(), "unmapped".into()) };
    let verb = fleet_schemas::verbs::name_of(&ask).to_owned();
    let site = step.device.site.iter().map(|s| s.to_string()).collect();
    let actor = Actor { subject: format!("netbox:{}", edit.user), client: "netbox".into(), on_behalf_of: None, reach: site };
    let reason = format!("status {} -> {} in NetBox", edit.before, edit.after);
    let ctx = Context { actor: &actor, reason: &reason, ..*step.ctx };
    let mut trial = step.trial(&ctx);
    match verbs::apply(&mut trial, &ask).map(|()| trial.into_events()) {
        Ok(events) => {
            events.into_iter().for_each(|e| step.emit(e));
            (verb, "accepted".into())
        }
        Err(refusal) => (verb, refusal.code.into()),
    }
}

/// The default map of statuses to commands.
fn command_of(device: &Device, edit: &StatusEdit) -> Option<Ask> {
    if edit.field != "status" {
        return None;
    }
    let in_service = device.phase == Some(Phase::InService);
    Some(match edit.after.as_str() {
        "failed" => Quarantine { cause: "NetboxStatusFailed".into() }.into(),
        "decommissioning" => NotBuilt { verb: "decommission".into() }.into(),
        "offline" if in_service => Drain { mode: "pending".into(), then: Then::Maintenance }.into(),
        "offline" => Maintain { until: None }.into(),
        "active" if device.phase == Some(Phase::Ready) => fleet_schemas::Activate {}.into(),
        _ => return None,
    })
}

/// Whether NetBox's words stand against the lifecycle's, by the table or by an accepted edit.
pub(super) fn drifts_still(device: &Device) -> bool {
    let (Some(phase), Some(inventory)) = (device.phase, &device.inventory) else { return false };
    let status = status_of(phase).contains(&inventory.status.as_str()) || device.accepted_status.as_ref() == Some(&inventory.status);
    let field = inventory.fleet_phase.as_deref().and_then(|p| p.parse::<Phase>().ok()).is_none_or(|p| p == phase);
    !(status && field)
}

fn differences(before: &Inventory, now: &Inventory) -> Vec<String> {
    let rows = [
        ("name", before.name != now.name),
        ("display", before.display != now.display),
        ("site", before.site != now.site),
        ("role", before.role != now.role),
        ("device_type", before.device_type != now.device_type),
        ("serial", before.serial != now.serial),
        ("asset_tag", before.asset_tag != now.asset_tag),
        ("rack", before.rack != now.rack),
        ("position_tenths", before.position_tenths != now.position_tenths),
        ("face", before.face != now.face),
        ("status", before.status != now.status),
        ("fleet_phase", before.fleet_phase != now.fleet_phase),
        ("tenant", before.tenant != now.tenant),
        ("tags", before.tags != now.tags),
        ("slurm_node", (&before.slurm_node, &before.slurm_node_from) != (&now.slurm_node, &now.slurm_node_from)),
    ];
    rows.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
}
