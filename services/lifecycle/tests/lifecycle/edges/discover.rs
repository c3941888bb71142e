//! Edge 1: a NetBox device is inventory; where its role has a profile, it gets a phase.

use crate::dsl::*;
use fleet_schemas::{Phase, Scheduler};

#[test]
fn a_netbox_device_whose_role_has_a_profile_is_discovered() {
    given([])
        .seen(netbox())
        .then(["inventory", "InventoryMatched=True Complete", "IdentityConflict=False SerialUnique"])
        .and_plans(["none -> Discovered by 1"])
        .stands_in(Phase::Discovered);
}

#[test]
fn without_profile_it_is_inventory_only_until_the_role_gets_one() {
    let story = given([]).seen(netbox().role("storage")).and_plans(nothing());
    assert_eq!(story.device().phase, None);
    let story = story.reference_changes(gives_profile("switch", profile(Scheduler::None, &[]))).then_nothing();
    story.reference_changes(gives_profile("storage", profile(Scheduler::None, &[]))).then(nothing()).and_plans(["none -> Discovered by 1"]);
}

#[test]
fn a_role_change_to_one_with_a_profile_discovers_it() {
    given([seen(netbox().role("storage"))]).seen(netbox().role("gpu")).then(["inventory: role"]).and_plans(["none -> Discovered by 1"]);
}

#[test]
fn a_record_without_serial_name_or_rack_is_a_device_that_says_so() {
    let bare = |look: Look| {
        look.with(|i| (i.name, i.serial, i.rack) = (None, None, None)).says(says("InventoryMatched", "False", "SerialMissing"))
    };
    given([])
        .seen(bare(netbox()))
        .then(["inventory", "IdentityConflict=False SerialUnique", "InventoryMatched=False SerialMissing"])
        .stands_in(Phase::Discovered)
        .when(baseline(Phase::InService))
        .then_refused("no-evidence");
}

#[test]
fn an_agent_that_sees_another_record_says_nothing_of_this_device() {
    given([]).seen(netbox().with(|i| i.netbox_id = 8)).then_noted("identity-mismatch");
    given([]).seen(netbox().with(|i| i.instance = "netbox-lab".into())).then_noted("identity-mismatch");
    given([discovered()]).seen(gone().by("lhr1")).then_accepted();
}
