//! Which reports count: in the source's order, live or forwarded, each once.

use crate::dsl::*;
use fleet_schemas::{HOUR, MINUTE, SECOND, Status};

fn times(story: &Story, r#type: &str) -> (i64, i64) {
    let c = story.device().condition(r#type).unwrap();
    (c.observed_at.since(START) / SECOND, c.last_transition_at.since(START) / SECOND)
}

#[test]
fn written_only_on_change() {
    given([discovered()])
        .seen(slurm("IDLE"))
        .then_nothing()
        .seen(slurm("DOWN"))
        .then(["scheduler DOWN 0/64", "SlurmSchedulable=False Down"])
        .seen(slurm("DOWN"))
        .then_nothing();
}

#[test]
fn another_reason_is_a_change_and_no_transition() {
    let story = given([discovered(), seen(slurm("DOWN"))]);
    assert_eq!(times(&story, "SlurmSchedulable"), (3, 3));
    let story = story.seen(slurm("IDLE+RESERVED")).then(["scheduler IDLE+RESERVED 0/64", "SlurmSchedulable=False Reserved"]);
    assert_eq!(times(&story, "SlurmSchedulable"), (4, 3), "seen again, since the same time");
    let story = story.seen(slurm("IDLE"));
    assert_eq!(times(&story, "SlurmSchedulable"), (5, 5));
}

/// Field report 6: source_seq 2, then 1.
#[test]
fn a_late_report_is_kept_without_effect() {
    let story = given([discovered()]).seen(slurm("DOWN").seq(1, 20)).seen(slurm("IDLE").seq(1, 19)).then_noted("late");
    assert_eq!(times(&story, "SlurmSchedulable"), (3, 3), "no transition");
    story.says_of_itself("SlurmSchedulable", "False Down").seen(slurm("IDLE").seq(1, 21)).says_of_itself("SlurmSchedulable", "True Idle");
}

#[test]
fn a_repeated_delivery_is_nothing_at_all() {
    given([discovered()]).seen(slurm("DOWN").seq(1, 20)).seen(slurm("DOWN").seq(1, 20)).then_nothing();
    given([discovered()]).seen(netbox().status("failed").seq(1, 20)).seen(netbox().status("active").seq(1, 20)).then_nothing();
}

#[test]
fn a_later_run_of_the_agent_is_later_whatever_it_counts() {
    given([discovered()])
        .seen(slurm("DOWN").seq(2, 1))
        .then_accepted()
        .seen(slurm("IDLE").seq(1, 999))
        .then_noted("late")
        .seen(slurm("IDLE").seq(3, 0))
        .says_of_itself("SlurmSchedulable", "True Idle");
}

#[test]
fn each_source_has_its_own_order() {
    given([discovered()])
        .seen(slurm("DOWN").seq(7, 70))
        .then_accepted()
        .seen(netbox().status("failed").seq(1, 20))
        .then(["inventory: status"]);
}

#[test]
fn a_forwarded_look_is_not_confirmed_and_a_live_one_that_agrees_confirms_it() {
    let story = given([discovered()])
        .seen(slurm("DOWN").observed(6 * HOUR))
        .then(["scheduler DOWN 0/64", "SlurmSchedulable=False Down (backfill)"]);
    let believed = |story: &Story| story.device().believed("SlurmSchedulable", &story.run.reference);
    assert_eq!(believed(&story), Status::Unknown);
    let since = story.device().condition("SlurmSchedulable").unwrap().last_transition_at;
    let story = story.seen(slurm("DOWN").observed(5 * HOUR)).then_nothing().seen(slurm("DOWN")).then(["SlurmSchedulable=False Down"]);
    assert_eq!(believed(&story), Status::False);
    assert_eq!(story.device().condition("SlurmSchedulable").unwrap().last_transition_at, since, "it was so then already");
}

#[test]
fn ten_minutes_are_the_limit() {
    given([discovered()]).seen(slurm("DOWN").observed(10 * MINUTE)).then(["scheduler DOWN 0/64", "SlurmSchedulable=False Down"]);
    given([discovered()])
        .seen(slurm("DOWN").observed(10 * MINUTE + 1))
        .then(["scheduler DOWN 0/64", "SlurmSchedulable=False Down (backfill)"]);
}

#[test]
fn unknown_is_what_is_absent_stale_or_seen_elsewhere() {
    let believed = |story: Story| story.device().believed("SlurmSchedulable", &story.run.reference);
    assert_eq!(believed(given([seen(netbox())])), Status::Unknown);
    assert_eq!(believed(given([discovered()])), Status::True);
    assert_eq!(believed(given([discovered(), meanwhile(goes_stale("slurm"))])), Status::Unknown);
    assert_eq!(believed(given([discovered(), meanwhile(goes_stale("slurm")), meanwhile(is_fresh_again("slurm"))])), Status::True);
    assert_eq!(believed(given([discovered(), seen(netbox().site("ams1"))])), Status::Unknown);
    assert_eq!(believed(given([discovered(), seen(unreadable())])), Status::Unknown);
}

#[test]
fn only_the_agent_of_the_devices_site_speaks_of_it() {
    given([discovered()]).seen(slurm("DOWN").by("ams1")).then_noted("wrong-site");
    given([discovered(), seen(netbox().site("ams1"))]).seen(slurm("DOWN").by("lhr1")).then_noted("wrong-site");
    given([]).seen(slurm("IDLE").by("lhr1")).then_noted("wrong-site");
}

#[test]
fn only_the_node_that_the_device_is_linked_to_speaks_of_it() {
    given([discovered()]).seen(slurm("DOWN").node("gpu02")).then_noted("identity-mismatch");
    given([discovered(), seen(netbox().with(|i| i.slurm_node = None))]).seen(slurm("DOWN").node("gpu01")).then_noted("identity-mismatch");
    given([discovered(), seen(netbox().node("gpu02"))]).seen(slurm("DOWN")).then_accepted();
}

#[test]
fn what_is_said_of_a_site_is_not_said_of_a_device() {
    let swept = || sweep(source("slurm")).by("lhr1");
    given([discovered()]).seen(swept()).then_noted("wrong-stream");
    given([discovered()]).seen(fails(source("slurm"), fleet_schemas::LookFault::NoData).by("lhr1")).then_noted("wrong-stream");
    given_site([happened_at_site(fleet_schemas::SiteRegistered { sources: sources() })])
        .seen(netbox().by("lhr1"))
        .then_noted("wrong-stream");
}
