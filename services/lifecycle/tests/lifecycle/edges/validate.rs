//! Edges 12v and 7: out of Quarantined through Validating, and on where the profile asks for no suite.

use crate::dsl::*;
use fleet_lifecycle::Reference;
use fleet_schemas::{Phase, RoleProfile, Scheduler, Stage};

#[test]
fn passed_through_with_a_word_for_each_stage_that_was_not_tested() {
    let story = given([quarantined(), drained()]).when(validate()).then(["Quarantined -> Validating by 12v"]).and_plans([
        "skipped validate: the role profile names no suite",
        "skipped burn-in: the role profile names no suite",
        "Validating -> Ready by 7",
    ]);
    assert_eq!(story.device().untested.iter().map(|s| s.as_str()).collect::<Vec<_>>(), ["validate", "burn-in"]);
    assert_eq!((story.device().stage, &story.device().cause), (None, &None));
}

#[test]
fn nobody_proves_for_a_machine_that_work_may_run_on() {
    let refused = |fact: Given| given([quarantined(), fact]).when(validate()).then_refused("work-not-excluded");
    let expected = "slurm-idle: IDLE+DRAIN under our own mark, no CPU allocated";
    let story = given([quarantined()]);
    let (id, task) = story.device().tasks.iter().next().unwrap();
    let helps = format!("scontrol update nodename=gpu01 state=drain reason=\"fleet:{id} Baseline\"");
    assert_eq!(task.mark, format!("fleet:{id} Baseline"));
    story.when(validate()).then_refused("work-not-excluded").because(expected, "the node is not drained", &helps);
    refused(seen(slurm("IDLE+DRAIN").reason("admin: x"))).because(
        expected,
        "drained by root since 2026-01-01T00:00:04.000000Z \"admin: x\"",
        "its owner lifts it in SLURM; ours is set after that",
    );
    refused(seen(slurm("ALLOCATED+DRAIN").own())).because(
        expected,
        "ALLOCATED+DRAIN with 64 of 64 CPUs allocated",
        "wait for the running SLURM jobs to end",
    );
    refused(seen(slurm("DOWN+DRAIN").own()));
    refused(seen(slurm("COMPLETING+DRAIN+IDLE").own()));
    refused(seen(slurm("IDLE+DRAIN").own().observed(fleet_schemas::HOUR)));
    refused(seen(not_in_slurm()));
}

#[test]
fn a_profile_without_proof_proves_nothing() {
    let none = gives_profile("gpu", profile(Scheduler::Slurm, &[]));
    given([quarantined(), drained(), meanwhile(none)]).when(validate()).then_refused("no-workload-proof").because(
        "a proof that no work runs",
        "the role profile names none",
        "name a workload proof in the role profile",
    );
    let unknown = gives_profile("gpu", profile(Scheduler::Slurm, &["slurm-idle", "nova-empty"]));
    given([quarantined(), drained(), meanwhile(unknown)]).when(validate()).then_refused("not-available");
}

#[test]
fn the_failed_stage_says_where_it_leads() {
    use Stage::*;
    for stage in Stage::ALL {
        let story =
            given([discovered(), put(Phase::Quarantined, Some(*stage)), asked(hold("h")), drained(), asked(unhold("h"))]).when(validate());
        match stage {
            Validate | BurnIn | Activate | Fault => {
                story.stands_in(Phase::Ready);
            }
            Enrol | Provision | Adopt | Decommission => {
                story.then_refused("phase-forbids").because(
                    "a stage that leads to Validating",
                    stage.as_str(),
                    "repeat the stage that failed",
                );
            }
        }
    }
}

#[test]
fn only_from_quarantined() {
    given([in_service()]).when(validate()).then_refused("phase-forbids").because("Quarantined", "InService", "drain, quarantine, maintain");
}

fn with_suite(change: fn(&mut RoleProfile)) -> Change {
    Box::new(move |reference: &mut Reference, now| {
        let mut with = profile(Scheduler::Slurm, &["slurm-idle"]);
        change(&mut with);
        gives_profile("gpu", with)(reference, now);
    })
}

/// A stage that is named and never runs would be a lie.
#[test]
fn a_suite_that_is_named_is_not_passed_through() {
    for change in [|p: &mut RoleProfile| p.validation = Some("hpl@3".into()), |p: &mut RoleProfile| p.burn_in = Some("soak@1".into())] {
        given([quarantined(), drained(), meanwhile(with_suite(change))])
            .when(validate())
            .then(["Quarantined -> Validating by 12v"])
            .and_plans(nothing())
            .reference_changes(with_suite(|_| ()))
            .stands_in(Phase::Ready);
    }
}

#[test]
fn what_keeps_validating_back() {
    let validating = |obstacle: Given| {
        given([discovered(), obstacle, put(Phase::Validating, None)]).reference_changes(gives_profile("x", profile(Scheduler::None, &[])))
    };
    validating(meanwhile(lags(true))).stands_in(Phase::Validating);
    validating(asked(hold("h"))).stands_in(Phase::Validating).when(unhold("h")).stands_in(Phase::Ready);
    validating(seen(netbox().says(says("IdentityConflict", "True", "SerialShared"))))
        .stands_in(Phase::Validating)
        .seen(netbox())
        .stands_in(Phase::Ready);
}
