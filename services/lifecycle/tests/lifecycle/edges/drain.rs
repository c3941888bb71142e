//! Edge 10: InService → Draining.

use crate::dsl::*;
use fleet_schemas::{DAY, Drain, Phase, TaskKind, Then};

#[test]
fn jobs_end_by_themselves() {
    given([in_service()])
        .when(drain())
        .then(["operation drain of alice", "InService -> Draining by 10, then stay", "wait drain +7d"])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"])
        .stands_in(Phase::Draining)
        .has_open_plans(["slurm-drain of gpu01"]);
}

#[test]
fn where_it_may_lead() {
    for (then, told) in [(Then::Stay, "stay"), (Then::Quarantine, "quarantine"), (Then::Maintenance, "maintenance")] {
        let phase = format!("InService -> Draining by 10, then {told}");
        given([in_service()]).when(drain_then(then)).then(["operation drain of alice", &phase, "wait drain +7d"]);
    }
    for (then, told) in [(Then::Reprovision, "a drain that leads to `reprovision`"), (Then::Release, "a drain that leads to `release`")] {
        given([in_service()]).when(drain_then(then)).then_refused("not-available").because(
            "something this version can do",
            told,
            "a later version; see the release notes",
        );
    }
}

#[test]
fn nothing_is_killed() {
    given([in_service()]).when(Drain { mode: "immediate".into(), then: Then::Stay }).then_refused("not-available").because(
        "something this version can do",
        "drain mode `immediate`; `pending` is there",
        "a later version; see the release notes",
    );
}

#[test]
fn it_takes_the_place_of_the_running_operation() {
    given([ready(), asked(activate()), seen(slurm("DOWN"))])
        .when(drain())
        .then([
            "operation cancelled: `drain` took its place",
            "operation drain of alice",
            "InService -> Draining by 10, then stay",
            "wait drain +7d",
        ])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> on purpose\" for on purpose"])
        .after(DAY)
        .then_nothing();
}

#[test]
fn only_from_service() {
    let helps = "activate, quarantine, maintain";
    given([ready()]).when(drain()).then_refused("phase-forbids").because("InService", "Ready", helps);
    given([draining()]).when(drain()).then_refused("phase-forbids").because("InService", "Draining", "resume, quarantine");
}

/// The reason is typed into a shell by a person, and SLURM keeps one line.
#[test]
fn the_mark_is_safe_to_type() {
    let long = "x".repeat(200);
    let rows = [
        ("psu swap", "psu swap".to_owned()),
        ("say \"hi\"", "say  hi ".into()),
        ("$(reboot) `id` it's \\ !!", " (reboot)  id  it s     ".into()),
        ("two\nlines\tand more", "two lines and more".into()),
        (long.as_str(), "x".repeat(80)),
        ("", "Draining".into()),
    ];
    for (reason, expected) in rows {
        let story = given([in_service()]).saying(reason).when(drain());
        let (id, task) = story.device().tasks.iter().find(|(_, t)| t.kind == TaskKind::SlurmDrain).unwrap();
        assert_eq!(task.mark, format!("fleet:{id} {expected}"));
    }
}
