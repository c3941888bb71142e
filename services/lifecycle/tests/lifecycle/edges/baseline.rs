//! Edge 1b: taking over what already runs. The map from evidence to phase, and what a person confirmed of it.

use crate::dsl::*;
use fleet_lifecycle::baseline::propose;
use fleet_schemas::{Phase, Scheduler};

/// What is known of a device, in the order of the table's columns.
struct Case {
    role: &'static str,
    status: &'static str,
    fleet_phase: &'static str,
    slurm: fn() -> Option<Look>,
}

const fn case(role: &'static str, status: &'static str, fleet_phase: &'static str, slurm: fn() -> Option<Look>) -> Case {
    Case { role, status, fleet_phase, slurm }
}

fn idle() -> Option<Look> {
    Some(slurm("IDLE"))
}
fn down() -> Option<Look> {
    Some(slurm("DOWN"))
}
fn none() -> Option<Look> {
    None
}

fn story(case: &Case) -> Story {
    let netbox = netbox().role(case.role).status(case.status).fleet_phase(case.fleet_phase);
    let story = given([seen(netbox)]);
    match (case.slurm)() {
        Some(look) => story.seen(look),
        None => story,
    }
}

#[test]
fn the_map() {
    let foreign = || Some(slurm("IDLE+DRAIN").reason("admin: memory test"));
    let rows: [(Case, Result<&str, &str>); 24] = [
        (case("gpu", "active", "", idle), Ok("InService")),
        (case("gpu", "active", "", foreign), Ok("InService")),
        (case("gpu", "active", "", down), Ok("InService")),
        (case("gpu", "active", "", || Some(not_in_slurm())), Err("NetBox says active, SlurmMember is False")),
        (case("gpu", "active", "", none), Err("NetBox says active, SlurmMember is Unknown")),
        (
            case("gpu", "active", "", || Some(slurm("IDLE").observed(fleet_schemas::HOUR))),
            Err("NetBox says active, SlurmMember is Unknown"),
        ),
        (case("cpu", "active", "", none), Ok("Ready")),
        (case("gpu", "failed", "", down), Ok("Quarantined")),
        (case("gpu", "failed", "", none), Ok("Quarantined")),
        (case("gpu", "failed", "", || Some(not_in_slurm())), Ok("Quarantined")),
        (case("gpu", "failed", "", idle), Err("NetBox says failed, SLURM would start jobs on it")),
        (case("cpu", "failed", "", none), Ok("Quarantined")),
        (case("gpu", "offline", "", down), Ok("Maintenance")),
        (case("gpu", "offline", "", idle), Err("NetBox says offline, SLURM would start jobs on it")),
        (case("gpu", "planned", "", none), Err("NetBox status planned says nothing of a device that runs; Ironic is no evidence yet")),
        (case("gpu", "staged", "", down), Err("NetBox status staged says nothing of a device that runs; Ironic is no evidence yet")),
        (case("gpu", "staged", "", idle), Err("NetBox says staged, SLURM would start jobs on it")),
        (case("gpu", "broken", "", none), Err("NetBox status broken says nothing of a device that runs; Ironic is no evidence yet")),
        // `fleet_phase` counts if it is one of our phases, and no other value does.
        (case("gpu", "active", "Ready", idle), Ok("Ready")),
        (case("gpu", "active", "InService", idle), Ok("InService")),
        (case("gpu", "active", "in service", idle), Ok("InService")),
        (case("cpu", "active", "InService", none), Ok("InService")),
        (case("gpu", "active", "Quarantined", idle), Err("fleet_phase says Quarantined, NetBox status says active")),
        (case("gpu", "failed", "InService", down), Err("fleet_phase says InService, NetBox status says failed")),
    ];
    for (case, expected) in rows {
        let story = story(&case);
        let proposal = propose(story.device(), &story.run.reference);
        let found = proposal.phase.map(Phase::as_str).ok_or(proposal.problem.clone().unwrap_or_default());
        assert_eq!(found, expected.map_err(str::to_owned), "{} {} {:?}", case.role, case.status, case.fleet_phase);
        assert_eq!(proposal.phase.is_none(), proposal.problem.is_some());
        confirming(story, proposal.phase);
    }
}

/// What the preview proposes is granted, and nothing else.
fn confirming(story: Story, proposed: Option<Phase>) {
    for phase in Phase::ALL {
        let story = story.clone().when(baseline(*phase));
        match proposed {
            Some(proposed) if proposed == *phase => {
                let story = story.then_accepted().stands_in(*phase);
                assert!(story.device().operation.is_none(), "nothing runs after a baseline");
            }
            Some(_) => {
                story.then_refused("baseline-changed");
            }
            None => {
                story.then_refused("no-evidence");
            }
        }
    }
}

#[test]
fn the_evidence_is_told() {
    let told = |case: Case| {
        let story = story(&case);
        propose(story.device(), &story.run.reference).evidence
    };
    assert_eq!(
        told(case("gpu", "active", "InService", || Some(slurm("IDLE+DRAIN")))),
        ["NetBox status active", "SlurmMember True", "SlurmSchedulable False (Drained)", "fleet_phase InService"]
    );
    assert_eq!(
        told(case("cpu", "active", "retired", none)),
        ["NetBox status active", "fleet_phase `retired` is no phase of ours: no evidence"]
    );
}

#[test]
fn who_is_not_asked() {
    let problem = |story: Story| propose(story.device(), &story.run.reference).problem.unwrap_or_default();
    assert_eq!(problem(given([])), "the device is in no inventory");
    assert_eq!(problem(given([seen(netbox().role("storage"))])), "role `storage` has no profile at lhr1");
    assert_eq!(problem(given([in_service()])), "the device is InService already");
    assert_eq!(problem(given([discovered(), meanwhile(goes_stale("slurm"))])), "SLURM was not seen freshly");
    let none = gives_profile("storage", profile(Scheduler::None, &[]));
    let lagging = given([seen(netbox().role("storage"))]);
    let mut reference = lagging.run.reference.clone();
    none(&mut reference, lagging.run.now);
    assert_eq!(propose(lagging.device(), &reference).problem.unwrap(), "the device is without phase already");
}

#[test]
fn a_quarantine_says_where_it_comes_from_and_its_node_is_drained() {
    given([seen(netbox().status("failed")), seen(slurm("DOWN"))])
        .when(baseline(Phase::Quarantined))
        .then(["Discovered -> Quarantined by 1b, stage fault, cause Baseline"])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> Baseline\" for Baseline"]);
}

#[test]
fn a_maintenance_is_shown_as_one() {
    given([seen(netbox().status("offline")), seen(slurm("IDLE+DRAIN").reason("admin: psu"))])
        .when(baseline(Phase::Maintenance))
        .then(["Discovered -> Maintenance by 1b"])
        .and_plans(["MaintenanceInProgress=True Maintenance"]);
}

#[test]
fn a_drain_that_stands_is_shown_and_left() {
    given([seen(netbox()), seen(slurm("IDLE+DRAIN").reason("admin: memory test"))])
        .when(baseline(Phase::InService))
        .then(["Discovered -> InService by 1b"])
        .and_plans(nothing())
        .says_of_itself("SlurmDrainForeign", "True ForeignDrain");
}

#[test]
fn what_was_previewed_no_longer_holds() {
    given([discovered()])
        .seen(slurm("IDLE").says(says("SlurmMember", "False", "NotMember")))
        .when(baseline(Phase::InService))
        .then_refused("no-evidence")
        .because(
            "evidence that agrees on one phase",
            "NetBox says active, SlurmMember is False",
            "mend what disagrees, then preview again",
        );
    given([discovered()]).when(baseline(Phase::Ready)).then_refused("baseline-changed").because(
        "evidence for Ready",
        "InService: NetBox status active; SlurmMember True; SlurmSchedulable True (Idle)",
        "look at the preview again",
    );
}

#[test]
fn only_a_discovered_device_is_taken_over() {
    given([in_service()]).when(baseline(Phase::InService)).then_refused("phase-forbids").because(
        "Discovered",
        "InService",
        "drain, quarantine, maintain",
    );
}
