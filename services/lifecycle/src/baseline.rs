//! Taking over a fleet that already runs: what a device's phase must be, from evidence alone.

use crate::{Device, Reference, device::status_of};
use fleet_schemas::{Phase, Scheduler, Source, Status};

/// What the evidence says of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The phase that everything agrees on; `None` = it stays Discovered.
    pub phase: Option<Phase>,
    /// What was looked at.
    pub evidence: Vec<String>,
    /// What disagrees or is missing, where it does.
    pub problem: Option<String>,
}

/// Proposes a phase. The map: a valid `fleet_phase` that agrees with the status counts; else NetBox status `active` with the SLURM
/// node a member → InService (also when drained), `active` without scheduler → Ready, `failed` → Quarantined, `offline` →
/// Maintenance; anything else stays Discovered.
pub fn propose(device: &Device, reference: &Reference) -> Proposal {
    let mut found = Evidence { lines: vec![], phase: None };
    let judged = judge(device, reference, &mut found);
    Proposal { phase: judged.is_ok().then_some(found.phase).flatten(), evidence: found.lines, problem: judged.err() }
}

struct Evidence {
    lines: Vec<String>,
    phase: Option<Phase>,
}

fn judge(device: &Device, reference: &Reference, found: &mut Evidence) -> Result<(), String> {
    let Some(inventory) = &device.inventory else { return Err("the device is in no inventory".into()) };
    let Some(profile) = device.profile_key().and_then(|(site, role)| reference.profile(site, role)) else {
        return Err(format!("role `{}` has no profile at {}", inventory.role, inventory.site));
    };
    if device.phase != Some(Phase::Discovered) {
        return Err(format!("the device is {} already", device.phase.map_or("without phase", Phase::as_str)));
    }
    let status = inventory.status.as_str();
    found.lines.push(format!("NetBox status {status}"));
    let uses_slurm = profile.scheduler == Scheduler::Slurm;
    let (member, schedulable) = (device.believed("SlurmMember", reference), device.believed("SlurmSchedulable", reference));
    if uses_slurm {
        if !reference.fresh(&inventory.site, Source::Slurm) {
            return Err("SLURM was not seen freshly".into());
        }
        found.lines.push(format!("SlurmMember {member}"));
        found.lines.push(format!("SlurmSchedulable {schedulable} ({})", device.reason_of("SlurmSchedulable")));
    }
    found.phase = match status {
        "active" if !uses_slurm => Some(Phase::Ready),
        "active" if member == Status::True => Some(Phase::InService),
        "active" => return Err(format!("NetBox says active, SlurmMember is {member}")),
        other if uses_slurm && schedulable == Status::True => return Err(format!("NetBox says {other}, SLURM would start jobs on it")),
        "failed" => Some(Phase::Quarantined),
        "offline" => Some(Phase::Maintenance),
        other => return Err(format!("NetBox status {other} says nothing of a device that runs; Ironic is no evidence yet")),
    };
    match inventory.fleet_phase.as_deref() {
        None => Ok(()),
        Some(text) => fleet_phase(text, status, found),
    }
}

/// A custom field `fleet_phase` counts only if it is one of our phases.
fn fleet_phase(text: &str, status: &str, found: &mut Evidence) -> Result<(), String> {
    let Ok(phase) = text.parse::<Phase>() else {
        found.lines.push(format!("fleet_phase `{text}` is no phase of ours: no evidence"));
        return Ok(());
    };
    found.lines.push(format!("fleet_phase {phase}"));
    if !status_of(phase).contains(&status) {
        return Err(format!("fleet_phase says {phase}, NetBox status says {status}"));
    }
    if matches!(phase, Phase::Ready | Phase::InService | Phase::Quarantined | Phase::Maintenance) {
        found.phase = Some(phase);
    }
    Ok(())
}
