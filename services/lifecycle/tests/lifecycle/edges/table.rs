//! The edge table against a copy of it by hand, and against itself.

use fleet_lifecycle::edges::{EDGES, Edge, Kind, Trigger};
use fleet_schemas::{Phase, verbs};

/// From design/lifecycle.md, "Edges": number, kind, phases left, phases reached, what makes it be considered, whether built.
const TABLE: &[&str] = &[
    "1 fact: - -> Discovered; observed; built",
    "1b advance: Discovered -> Ready InService Quarantined Maintenance; baseline; built",
    "2 advance: Discovered -> Enrolling; enrol; later",
    "3 advance: Enrolling -> Enrolled; observed; later",
    "4a advance: Enrolled -> Provisioning; provision; later",
    "4b destroy: Provisioned Ready Quarantined Draining -> Provisioning; reprovision; later",
    "5 advance: Provisioning -> Provisioned; observed; later",
    "6 advance: Provisioned -> Validating; observed; later",
    "7 advance: Validating -> Ready; observed; built",
    "8 advance: BurningIn -> Ready; observed; later",
    "9 advance: Ready -> InService; activate; built",
    "10 safer: InService -> Draining; drain; built",
    "10b advance: Draining -> InService; resume; built",
    "11 advance: Draining -> Draining Quarantined Maintenance; observed; built",
    "12 safer: Discovered Enrolling Enrolled Provisioning Provisioned Validating BurningIn Ready Remediating Maintenance -> Quarantined; quarantine; built",
    "12 safer: InService Draining -> Draining; quarantine; built",
    "12v advance: Quarantined -> Validating; validate; built",
    "13 destroy: Quarantined -> Remediating; remediate; later",
    "14 advance: Remediating -> Validating; observed; later",
    "15 destroy: Quarantined -> OutForRepair; send-to-repair; later",
    "16 advance: OutForRepair -> Enrolling; return-from-repair; later",
    "17 safer: Discovered Enrolled Provisioned Ready Quarantined OutForRepair -> Maintenance; maintain; built",
    "17 safer: InService -> Draining; maintain; built",
    "17 safer: Maintenance -> Validating Discovered Enrolled Quarantined; end-maintenance; built",
    "18 destroy: Discovered Enrolling Enrolled Provisioning Provisioned Validating BurningIn Ready Quarantined Remediating OutForRepair Maintenance -> Decommissioning; decommission; later",
    "19 advance: Decommissioning -> Decommissioned; observed; later",
    "20 destroy: Discovered Enrolling Enrolled Provisioning Provisioned Validating BurningIn Ready Quarantined Remediating OutForRepair Maintenance -> Quarantined; force-transition; later",
    "release destroy: Provisioned Ready Quarantined Draining -> Enrolled; release; later",
];

fn told(edge: &Edge) -> String {
    let kind = match edge.kind {
        Kind::Fact => "fact",
        Kind::Advance => "advance",
        Kind::Safer => "safer",
        Kind::Destroy => "destroy",
    };
    let phases = |phases: &[Phase]| phases.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(" ");
    let from = if edge.from.is_empty() { "-".into() } else { phases(edge.from) };
    let trigger = match edge.trigger {
        Trigger::Verb(verb) => verb,
        Trigger::Observed => "observed",
    };
    format!("{} {kind}: {from} -> {}; {trigger}; {}", edge.number, phases(edge.to), if edge.built { "built" } else { "later" })
}

#[test]
fn it_is_the_table_of_the_design() {
    assert_eq!(EDGES.iter().map(told).collect::<Vec<_>>(), TABLE);
}

#[test]
fn nothing_leaves_the_end_and_nothing_built_reaches_what_is_not() {
    let built: Vec<_> = EDGES.iter().filter(|e| e.built).collect();
    assert!(EDGES.iter().all(|e| !e.from.contains(&Phase::Decommissioned)));
    assert!(built.iter().all(|e| !e.to.contains(&Phase::Decommissioning) && !e.to.contains(&Phase::Decommissioned)));
    let to_service: Vec<_> = EDGES.iter().filter(|e| e.to.contains(&Phase::InService)).map(|e| e.number).collect();
    assert_eq!(to_service, ["1b", "9", "10b"]);
}

/// From one phase a verb takes one edge; and every verb of the table that names an edge is built where the edge is.
#[test]
fn a_verb_is_never_in_doubt() {
    for verb in verbs::TABLE {
        let edges: Vec<_> = fleet_lifecycle::edges::of_verb(verb.name).collect();
        for phase in Phase::ALL {
            assert!(edges.iter().filter(|e| e.from.contains(phase)).count() <= 1, "{} in {phase}", verb.name);
        }
        assert!(edges.iter().all(|e| e.built == verb.built), "{}", verb.name);
    }
    assert_eq!(fleet_lifecycle::edges::of_verb("fly").count(), 0);
}

/// An edge that only its observed row can take is found by its number, and by no other.
#[test]
fn observed_edges_are_found_by_number() {
    for edge in EDGES {
        let found = fleet_lifecycle::edges::observed(edge.number).map(told);
        assert_eq!(found, (edge.trigger == Trigger::Observed).then(|| told(edge)));
    }
}
