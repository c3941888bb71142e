//! A device: what is known of it, and what follows.

pub(crate) mod claims;
mod condition_set;
mod conditions;
mod decide;
mod drain;
mod evolve;
mod expire;
mod netbox;
mod observe;
mod plan;
mod state;
mod step;
mod verbs;

pub use claims::{Grant, heed, react};
pub use condition_set::Conditions;
pub use decide::decide;
pub use drain::{Drain, instruction};
pub use evolve::evolve;
pub use expire::{expire, next_wait, source_of};
pub use observe::observe;
pub use plan::plan;
pub use state::{Acknowledged, Attention, Condition, Device, Hold, Operation, Task, TaskState, WaitState};
pub use verbs::SEVEN_DAYS;

use fleet_schemas::Phase;

/// NetBox statuses (stock list) that agree with a phase.
pub fn status_of(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Discovered | Phase::Enrolling => &["planned", "inventory"],
        Phase::Enrolled | Phase::Provisioning | Phase::Provisioned | Phase::Validating | Phase::BurningIn => &["staged"],
        Phase::Ready | Phase::InService | Phase::Draining => &["active"],
        Phase::Quarantined | Phase::Remediating => &["failed"],
        Phase::OutForRepair => &["failed", "offline"],
        Phase::Maintenance => &["offline"],
        Phase::Decommissioning | Phase::Decommissioned => &["decommissioning"],
    }
}

/// Every word that [`tenant_state`] says.
pub const TENANT_STATES: &[&str] =
    &["none", "provisioning", "stopped", "running", "degraded", "stopping", "maintenance-required", "terminating", "terminated"];

/// What a tenant is told of a device in this phase; `impaired` = an effect of a condition bears on it.
pub fn tenant_state(phase: Option<Phase>, impaired: bool) -> &'static str {
    match phase {
        None | Some(Phase::Discovered | Phase::Enrolling | Phase::Enrolled) => "none",
        Some(Phase::Provisioning | Phase::Provisioned | Phase::Validating | Phase::BurningIn) => "provisioning",
        Some(Phase::Ready) => "stopped",
        Some(Phase::InService) if impaired => "degraded",
        Some(Phase::InService) => "running",
        Some(Phase::Draining) => "stopping",
        Some(Phase::Quarantined | Phase::Remediating) => "degraded",
        Some(Phase::Maintenance) => "maintenance-required",
        Some(Phase::Decommissioning) => "terminating",
        Some(Phase::OutForRepair | Phase::Decommissioned) => "terminated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tenant_state_is_listed() {
        for phase in Phase::ALL.iter().copied().map(Some).chain([None]) {
            for impaired in [false, true] {
                assert!(TENANT_STATES.contains(&tenant_state(phase, impaired)), "{phase:?}");
            }
        }
    }
}
