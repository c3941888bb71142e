//! One look at SLURM comes over the wire as two facts: section `scheduler`, then the conditions. And writers that keep no order.

use crate::dsl::*;

#[test]
fn the_two_halves_of_a_look_say_what_the_whole_says() {
    let whole = given([in_service()]).seen(slurm("IDLE+DRAIN").reason("admin: memory test"));
    let halves = given([in_service()])
        .seen(slurm("IDLE+DRAIN").reason("admin: memory test").section_alone().seq(1, 20))
        .seen(slurm("IDLE+DRAIN").reason("admin: memory test").conditions_alone().seq(1, 20));
    for r#type in ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"] {
        let of = |story: &Story| story.device().condition(r#type).map(|c| (c.status, c.reason.clone()));
        assert_eq!(of(&whole), of(&halves), "{type}");
    }
    assert_eq!(whole.device().scheduler, halves.device().scheduler);
    assert_eq!(whole.device().drain(), halves.device().drain());
}

#[test]
fn the_same_half_again_is_nothing_and_an_older_one_is_late() {
    given([in_service()])
        .seen(slurm("DOWN").section_alone().seq(1, 20))
        .then_accepted()
        .seen(slurm("DOWN").conditions_alone().seq(1, 20))
        .then_accepted()
        .seen(slurm("DOWN").section_alone().seq(1, 20))
        .then_nothing()
        .seen(slurm("DOWN").conditions_alone().seq(1, 20))
        .then_nothing()
        .seen(slurm("IDLE").conditions_alone().seq(1, 19))
        .then_noted("late");
}

#[test]
fn a_drain_under_a_mark_that_is_no_plan_is_foreign_by_the_halves_too() {
    let reason = "fleet:00000000-0000-4000-8000-000000000001 somebody typed this";
    given([in_service()])
        .seen(slurm("IDLE+DRAIN").reason(reason).section_alone().seq(1, 20))
        .seen(slurm("IDLE+DRAIN").reason(reason).conditions_alone().seq(1, 20))
        .says_of_itself("SlurmDrainForeign", "True UnknownMark");
}

#[test]
fn writers_without_order_are_ordered_by_arrival_and_set_nobody_back() {
    given([in_service()])
        .seen(slurm("DOWN").seq(3, 7))
        .then_accepted()
        .seen(slurm("IDLE").conditions_alone().by_arrival())
        .says_of_itself("SlurmSchedulable", "True Idle")
        .seen(slurm("DOWN").conditions_alone().by_arrival())
        .says_of_itself("SlurmSchedulable", "False Down")
        .seen(slurm("IDLE").seq(3, 6))
        .then_noted("late");
}

#[test]
fn a_half_of_another_node_or_site_is_kept_without_effect() {
    given([in_service()]).seen(slurm("DOWN").node("gpu99").section_alone()).then_noted("identity-mismatch");
    given([in_service()]).seen(slurm("DOWN").section_alone().by("fra1")).then_noted("wrong-site");
    given([in_service()]).seen(slurm("DOWN").conditions_alone().by("fra1")).then_noted("wrong-site");
}

/// What the gateway let through is asked again when it is decided.
#[test]
fn what_lies_beyond_its_senders_reach_is_kept_without_effect() {
    given([in_service()]).seen_by(slurm("DOWN"), &["fra1"]).then_noted("out-of-reach");
    given([in_service()]).seen_by(slurm("DOWN").conditions_alone(), &[]).then_noted("out-of-reach");
    given([in_service()]).seen_by(netbox().status("failed"), &["fra1"]).then_noted("out-of-reach");
    given([in_service()]).seen_by(slurm("DOWN"), &["fra1", "lhr1"]).then_accepted();
}
