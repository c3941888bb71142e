//! Edge 9: Ready → InService.

use crate::dsl::*;
use fleet_schemas::{Effect, Phase};

#[test]
fn in_service_from_the_moment_it_is_asked_for() {
    given([ready()])
        .when(activate())
        .then(["operation activate of alice, until +15m", "Ready -> InService by 9", "wait schedulable +15m"])
        .and_plans([
            "withdrawn slurm-drain: the device is back in service",
            "planned slurm-undrain of gpu01 \"fleet:<drain>\" for the device is in service",
        ])
        .stands_in(Phase::InService);
}

#[test]
fn it_has_succeeded_when_slurm_would_start_a_job() {
    given([ready(), asked(activate())])
        .seen(slurm("IDLE"))
        .then(["scheduler IDLE 0/64", "SlurmSchedulable=True Idle", "SlurmDrained=False NotDrained", "SlurmDrainForeign=False NotDraining"])
        .and_plans(["operation succeeded: SLURM would start a fitting job", "done slurm-undrain: IDLE with 0 of 64 CPUs allocated"])
        .has_open_plans([])
        .after(8 * fleet_schemas::DAY)
        .then_nothing();
}

#[test]
fn a_backfilled_look_is_no_success() {
    given([ready(), asked(activate())])
        .seen(slurm("IDLE").observed(11 * fleet_schemas::MINUTE))
        .then([
            "scheduler IDLE 0/64",
            "SlurmSchedulable=True Idle (backfill)",
            "SlurmDrained=False NotDrained (backfill)",
            "SlurmDrainForeign=False NotDraining (backfill)",
        ])
        .runs("activate")
        .seen(slurm("IDLE"))
        .then(["SlurmSchedulable=True Idle", "SlurmDrained=False NotDrained", "SlurmDrainForeign=False NotDraining"])
        .runs("nothing");
}

#[test]
fn without_scheduler_there_is_nothing_to_wait_for() {
    given([ready_without_slurm()])
        .when(activate())
        .then(["operation activate of alice, until +15m", "Ready -> InService by 9", "wait schedulable +15m"])
        .and_plans(["operation succeeded: no scheduler to wait for"])
        .after(fleet_schemas::DAY)
        .then_nothing();
}

#[test]
fn our_own_reservation_is_to_be_lifted_and_no_other() {
    let reserved = |by: String| given([ready()]).seen(slurm("IDLE+RESERVED").reservation(by));
    reserved(format!("fleet-{}", device_id()))
        .when(activate())
        .and_plans([
            "withdrawn slurm-drain: the device is back in service",
            &format!("planned slurm-unreserve of gpu01 \"fleet-{}\" for the device is in service", device_id()),
        ])
        .seen(slurm("IDLE"))
        .and_plans(["operation succeeded: SLURM would start a fitting job", "done slurm-unreserve: IDLE with 0 of 64 CPUs allocated"]);
    reserved("maint-2026".into()).when(activate()).and_plans(["withdrawn slurm-drain: the device is back in service"]);
}

#[test]
fn a_condition_that_prevents_allocation_refuses_it() {
    given([ready(), effect(Effect::PreventAllocation)]).when(activate()).then_refused("effect-forbids").because(
        "no condition with PreventAllocation",
        "TestProblem is True: it is so",
        "end the condition",
    );
    given([ready(), effect(Effect::PreventAutoAction), effect(Effect::RequireDrain)]).when(activate()).then_accepted();
}

#[test]
fn a_foreign_drain_refuses_it() {
    given([ready()]).seen(slurm("IDLE+DRAIN").reason("admin: memory test")).when(activate()).then_refused("foreign-drain").because(
        "no drain but our own",
        "drained by root since 2026-01-01T00:00:06.000000Z \"admin: memory test\"",
        "its owner lifts it in SLURM",
    );
}

#[test]
fn only_a_ready_device_is_activated() {
    given([in_service()]).when(activate()).then_refused("phase-forbids").because("Ready", "InService", "drain, quarantine, maintain");
    given([quarantined()]).when(activate()).then_refused("phase-forbids").because("Ready", "Quarantined", "validate, maintain");
}
