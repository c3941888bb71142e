//! Whose drain it is, and what is done about one that was lost. (knowledge/slurm.md section 9, field reports 28 and 29.)

use crate::dsl::*;
use fleet_lifecycle::device::Drain;
use fleet_schemas::Then;

fn whose(look: Look) -> &'static str {
    let story = given([draining(), seen(look)]);
    match story.device().drain() {
        Drain::None => "none",
        Drain::Own(_) => "own",
        Drain::Foreign(_) => "foreign",
    }
}

/// The agent cannot tell whose it is.
fn unknown(reason: &'static str) -> Look {
    slurm("IDLE+DRAIN").reason(reason).says(says("SlurmDrainForeign", "Unknown", "NoData"))
}

#[test]
fn whose_drain_it_is() {
    type Row = (fn() -> Look, &'static str);
    let rows: [Row; 14] = [
        (|| slurm("IDLE"), "none"),
        (|| slurm("IDLE").reason("fleet:<task> left over from a resume"), "none"),
        (|| slurm("DOWN"), "none"),
        (|| slurm("IDLE+DRAIN").reason("fleet:<task> psu swap"), "own"),
        (|| slurm("IDLE+DRAIN").reason("fleet:<task>"), "own"),
        (|| slurm("DOWN+DRAIN").reason("fleet:<task> psu swap : Not responding"), "own"),
        (|| slurm("IDLE+DRAIN").reason("fleet:<task> : reboot issued : reboot complete"), "own"),
        (|| slurm("IDLE+DRAIN").reason("fleet:00000000-0000-0000-0000-000000000001 psu swap"), "foreign"),
        (|| slurm("IDLE+DRAIN").reason("fleet:psu swap"), "foreign"),
        (|| slurm("IDLE+DRAIN").reason("Fleet:<task>"), "foreign"),
        (|| unknown("fleet:00000000-0000-0000-0000-000000000001 psu swap"), "foreign"),
        (|| unknown("fleet:<task> psu swap"), "own"),
        (|| slurm("IDLE+DRAIN").reason("admin: memory test"), "foreign"),
        (|| slurm("IDLE+DRAIN"), "foreign"),
    ];
    for (look, expected) in rows {
        let story = given([draining()]).seen(look());
        let told = story.device().scheduler.as_ref().and_then(|s| s.reason.clone());
        assert_eq!(whose(look()), expected, "{told:?}");
    }
}

/// Only the decider knows which tasks are this device's: the agent takes the mark for ours, the condition says that it is not.
#[test]
fn an_unknown_mark_is_a_foreign_drain() {
    given([draining()])
        .seen(slurm("IDLE+DRAIN").reason("fleet:00000000-0000-0000-0000-000000000001 psu swap"))
        .then([
            "scheduler DRAIN+IDLE 0/64",
            "SlurmSchedulable=False Drained",
            "SlurmDrained=True Drained",
            "SlurmDrainForeign=True UnknownMark",
        ])
        .and_plans(nothing());
}

/// A drain without a reason on 24.11 shows the old one, perhaps ours; the agent remembers that it is a new drain.
#[test]
fn a_drain_that_the_agent_calls_foreign_is_so_in_spite_of_our_mark() {
    given([draining()])
        .seen(slurm("IDLE+DRAIN").own().says(says("SlurmDrainForeign", "True", "ForeignDrain")))
        .stands_in(fleet_schemas::Phase::Draining)
        .when(resume())
        .then_refused("foreign-drain");
}

#[test]
fn marks_of_earlier_drains_are_ours_too() {
    let story = given([draining(), drained()]);
    let first = story.device().marks[0];
    let reason: &'static str = format!("fleet:{first} psu swap").leak();
    let again = |story: Story| story.when(resume()).seen(slurm("IDLE")).when(drain());
    let story = again(again(story)).seen(slurm("ALLOCATED+DRAIN").reason(reason));
    assert_eq!(story.device().drain(), Drain::Own(first));
    story.says_of_itself("SlurmDrainForeign", "False OwnDrain").has_open_plans(["slurm-drain of gpu01"]);
}

/// `scontrol reboot` lifts drains, and restarts of slurmctld lose them: level-triggered, they are asked for again.
#[test]
fn a_lost_drain_is_planned_again() {
    for state in ["IDLE", "ALLOCATED", "DOWN"] {
        given([in_service(), asked(drain_then(Then::Stay)), drained()])
            .has_open_plans([])
            .seen(slurm(state))
            .and_plans(["drain proven no more", "wait drain +7d", "planned slurm-drain of gpu01 \"fleet:<task> Draining\" for Draining"])
            .seen(slurm("MIXED"))
            .and_plans(nothing())
            .has_open_plans(["slurm-drain of gpu01"]);
    }
    given([quarantined(), drained()])
        .seen(slurm("IDLE"))
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> Baseline\" for Baseline"]);
    given([in_maintenance()]).seen(slurm("IDLE")).and_plans(["planned slurm-drain of gpu01 \"fleet:<task> Maintenance\" for Maintenance"]);
}

/// A second drain would silently overwrite somebody else's reason.
#[test]
fn a_foreign_drain_is_never_drained_over_and_ours_is_planned_when_it_ends() {
    given([in_service(), seen(slurm("IDLE+DRAIN").reason("admin: memory test"))])
        .when(drain())
        .and_plans(nothing())
        .seen(slurm("IDLE+DRAIN").reason("admin: still testing"))
        .and_plans(nothing())
        .seen(slurm("IDLE"))
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"]);
    given([draining(), drained()])
        .seen(slurm("IDLE+DRAIN").reason("admin: memory test"))
        .and_plans(nothing())
        .seen(slurm("IDLE"))
        .and_plans(["drain proven no more", "wait drain +7d", "planned slurm-drain of gpu01 \"fleet:<task> Draining\" for Draining"])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans(["drain proven", "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated"]);
}

/// Field report 29: an operator undrained every node that a person had drained.
#[test]
fn what_a_person_drained_stays_drained() {
    for look in
        [|| slurm("IDLE+DRAIN").reason("admin: memory test"), || slurm("IDLE+DRAIN"), || slurm("DOWN+DRAIN").reason("fleet:nobody's task")]
    {
        given([in_service(), seen(look())]).has_open_plans([]).seen(slurm("IDLE")).has_open_plans([]);
        given([draining(), drained(), seen(look())]).when(resume()).then_refused("foreign-drain");
        given([ready(), seen(look())]).when(activate()).then_refused("foreign-drain");
    }
}

/// Field report 28: DRAIN+ALLOCATED was taken for drained, and the node replaced under a job.
#[test]
fn draining_is_not_drained() {
    given([in_service(), asked(drain_then(Then::Quarantine))])
        .seen(slurm("ALLOCATED+DRAIN").own())
        .stands_in(fleet_schemas::Phase::Draining)
        .seen(slurm("COMPLETING+DRAIN+IDLE").own())
        .stands_in(fleet_schemas::Phase::Draining)
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(fleet_schemas::Phase::Quarantined);
}

/// A drain whose task was withdrawn is still ours to lift.
#[test]
fn a_drain_typed_after_the_plan_was_withdrawn_is_lifted() {
    given([draining(), asked(resume())])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans(["planned slurm-undrain of gpu01 \"fleet:<drain>\" for the device is in service"]);
}
