//! Edge 11: Draining → where the drain leads, once the workload proofs hold.

use crate::dsl::*;
use fleet_schemas::{Effect, MINUTE, Phase, Scheduler, Then};

fn draining_to(then: Then) -> Given {
    in_service().and(asked(drain_then(then)))
}

#[test]
fn stay_is_drained_and_still_draining() {
    given([draining()])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans(["drain proven", "operation succeeded: no work runs", "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated"])
        .stands_in(Phase::Draining);
}

#[test]
fn to_quarantine() {
    given([draining_to(Then::Quarantine)])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Quarantined by 11, stage fault",
            "operation succeeded: no work runs",
            "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated",
        ])
        .after(30 * fleet_schemas::DAY)
        .then_nothing();
}

#[test]
fn to_maintenance() {
    given([draining_to(Then::Maintenance)])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Maintenance by 11",
            "operation succeeded: no work runs",
            "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated",
            "MaintenanceInProgress=True Maintenance",
        ])
        .stands_in(Phase::Maintenance);
}

#[test]
fn the_fault_that_was_asked_for_is_the_cause() {
    given([in_service(), asked(quarantine())])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Quarantined by 11, stage fault, cause GpuFault",
            "operation succeeded: no work runs",
            "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated",
        ])
        .stands_in(Phase::Quarantined);
}

/// Looks at SLURM, and whether each proves that no work runs.
#[test]
fn what_proves_that_no_work_runs() {
    type Row = (&'static str, fn() -> Look, bool);
    let rows: [Row; 17] = [
        ("idle and drained under our mark", || slurm("IDLE+DRAIN").own(), true),
        ("SLURM appended to our mark", || slurm("IDLE+DRAIN").reason("fleet:<task> on purpose : Not responding"), true),
        ("typed with other words behind the mark", || slurm("IDLE+DRAIN").reason("fleet:<task>"), true),
        ("seen nine minutes ago", || slurm("IDLE+DRAIN").own().observed(9 * MINUTE), true),
        ("backfill", || slurm("IDLE+DRAIN").own().observed(11 * MINUTE), false),
        ("not drained", || slurm("IDLE"), false),
        ("jobs run", || slurm("ALLOCATED+DRAIN").own(), false),
        ("part of the CPUs is allocated", || slurm("IDLE+DRAIN").own().alloc(8), false),
        ("an epilog runs", || slurm("COMPLETING+DRAIN+IDLE").own(), false),
        ("down, which is no proof", || slurm("DOWN+DRAIN").own(), false),
        ("somebody else's drain", || slurm("IDLE+DRAIN").reason("admin: memory test"), false),
        ("a drain without reason", || slurm("IDLE+DRAIN"), false),
        ("our mark with a task that is none of ours", || slurm("IDLE+DRAIN").reason("fleet:00000000-0000-0000-0000-000000000001"), false),
        ("our mark not at the beginning", || slurm("IDLE+DRAIN").reason("was fleet:<task>"), false),
        (
            "a new drain that only shows our old reason",
            || slurm("IDLE+DRAIN").own().says(says("SlurmDrainForeign", "True", "ForeignDrain")),
            false,
        ),
        ("not in SLURM", not_in_slurm, false),
        ("its entry cannot be read", unreadable, false),
    ];
    for (name, look, proven) in rows {
        let story = given([draining_to(Then::Quarantine)]).seen(look());
        let expected = if proven { Phase::Quarantined } else { Phase::Draining };
        assert_eq!(story.device().phase, Some(expected), "{name}");
    }
}

#[test]
fn the_first_live_look_that_agrees_confirms_a_backfilled_one() {
    given([draining_to(Then::Quarantine), seen(slurm("IDLE+DRAIN").own().observed(11 * MINUTE))])
        .stands_in(Phase::Draining)
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Phase::Quarantined);
}

#[test]
fn what_keeps_it_back_and_what_lets_it_go_on() {
    let drained_but = |obstacle: Given| given([draining_to(Then::Quarantine), obstacle, drained()]).stands_in(Phase::Draining);
    drained_but(asked(hold("h"))).when(unhold("h")).stands_in(Phase::Quarantined);
    drained_but(meanwhile(goes_stale("slurm"))).reference_changes(is_fresh_again("slurm")).stands_in(Phase::Quarantined);
    drained_but(meanwhile(gives_profile("gpu", profile(Scheduler::Slurm, &[]))))
        .reference_changes(gives_profile("gpu", profile(Scheduler::Slurm, &["slurm-idle"])))
        .stands_in(Phase::Quarantined);
    drained_but(seen(netbox().says(says("IdentityConflict", "True", "SerialShared"))))
        .seen(netbox().says(says("IdentityConflict", "False", "SerialUnique")))
        .stands_in(Phase::Quarantined);
    drained_but(effect(Effect::PreventStateChange));
    drained_but(meanwhile(lags(true))).reference_changes(lags(false)).stands_in(Phase::Quarantined);
    drained_but(somehow(|d| d.owner = fleet_schemas::Owner::Operator));
}

/// Several proofs may stand for a shared machine: all that are named must hold, and one that this build cannot read holds never.
#[test]
fn every_proof_that_is_named_must_hold() {
    let both = gives_profile("gpu", profile(Scheduler::Slurm, &["slurm-idle", "nova-empty"]));
    given([draining_to(Then::Quarantine), meanwhile(both), drained()]).stands_in(Phase::Draining);
}

#[test]
fn a_drain_that_was_proven_can_still_be_redirected() {
    given([draining(), drained()])
        .when(quarantine())
        .then(["operation quarantine of alice", "drain now leads to quarantine, cause GpuFault", "wait drain +7d"])
        .and_plans(["drain proven", "Draining -> Quarantined by 11, stage fault, cause GpuFault", "operation succeeded: no work runs"]);
}
