//! What is planned beside the edges: plans are asked for once, done when seen, withdrawn when not wanted.

use crate::dsl::*;
use fleet_schemas::{MINUTE, Scheduler};

#[test]
fn an_undrain_is_planned_for_our_own_drain_alone() {
    given([in_service()]).seen(slurm("IDLE+DRAIN").reason("admin: memory test")).and_plans(nothing());
    given([in_service()]).seen(slurm("IDLE+DRAIN").reason("fleet:00000000-0000-0000-0000-000000000001")).and_plans(nothing());
    given([in_service()]).seen(slurm("IDLE+DRAIN")).and_plans(nothing());
    given([draining(), drained(), asked(resume()), seen(slurm("IDLE"))])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans(["planned slurm-undrain of gpu01 \"fleet:<drain>\" for the device is in service"])
        .seen(slurm("ALLOCATED+DRAIN").own())
        .and_plans(nothing());
}

#[test]
fn a_plan_stays_until_its_effect_is_seen() {
    given([draining()])
        .seen(slurm("ALLOCATED"))
        .and_plans(nothing())
        .after(MINUTE)
        .has_open_plans(["slurm-drain of gpu01"])
        .seen(slurm("ALLOCATED+DRAIN").own())
        .and_plans(["done slurm-drain: ALLOCATED+DRAIN with 64 of 64 CPUs allocated"])
        .has_open_plans([]);
}

#[test]
fn a_node_that_slurm_does_not_have_is_not_drained() {
    given([in_service(), seen(not_in_slurm())])
        .when(drain())
        .and_plans(nothing())
        .seen(slurm("IDLE"))
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"]);
}

#[test]
fn a_device_without_link_has_no_node_to_drain() {
    given([in_service()]).seen(netbox().with(|i| i.slurm_node = None)).then(["inventory: slurm_node"]).when(drain()).and_plans(nothing());
    given([ready_without_slurm()]).when(maintain()).and_plans(["MaintenanceInProgress=True Maintenance"]);
}

#[test]
fn what_a_profile_no_longer_has_is_planned_no_more() {
    given([in_service(), meanwhile(gives_profile("gpu", profile(Scheduler::None, &[])))]).when(drain()).and_plans(nothing());
}

#[test]
fn a_plan_is_made_behind_a_change_of_the_reference_too() {
    given([in_service(), meanwhile(goes_stale("slurm"))])
        .when(drain())
        .and_plans(nothing())
        .reference_changes(is_fresh_again("slurm"))
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"])
        .reference_changes(goes_stale("netbox"))
        .then_nothing();
}

#[test]
fn a_take_over_plans_nothing_anew() {
    given([draining()]).taken_over().then_nothing();
    given([ready(), asked(activate())]).taken_over().then_nothing();
}
