//! Edge 10b: Draining → InService.

use crate::dsl::*;
use fleet_schemas::{DAY, Effect, Phase, Then};

#[test]
fn back_into_service_and_our_own_drain_is_to_be_lifted() {
    given([draining(), seen(slurm("ALLOCATED+DRAIN").own())])
        .when(resume())
        .then([
            "operation cancelled: `resume` took its place",
            "operation resume of alice, until +15m",
            "Draining -> InService by 10b",
            "wait schedulable +15m",
        ])
        .and_plans([
            "withdrawn slurm-drain: the device is back in service",
            "planned slurm-undrain of gpu01 \"fleet:<drain>\" for the device is in service",
        ])
        .seen(slurm("ALLOCATED"))
        .and_plans(["operation succeeded: SLURM would start a fitting job", "done slurm-undrain: ALLOCATED with 64 of 64 CPUs allocated"]);
}

#[test]
fn a_plan_that_nobody_followed_is_withdrawn() {
    given([draining()])
        .when(resume())
        .then([
            "operation cancelled: `resume` took its place",
            "operation resume of alice, until +15m",
            "Draining -> InService by 10b",
            "wait schedulable +15m",
        ])
        .and_plans(["operation succeeded: SLURM would start a fitting job", "withdrawn slurm-drain: the device is back in service"])
        .has_open_plans([]);
}

#[test]
fn what_the_drain_was_for_is_forgotten() {
    let story = given([in_service(), asked(quarantine())]).when(resume()).stands_in(Phase::InService);
    let device = story.device();
    assert_eq!((device.then, &device.cause, device.stage), (None, &None, None));
    story.after(8 * DAY).then_nothing();
}

#[test]
fn attention_ends_with_it() {
    given([in_service(), asked(drain_then(Then::Quarantine)), after(8 * DAY)])
        .has_attention(["drain"])
        .when(resume())
        .has_attention([])
        .stands_in(Phase::InService);
}

#[test]
fn a_foreign_drain_is_its_owners_to_lift() {
    given([draining(), seen(slurm("ALLOCATED+DRAIN").reason("admin: memory test"))]).when(resume()).then_refused("foreign-drain").because(
        "no drain but our own",
        "drained by root since 2026-01-01T00:00:05.000000Z \"admin: memory test\"",
        "its owner lifts it in SLURM",
    );
    given([draining(), seen(slurm("DOWN+DRAIN"))]).when(resume()).then_refused("foreign-drain");
}

#[test]
fn what_must_leave_service_does_not_come_back() {
    for forbids in [Effect::RequireDrain, Effect::Fatal, Effect::PreventAllocation, Effect::PreventStateChange] {
        given([draining(), effect(forbids)]).when(resume()).then_refused("effect-forbids").because(
            &format!("no condition with {forbids}"),
            "TestProblem is True: it is so",
            "end the condition",
        );
    }
    given([draining(), effect(Effect::PreventAutoAction)]).when(resume()).then_accepted();
}

#[test]
fn only_from_draining() {
    given([in_service()]).when(resume()).then_refused("phase-forbids").because("Draining", "InService", "drain, quarantine, maintain");
    given([in_service(), asked(drain_then(Then::Quarantine)), drained()]).when(resume()).then_refused("phase-forbids");
}
