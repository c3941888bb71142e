//! Freshness: only flips are events. Never looked = stale; silent for three intervals = stale; some faults, at once.

use super::registered;
use crate::dsl::*;
use fleet_lifecycle::Reference;
use fleet_schemas::{LookFault, MINUTE, SECOND};

fn slurm_is(story: &Story) -> &'static str {
    let mut reference = Reference::default();
    reference.sites.insert(at("lhr1"), story.run.entity.site().unwrap().clone());
    if reference.fresh(&at("lhr1"), source("slurm")) { "fresh" } else { "stale" }
}

fn swept() -> Look {
    sweep(source("slurm"))
}

fn fresh() -> Given {
    registered().and(seen(swept()))
}

#[test]
fn never_looked_is_stale_and_waits_for_nothing() {
    let story = given_site([registered()]);
    assert_eq!(slurm_is(&story), "stale");
    assert_eq!(story.run.next_wait(), None);
    assert_eq!(slurm_is(&given_site([])), "stale");
}

#[test]
fn the_first_complete_look_makes_it_fresh_and_the_next_say_nothing() {
    let story = given_site([registered()]).seen(swept()).then(["slurm fresh, looked +0s"]).and_plans(nothing());
    assert_eq!(slurm_is(&story), "fresh");
    story.after(MINUTE).then_nothing().seen(swept()).then_nothing().seen(sweep(source("netbox"))).then(["netbox fresh, looked +0s"]);
}

#[test]
fn three_intervals_of_silence_make_it_stale_once() {
    let story = given_site([fresh()])
        .after(3 * MINUTE - SECOND)
        .then_nothing()
        .after(SECOND)
        .then(["slurm stale, looked -3m"])
        .after(60 * MINUTE)
        .then_nothing();
    assert_eq!(slurm_is(&story), "stale");
    assert_eq!(story.site().sources[&source("slurm")].problem, "no complete look for 3 intervals of 60 s");
    story.seen(swept()).then(["slurm fresh, looked +0s"]).after(3 * MINUTE).then(["slurm stale, looked -3m"]);
}

#[test]
fn each_look_gives_it_three_intervals_more() {
    given_site([fresh(), after(2 * MINUTE), seen(swept())])
        .after(2 * MINUTE)
        .then_nothing()
        .seen(swept())
        .after(3 * MINUTE - SECOND)
        .then_nothing()
        .after(SECOND)
        .then(["slurm stale, looked -3m"]);
}

#[test]
fn a_look_that_arrives_late_takes_nothing_back() {
    let story = given_site([fresh(), after(MINUTE), seen(swept())]);
    let due = story.run.next_wait();
    assert_eq!(story.seen(swept().observed(2 * MINUTE)).run.next_wait(), due);
}

/// Each source by its own clock, and the soonest is asked first.
#[test]
fn sources_fall_silent_one_by_one() {
    given_site([fresh(), after(MINUTE), seen(sweep(source("netbox")))])
        .after(2 * MINUTE)
        .then(["slurm stale, looked -3m"])
        .after(2 * MINUTE)
        .then(["netbox stale, looked -3m"]);
}

#[test]
fn failing_looks_are_told_once_and_silence_is_what_makes_it_stale() {
    for fault in [LookFault::NoData, LookFault::ControllerDown] {
        let failing = format!("looks at slurm fail: {}", fault.as_str());
        let stale = format!("slurm stale, looked -3m, fault {}", fault.as_str());
        let story =
            given_site([fresh()]).seen(fails(source("slurm"), fault)).then([&failing]).seen(fails(source("slurm"), fault)).then_nothing();
        assert_eq!(slurm_is(&story), "fresh");
        let story = story.after(3 * MINUTE).then([&stale]);
        assert_eq!(story.site().sources[&source("slurm")].problem, format!("{fault:?}"));
        story.seen(fails(source("slurm"), fault)).then_nothing().seen(swept()).then(["slurm fresh, looked +0s"]);
    }
    given_site([fresh(), seen(fails(source("slurm"), LookFault::NoData))])
        .seen(fails(source("slurm"), LookFault::ControllerDown))
        .then(["looks at slurm fail: ControllerDown"])
        .seen(swept())
        .then(["looks at slurm fail: no more"])
        .seen(swept())
        .then_nothing();
}

/// Nothing fresh can come before a person acts.
#[test]
fn a_definite_fault_makes_it_stale_at_once() {
    for fault in [LookFault::TokenExpired, LookFault::ApiTooOld] {
        let stale = format!("slurm stale, looked -1s, fault {}", fault.as_str());
        let story = given_site([fresh()]).seen(fails(source("slurm"), fault)).then([&stale]);
        assert_eq!(slurm_is(&story), "stale");
        let story = story.seen(fails(source("slurm"), fault)).then_nothing().after(10 * MINUTE).then_nothing();
        story
            .seen(fails(source("slurm"), LookFault::NoData))
            .then(["looks at slurm fail: NoData"])
            .seen(swept())
            .then(["slurm fresh, looked +0s"]);
    }
}

#[test]
fn a_site_that_was_never_looked_at_says_why() {
    let story = given_site([registered()])
        .seen(fails(source("slurm"), LookFault::TokenExpired))
        .then(["looks at slurm fail: TokenExpired"])
        .seen(fails(source("slurm"), LookFault::TokenExpired))
        .then_nothing();
    assert_eq!((slurm_is(&story), story.site().sources[&source("slurm")].problem.as_str()), ("stale", "TokenExpired"));
}

/// Kept beside the fold: of no consequence for what a read model or an audit holds.
#[test]
fn looks_are_no_part_of_the_state() {
    let before = given_site([fresh()]);
    let after = before.clone().seen(swept());
    assert_eq!(before.run.entity, after.run.entity);
    assert_ne!(before.run.next_wait(), after.run.next_wait());
}

#[test]
fn a_wait_for_a_look_that_came_or_for_no_source_of_ours_leads_to_nothing() {
    use fleet_lifecycle::Wait;
    use fleet_schemas::WaitKind::Look;
    for name in ["slurm", "netbox", "ironic", ""] {
        let mut story = given_site([fresh()]);
        assert_eq!(story.run.expire(&Wait { kind: Look, name: name.into() }).events, vec![], "{name}");
    }
}

/// What waited in a satellite's outbox for longer than ten minutes does not speak of now.
#[test]
fn an_old_look_makes_nothing_fresh() {
    let story = given_site([registered()]).seen(swept().observed(11 * MINUTE)).then_noted("not-live");
    assert_eq!(slurm_is(&story), "stale");
}
