//! Edge 17: people work on it, and are done.

use crate::dsl::*;
use fleet_schemas::Phase::{Discovered, Enrolled, InService, Maintenance, OutForRepair, Provisioned, Quarantined, Ready};
use fleet_schemas::{DAY, HOUR, Phase, SECOND};

#[test]
fn at_rest_it_is_at_once() {
    given([ready()])
        .when(maintain())
        .then(["Ready -> Maintenance by 17"])
        .and_plans(["MaintenanceInProgress=True Maintenance"])
        .after(30 * DAY)
        .then_nothing();
}

#[test]
fn in_service_it_is_a_drain_that_leads_there() {
    given([in_service()])
        .when(maintain())
        .then(["operation maintain of alice", "InService -> Draining by 17, then maintenance", "wait drain +7d"])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"])
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Maintenance);
}

#[test]
fn new_work_is_kept_away_meanwhile() {
    given([discovered(), put(Ready, None)])
        .when(maintain())
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> Maintenance\" for Maintenance", "MaintenanceInProgress=True Maintenance"]);
}

#[test]
fn from_every_phase_at_rest() {
    for phase in Phase::ALL {
        let story = given([discovered(), put(*phase, None)]).when(maintain());
        match phase {
            Discovered | Enrolled | Provisioned | Ready | Quarantined | OutForRepair => {
                story.stands_in(Maintenance);
            }
            InService => {
                story.stands_in(Phase::Draining);
            }
            _ => {
                story.then_refused("phase-forbids");
            }
        }
    }
}

#[test]
fn back_through_validation_or_to_where_it_was_never_provisioned() {
    let fault: fn() -> Given = || in_service().and(asked(quarantine())).and(drained());
    let rows: [(fn() -> Given, Phase); 7] = [
        (ready, Ready),
        (|| discovered().and(put(Provisioned, None)), Ready),
        (fault, Ready),
        (discovered, Discovered),
        (|| discovered().and(put(Enrolled, None)), Enrolled),
        (quarantined, Ready),
        (|| discovered().and(asked(quarantine())), Quarantined),
    ];
    for (before, then) in rows {
        given([before(), asked(maintain())]).when(end_maintenance()).stands_in(then).says_of_itself("MaintenanceInProgress", "False Ended");
    }
    given([in_service(), asked(maintain()), drained()]).when(end_maintenance()).then(["Maintenance -> Validating by 17"]).and_plans([
        "skipped validate: the role profile names no suite",
        "skipped burn-in: the role profile names no suite",
        "Validating -> Ready by 7",
        "MaintenanceInProgress=False Ended",
    ]);
}

#[test]
fn an_announced_end_that_passes_becomes_attention_and_is_armed_again() {
    given([ready()])
        .when(maintain_until(START.plus(4 * HOUR)))
        .then(["Ready -> Maintenance by 17, until +14394s", "wait maintenance-end +14394s"])
        .after(3 * HOUR)
        .then_nothing()
        .after(2 * HOUR)
        .then(["attention maintenance: the announced end of the maintenance has passed (end-maintenance)", "wait maintenance-end +7d"])
        .after(7 * DAY)
        .then(["wait maintenance-end +7d"])
        .when(end_maintenance())
        .then(["Maintenance -> Validating by 17"])
        .has_attention([])
        .after(30 * DAY)
        .then_nothing();
}

/// Asked for in service, the end that was announced goes along through the drain.
#[test]
fn an_announced_end_outlives_the_drain() {
    given([in_service()])
        .when(maintain_until(START.plus(4 * HOUR)))
        .then(["operation maintain of alice", "InService -> Draining by 17, then maintenance, until +14396s", "wait drain +7d"])
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(Maintenance)
        .after(5 * HOUR)
        .then(["attention maintenance: the announced end of the maintenance has passed (end-maintenance)", "wait maintenance-end +7d"])
        .when(quarantine())
        .has_attention([]);
}

#[test]
fn an_end_in_the_past_is_none() {
    let when_it_is_asked = given([ready()]).run.now.plus(SECOND);
    for until in [START, START.plus(-DAY), when_it_is_asked] {
        given([ready()]).when(maintain_until(until)).then_refused("invalid").because(
            "a time to come",
            &until.to_string(),
            "give a later time",
        );
    }
}

#[test]
fn only_a_maintenance_ends() {
    given([ready()]).when(end_maintenance()).then_refused("phase-forbids").because(
        "Maintenance",
        "Ready",
        "activate, quarantine, maintain",
    );
}

/// Seen is not done: the item stays, and says who has seen it; a new reason asks anew.
#[test]
fn what_waits_for_a_person_can_be_acknowledged() {
    let story = given([ready()]).when(maintain_until(START.plus(HOUR))).after(2 * HOUR);
    let story = story.when(acknowledge("maintenance")).then(["maintenance acknowledged by alice"]).has_attention(["maintenance"]);
    let seen = story.device().attention["maintenance"].acknowledged.clone().unwrap();
    assert_eq!((seen.by.as_str(), seen.reason.as_str()), ("alice", "on purpose"));
    story.when(acknowledge("maintenance")).then_nothing().when(acknowledge("drain")).then_refused("no-such-attention").because(
        "an item named `drain`",
        "maintenance",
        "look at the list again",
    );
    given([ready()]).when(acknowledge("x")).then_refused("no-such-attention").because(
        "an item named `x`",
        "nothing waits for a person",
        "look at the list again",
    );
}
