//! The record: what changed of it, and what it means that it is gone.

use crate::dsl::*;
use fleet_schemas::{Inventory, Phase};

#[test]
fn what_changed_is_named() {
    type Row = (&'static str, fn(&mut Inventory));
    let rows: [Row; 15] = [
        ("name", |i| i.name = None),
        ("display", |i| i.display = "other".into()),
        ("role", |i| i.role = "cpu".into()),
        ("device_type", |i| i.device_type = "other".into()),
        ("serial", |i| i.serial = None),
        ("asset_tag", |i| i.asset_tag = Some("A1".into())),
        ("rack", |i| i.rack = None),
        ("position_tenths", |i| i.position_tenths = Some(15)),
        ("face", |i| i.face = None),
        ("status", |i| i.status = "broken".into()),
        ("fleet_phase", |i| i.fleet_phase = Some("whatever".into())),
        ("tenant", |i| i.tenant = Some("t".into())),
        ("tags", |i| i.tags = vec!["spare".into()]),
        ("slurm_node", |i| i.slurm_node = Some("gpu02".into())),
        ("slurm_node", |i| i.slurm_node_from = Some("rule:name".into())),
    ];
    for (field, change) in rows {
        let story = given([discovered()]).seen(netbox().with(change)).then([&format!("inventory: {field}")]);
        let mut expected = inventory();
        change(&mut expected);
        assert_eq!(story.device().inventory, Some(expected));
    }
    given([discovered()]).seen(netbox()).then_nothing();
    given([discovered()]).seen(netbox().status("failed").with(|i| i.rack = None)).then(["inventory: rack, status"]);
}

#[test]
fn a_status_that_only_stands_there_asks_for_nothing() {
    for status in ["failed", "offline", "decommissioning", "broken"] {
        given([in_service()]).seen(netbox().status(status)).then(["inventory: status"]).and_plans(nothing()).stands_in(Phase::InService);
    }
}

#[test]
fn a_record_that_is_gone_is_a_condition_and_never_a_deletion() {
    given([in_service()])
        .seen(gone())
        .then(["InventoryVanished=True Deleted"])
        .and_plans(nothing())
        .stands_in(Phase::InService)
        .seen(gone())
        .then_nothing()
        .when(drain())
        .then_accepted()
        .when(resume())
        .then_refused("effect-forbids");
}

#[test]
fn it_returns() {
    given([in_service(), seen(gone())])
        .seen(netbox())
        .then(["InventoryVanished=False Present"])
        .seen(netbox())
        .then_nothing()
        .seen(gone())
        .then(["InventoryVanished=True Deleted"])
        .seen(netbox().status("failed"))
        .then(["inventory: status", "InventoryVanished=False Present"]);
}

#[test]
fn a_late_word_that_it_is_there_does_not_bring_it_back() {
    given([in_service(), seen(gone().seq(1, 50))])
        .seen(netbox().seq(1, 49))
        .then_noted("late")
        .says_of_itself("InventoryVanished", "True Deleted");
    given([in_service(), seen(netbox().status("failed").seq(1, 50))]).seen(gone().seq(1, 49)).then_noted("late");
}

#[test]
fn what_was_never_there_cannot_be_gone() {
    given([]).seen(gone().by("lhr1")).then_nothing();
}

#[test]
fn somebody_deleted_it_and_somebody_noticed() {
    let story = given([in_service(), seen(gone())]);
    let message = &story.device().condition("InventoryVanished").unwrap().message;
    assert_eq!(message, "deleted in NetBox by carol, noticed by the sweep, confirmed by GET 404");
}
