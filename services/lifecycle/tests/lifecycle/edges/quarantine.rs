//! Edge 12: to the safe side, from wherever a fault may strike. Isolate first, act later.

use crate::dsl::*;
use fleet_schemas::Phase::{Decommissioned, Decommissioning, OutForRepair, Quarantined};
use fleet_schemas::{DAY, Phase, Then};

#[test]
fn in_service_it_is_a_drain_that_leads_there() {
    given([in_service()])
        .when(quarantine())
        .then(["operation quarantine of alice", "InService -> Draining by 12, then quarantine, cause GpuFault", "wait drain +7d"])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"]);
}

#[test]
fn draining_it_sets_where_the_drain_leads() {
    given([draining()])
        .when(quarantine())
        .then([
            "operation cancelled: `quarantine` took its place",
            "operation quarantine of alice",
            "drain now leads to quarantine, cause GpuFault",
        ])
        .and_plans(nothing())
        .stands_in(Phase::Draining)
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Quarantined);
}

#[test]
fn out_of_service_it_is_at_once_and_keeps_new_work_away() {
    given([discovered(), put(Phase::Ready, None)])
        .when(quarantine())
        .then(["Ready -> Quarantined by 12, stage fault, cause GpuFault"])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> GpuFault\" for GpuFault"]);
    given([ready_without_slurm()])
        .when(quarantine())
        .then(["Ready -> Quarantined by 12, stage fault, cause GpuFault"])
        .and_plans(nothing());
}

#[test]
fn a_running_operation_ends_in_the_same_decision() {
    given([ready(), asked(activate()), seen(slurm("DOWN"))])
        .when(quarantine())
        .then([
            "operation cancelled: `quarantine` took its place",
            "operation quarantine of alice",
            "InService -> Draining by 12, then quarantine, cause GpuFault",
            "wait drain +7d",
        ])
        .after(DAY)
        .then_nothing();
}

#[test]
fn every_phase_but_four() {
    for phase in Phase::ALL {
        let story = given([discovered(), put(*phase, None)]).when(quarantine());
        match phase {
            Quarantined | OutForRepair | Decommissioning | Decommissioned => {
                story.then_refused("phase-forbids");
            }
            Phase::InService | Phase::Draining => {
                let story = story.stands_in(Phase::Draining);
                assert_eq!(story.device().then, Some(Then::Quarantine));
            }
            _ => {
                story.stands_in(Quarantined);
            }
        }
    }
}

#[test]
fn a_maintenance_is_cut_short_by_it() {
    given([in_maintenance()])
        .when(quarantine())
        .then(["Maintenance -> Quarantined by 12, stage fault, cause GpuFault"])
        .and_plans(["MaintenanceInProgress=False Ended"]);
}

/// The failed stage stays, whatever a person adds to it.
#[test]
fn a_failed_stage_stays_the_stage() {
    given([ready(), asked(activate()), seen(slurm("DOWN")), after(DAY)])
        .stands_in(Phase::Draining)
        .when(quarantine())
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Quarantined by 11, stage activate, cause GpuFault",
            "operation succeeded: no work runs",
            "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated",
        ]);
}
