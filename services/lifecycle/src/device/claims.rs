//! The names that a device claims, and whose they are: its serial, its SLURM NodeName at its site.

use super::{state::Device, step::Step};
use crate::{Context, Observed, Reaction};
use fleet_schemas::{
    ClaimsChanged, ConditionReport, DeviceEvent, DeviceId, ExclusiveKind, ExclusiveName, GiveBack, GrantChanged, Notice, Phase, Status,
    Take,
};
use serde::{Deserialize, Serialize};

/// Whose a name is that a device claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Whether this device holds it. Until it is told so, it does not.
    pub held: bool,
    /// Another device that claims it as well: who waits where this one holds it, else who holds it.
    pub other: Option<DeviceId>,
}

/// The condition that says so when another device claims a name as well; one per name, beside NetBox's own of subject `device`.
pub(super) const CONFLICT: &str = "IdentityConflict";

impl Device {
    /// Every name that it claims, whose it is, in words for people.
    pub fn claimed(&self) -> impl Iterator<Item = (ExclusiveName, &Grant)> {
        self.grants.iter().map(|((kind, value), grant)| (ExclusiveName { kind: *kind, value: value.clone() }, grant))
    }
}

/// What a name is called.
pub(crate) fn noun(kind: ExclusiveKind) -> &'static str {
    match kind {
        ExclusiveKind::Serial => "serial",
        ExclusiveKind::SlurmName => "SLURM name",
    }
}

/// The names that the device has by its record. One that is gone from NetBox, or from the fleet, has none.
fn wanted(device: &Device) -> Vec<ExclusiveName> {
    let gone = device.condition("InventoryVanished").is_some_and(|c| c.status == Status::True);
    let Some(inventory) = device.inventory.as_ref().filter(|_| !gone && device.phase != Some(Phase::Decommissioned)) else { return vec![] };
    let serial = inventory.serial.as_deref().and_then(ExclusiveName::serial);
    let node = inventory.slurm_node.as_deref().and_then(|node| ExclusiveName::slurm(device.site.as_ref()?, node));
    serial.into_iter().chain(node).collect()
}

/// From the whole state: names are taken and given back until those that it claims are those that it has; what is contested is said.
pub(super) fn plan(step: &mut Step<'_>) {
    let wanted = wanted(&step.device);
    let claims: Vec<_> = step.device.claimed().map(|(name, _)| name).collect();
    let without = |of: &[ExclusiveName], other: &[ExclusiveName]| of.iter().filter(|n| !other.contains(n)).cloned().collect::<Vec<_>>();
    let (take, give_back) = (without(&wanted, &claims), without(&claims, &wanted));
    if !take.is_empty() || !give_back.is_empty() {
        step.emit(ClaimsChanged { take, give_back });
    }
    conflicts(step);
}

fn conflicts(step: &mut Step<'_>) {
    let Some(site) = step.device.site.clone() else { return };
    let mut reports = Vec::new();
    for (name, grant) in step.device.claimed() {
        let stands = step.device.conditions.get(CONFLICT, &name.to_string()).is_some();
        let noun = noun(name.kind);
        let said = match (grant.other, grant.held) {
            (Some(other), true) => Some((Status::True, "Contested", format!("{noun} {} is claimed by device {other} as well", name.value))),
            (Some(other), false) => Some((Status::True, "HeldByAnother", format!("{noun} {} is held by device {other}", name.value))),
            (None, _) => stands.then(|| (Status::False, "Unique", String::new())),
        };
        reports.extend(said.map(|said| (name.to_string(), said)));
    }
    let ours = step.device.conditions.iter().filter(|c| c.r#type == CONFLICT && c.source == "hub");
    let left = ours.filter(|c| !step.device.claimed().any(|(name, _)| name.to_string() == c.subject));
    reports.extend(left.map(|c| (c.subject.clone(), (Status::False, "GivenBack", String::new()))));
    for (subject, (status, reason, message)) in reports {
        let report = ConditionReport { r#type: CONFLICT.into(), subject, status, reason: reason.into(), message };
        step.state_by("hub", report, site.clone(), None, step.ctx.now, true);
    }
}

/// What the stream of a name tells. A notice of a name that the device gave back meanwhile is kept without effect.
pub fn heed(device: &Device, notice: &Notice, ctx: &Context<'_>) -> Observed<DeviceEvent> {
    let (name, grant) = match notice {
        Notice::ExclusiveGranted(n) => (&n.name, Grant { held: true, other: None }),
        Notice::ExclusiveContested(n) => (&n.name, Grant { held: n.held, other: Some(n.other) }),
    };
    match device.grants.get(&(name.kind, name.value.clone())) {
        None => Observed::set_aside("not-claimed"),
        Some(known) if *known == grant => Observed::events(vec![]),
        Some(_) => {
            let mut step = Step::new(device, ctx);
            step.emit(GrantChanged { name: name.clone(), held: grant.held, other: grant.other });
            Observed::events(step.into_events())
        }
    }
}

/// Names that changed are taken and given back at their streams; given back first, so that who waits for one is not kept waiting.
pub fn react(device: DeviceId, event: &DeviceEvent) -> Vec<Reaction> {
    let DeviceEvent::ClaimsChanged(e) = event else { return vec![] };
    let given = e.give_back.iter().map(|name| Reaction::Ask(name.stream(), GiveBack { device }.into()));
    given.chain(e.take.iter().map(|name| Reaction::Ask(name.stream(), Take { device }.into()))).collect()
}

/// Folds in which names the device claims.
pub(super) fn changed(device: &mut Device, e: &ClaimsChanged) {
    for name in &e.give_back {
        device.grants.remove(&(name.kind, name.value.clone()));
    }
    for name in &e.take {
        device.grants.insert((name.kind, name.value.clone()), Grant::default());
    }
}

/// Folds in whose a name is.
pub(super) fn granted(device: &mut Device, e: &GrantChanged) {
    if let Some(grant) = device.grants.get_mut(&(e.name.kind, e.name.value.clone())) {
        *grant = Grant { held: e.held, other: e.other };
    }
}
