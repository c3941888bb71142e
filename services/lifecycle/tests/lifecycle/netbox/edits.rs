//! A person's edit becomes the command that it maps to, with that person as actor; anything else is drift and waits for a person.

use crate::dsl::*;
use fleet_schemas::Phase::{Discovered, Draining, InService, Maintenance, Quarantined, Ready};
use fleet_schemas::{DeviceEvent, Event, Phase, Stage};
use std::collections::BTreeSet;

fn edited(before: Given, field: &'static str, from: &'static str, to: &'static str) -> Story {
    given([before]).seen(netbox().edit(100, field, from, to))
}

#[test]
fn failed_is_quarantine_by_whoever_set_it() {
    edited(in_service(), "status", "active", "failed")
        .then([
            "inventory: status",
            "operation quarantine of netbox:carol",
            "InService -> Draining by 12, then quarantine, cause NetboxStatusFailed",
            "wait drain +7d",
            "edit by carol: status: active -> failed: quarantine accepted",
        ])
        .and_plans([
            "planned slurm-drain of gpu01 \"fleet:<task> status active -> failed in NetBox\" for status active -> failed in NetBox",
        ])
        .says_of_itself("NetboxLifecycleDrift", "absent");
}

/// Phase, edit of the status, verb, result, phase after, drift.
#[test]
fn the_map() {
    type Row = (fn() -> Given, Phase, &'static str, &'static str, Phase, &'static str);
    let rows: [Row; 16] = [
        (in_service, InService, "failed", "quarantine accepted", Draining, "absent"),
        (ready, Ready, "failed", "quarantine accepted", Quarantined, "absent"),
        (draining, Draining, "failed", "quarantine accepted", Draining, "absent"),
        (in_maintenance, Maintenance, "failed", "quarantine accepted", Quarantined, "absent"),
        (in_service, InService, "offline", "drain accepted", Draining, "absent"),
        (ready, Ready, "offline", "maintain accepted", Maintenance, "absent"),
        (|| quarantined().and(drained()), Quarantined, "offline", "maintain accepted", Maintenance, "absent"),
        (draining, Draining, "offline", "maintain phase-forbids", Draining, "True Refused"),
        (|| in_service().and(seen(netbox().status("staged"))), InService, "active", "agrees", InService, "absent"),
        (in_maintenance, Maintenance, "active", "unmapped", Maintenance, "True Unmapped"),
        (quarantined, Quarantined, "active", "unmapped", Quarantined, "True Unmapped"),
        (in_service, InService, "decommissioning", "decommission not-available", InService, "True Refused"),
        (in_service, InService, "staged", "unmapped", InService, "True Unmapped"),
        (in_service, InService, "planned", "unmapped", InService, "True Unmapped"),
        (in_service, InService, "broken", "unmapped", InService, "True Unmapped"),
        (discovered, Discovered, "failed", "no-phase-yet", Discovered, "absent"),
    ];
    for (before, phase, status, result, after, drift) in rows {
        let story = given([before()]).stands_in(phase);
        let was: &'static str = story.device().inventory.as_ref().unwrap().status.clone().leak();
        let story = story.seen(netbox().edit(100, "status", was, status));
        let judged = format!("edit by carol: status: {was} -> {status}: {result}");
        assert!(story.in_words().contains(&judged), "{phase}, {status}: {:?}", story.in_words());
        story.stands_in(after).says_of_itself("NetboxLifecycleDrift", drift);
    }
}

#[test]
fn offline_in_service_leads_to_maintenance() {
    edited(in_service(), "status", "active", "offline")
        .then([
            "inventory: status",
            "operation drain of netbox:carol",
            "InService -> Draining by 10, then maintenance",
            "wait drain +7d",
            "edit by carol: status: active -> offline: drain accepted",
        ])
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Maintenance)
        .says_of_itself("NetboxLifecycleDrift", "absent");
}

#[test]
fn what_is_refused_is_drift_with_the_code() {
    let story = edited(draining(), "status", "active", "offline");
    let drift = story.device().condition("NetboxLifecycleDrift").unwrap();
    assert_eq!(drift.message, "carol set status: active -> offline in NetBox: phase-forbids");
}

#[test]
fn fleet_phase_is_ours_to_write() {
    edited(in_service(), "fleet_phase", "", "Ready")
        .then(["inventory: fleet_phase", "edit by carol: fleet_phase: -> Ready: unmapped", "NetboxLifecycleDrift=True Unmapped"])
        .and_plans(nothing())
        .stands_in(InService);
    edited(in_service(), "fleet_phase", "Ready", "InService")
        .then(["inventory: fleet_phase", "edit by carol: fleet_phase: Ready -> InService: agrees"])
        .says_of_itself("NetboxLifecycleDrift", "absent");
}

#[test]
fn before_there_is_a_phase_an_edit_is_noted_and_no_more() {
    edited(discovered(), "status", "active", "offline")
        .then(["inventory: status", "edit by carol: status: active -> offline: no-phase-yet"])
        .stands_in(Discovered);
    let story = edited(seen(netbox().role("storage")), "fleet_phase", "", "Ready");
    story.then(["inventory: fleet_phase", "edit by carol: fleet_phase: -> Ready: no-phase-yet"]);
}

#[test]
fn each_edit_is_judged_once() {
    given([in_service(), seen(netbox().edit(100, "status", "active", "staged")), asked(accept_drift())])
        .seen(netbox().edit(100, "status", "active", "staged"))
        .then_nothing()
        .seen(netbox().edit(99, "status", "active", "staged"))
        .then_nothing()
        .seen(netbox().edit(101, "status", "staged", "planned"))
        .then(["inventory: status", "edit by carol: status: staged -> planned: unmapped", "NetboxLifecycleDrift=True Unmapped"]);
}

#[test]
fn two_edits_in_one_look_are_two_operations() {
    let story = given([in_service()]).seen(netbox().edit(100, "status", "active", "offline").edit(101, "status", "offline", "failed"));
    let operations: BTreeSet<_> = story
        .came()
        .all()
        .filter_map(|e| match e {
            Event::Device(DeviceEvent::OperationStarted(e)) => Some(e.operation),
            _ => None,
        })
        .collect();
    assert_eq!(operations.len(), 2);
}

#[test]
fn edits_are_judged_oldest_first() {
    given([in_service()])
        .seen(netbox().edit(100, "status", "active", "staged").edit(101, "status", "staged", "failed"))
        .then([
            "inventory: status",
            "edit by carol: status: active -> staged: unmapped",
            "NetboxLifecycleDrift=True Unmapped",
            "operation quarantine of netbox:carol",
            "InService -> Draining by 12, then quarantine, cause NetboxStatusFailed",
            "wait drain +7d",
            "edit by carol: status: staged -> failed: quarantine accepted",
        ])
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Quarantined)
        .says_of_itself("NetboxLifecycleDrift", "False Agrees");
}

#[test]
fn drift_clears_when_the_values_agree_again() {
    let drifting = || edited(in_service(), "status", "active", "staged").says_of_itself("NetboxLifecycleDrift", "True Unmapped");
    drifting().seen(netbox().edit(101, "status", "staged", "active")).and_plans(["NetboxLifecycleDrift=False Agrees"]);
    drifting().seen(netbox().status("active")).and_plans(["NetboxLifecycleDrift=False Agrees"]);
    drifting().seen(netbox().status("planned")).and_plans(nothing());
    // Also when it is the phase that comes round.
    edited(draining(), "status", "active", "failed")
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Quarantined)
        .says_of_itself("NetboxLifecycleDrift", "absent");
    edited(in_service(), "fleet_phase", "", "Draining")
        .when(drain())
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose", "NetboxLifecycleDrift=False Agrees"]);
}

#[test]
fn a_person_can_accept_it_as_it_stands() {
    edited(in_service(), "status", "active", "staged")
        .when(accept_drift())
        .then(["drift accepted by alice: staged", "NetboxLifecycleDrift=False Accepted"])
        .and_plans(nothing())
        .seen(netbox().with(|i| i.rack = None))
        .then(["inventory: rack"])
        .and_plans(nothing())
        .when(accept_drift())
        .then_refused("no-drift")
        .because("a NetBox edit that stands against the lifecycle", "none", "nothing is to be accepted");
    given([in_service()]).when(accept_drift()).then_refused("no-drift");
    let another = fleet_schemas::Annotate { kind: "retire".into() };
    edited(in_service(), "status", "active", "staged").when(another).then_refused("no-drift");
}

#[test]
fn an_edit_after_it_is_drift_again() {
    edited(in_service(), "status", "active", "staged").when(accept_drift()).seen(netbox().edit(101, "status", "staged", "planned")).then([
        "inventory: status",
        "edit by carol: status: staged -> planned: unmapped",
        "NetboxLifecycleDrift=True Unmapped",
    ]);
    // Also one that sets what was accepted before.
    edited(in_service(), "status", "active", "staged")
        .when(accept_drift())
        .seen(netbox().edit(101, "status", "staged", "active"))
        .seen(netbox().edit(102, "status", "active", "staged"))
        .says_of_itself("NetboxLifecycleDrift", "True Unmapped");
}

/// NetBox is never overwritten silently, and a quarantine by NetBox is one by the person.
#[test]
fn the_person_and_the_edit_are_in_the_history() {
    let story = edited(ready(), "status", "failed", "offline").stands_in(Maintenance);
    let told = story.in_words();
    assert!(told.contains(&"Ready -> Maintenance by 17".to_owned()), "{told:?}");
    let story = edited(put_ready(), "status", "active", "failed").stands_in(Quarantined);
    assert_eq!((story.device().stage, story.device().cause.as_deref()), (Some(Stage::Fault), Some("NetboxStatusFailed")));
}

fn put_ready() -> Given {
    discovered().and(put(Ready, None))
}
