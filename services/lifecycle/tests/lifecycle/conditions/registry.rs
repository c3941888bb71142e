//! The type registry: effects and severity come from it, never from a report, and each type is its own source's to state.

use crate::dsl::*;
use fleet_lifecycle::{Sense, condition_type, condition_types};
use fleet_schemas::{Effect, Severity, Status};

/// From design/lifecycle.md, "Conditions", as far as this build has sources for them.
const TYPES: &[&str] = &[
    "InventoryMatched netbox readiness warning []",
    "SlurmMember slurm readiness warning []",
    "SlurmSchedulable slurm readiness warning []",
    "SlurmDrained slurm fact info []",
    "SlurmDrainForeign slurm problem warning [PreventAutoAction]",
    "IdentityConflict netbox problem critical [PreventStateChange, PreventAllocation]",
    "InventoryVanished netbox problem critical [PreventStateChange, PreventAllocation]",
    "NetboxLifecycleDrift hub problem warning [PreventAutoAction]",
    "Moved hub problem warning [PreventStateChange, PreventAllocation]",
    "MaintenanceInProgress hub problem info [PreventAllocation, ExcludeFromSla, SuppressAlert]",
];

#[test]
fn it_is_the_registry_of_the_design() {
    let sense = |s: Sense| match s {
        Sense::Readiness => "readiness",
        Sense::Problem => "problem",
        Sense::Fact => "fact",
    };
    let told: Vec<_> =
        condition_types().iter().map(|t| format!("{} {} {} {} {:?}", t.name, t.source, sense(t.sense), t.severity, t.effects)).collect();
    assert_eq!(told, TYPES);
    assert!(condition_types().iter().all(|t| condition_type(t.name).is_some_and(|found| found.about == t.about)));
    assert!(condition_type("GpuUnhealthy").is_none());
}

#[test]
fn effects_and_severity_are_the_registrys() {
    let story = given([discovered()]).seen(netbox().says(says("IdentityConflict", "True", "SerialShared")));
    let conflict = story.device().condition("IdentityConflict").unwrap();
    assert_eq!(
        (conflict.severity, conflict.effects.as_slice()),
        (Severity::Critical, &[Effect::PreventStateChange, Effect::PreventAllocation][..])
    );
    let story = story.seen(netbox());
    let conflict = story.device().condition("IdentityConflict").unwrap();
    assert_eq!((conflict.status, conflict.severity), (Status::False, Severity::Info));
}

/// How bad it is depends on the status that is bad for the type: False for readiness, True for problems, none for facts.
#[test]
fn severity_is_that_of_the_bad_status() {
    let rows = [
        ("SlurmSchedulable", "False", Severity::Warning),
        ("SlurmSchedulable", "True", Severity::Info),
        ("SlurmSchedulable", "Unknown", Severity::Info),
        ("SlurmDrainForeign", "True", Severity::Warning),
        ("SlurmDrainForeign", "False", Severity::Info),
        ("SlurmDrained", "True", Severity::Info),
        ("SlurmDrained", "False", Severity::Info),
    ];
    for (r#type, status, severity) in rows {
        let story = given([discovered()]).seen(slurm("IDLE").says(says(r#type, status, "Test")));
        assert_eq!(story.device().condition(r#type).unwrap().severity, severity, "{}={status}", r#type);
    }
}

#[test]
fn another_sources_type_is_not_its_to_state() {
    let rows =
        ["SlurmSchedulable", "SlurmMember", "Moved", "NetboxLifecycleDrift", "MaintenanceInProgress", "GpuUnhealthy", "", "slurmmember"];
    for r#type in rows {
        given([seen(netbox())]).seen(netbox().says(says(r#type, "True", "Test"))).then_nothing();
    }
    for r#type in ["InventoryMatched", "InventoryVanished", "Moved", "MaintenanceInProgress", "NoSuchType"] {
        given([discovered()]).seen(slurm("IDLE").says(says(r#type, "True", "Test"))).then_nothing();
    }
}

/// A part of a device has conditions of its own, and their effects are the device's.
#[test]
fn a_part_stands_for_itself() {
    let part = fleet_schemas::ConditionReport { subject: "nic/abc".into(), ..says("IdentityConflict", "True", "SerialShared") };
    given([ready()])
        .seen(netbox().says(part))
        .then(["IdentityConflict[nic/abc]=True SerialShared"])
        .says_of_itself("IdentityConflict", "False SerialUnique")
        .when(activate())
        .then_refused("effect-forbids");
}
