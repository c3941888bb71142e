//! Silence becomes a fact: what follows when a wait falls due, and when it cannot be judged. The other deadlines stand with their
//! edges: holds, and the announced end of a maintenance.

use crate::dsl::*;
use fleet_schemas::{DAY, MINUTE, Phase, SECOND, Then};

/// A source that fell silent before the deadline would be known as stale after three intervals of 60 s; one more, and it is judged.
const JUDGED: i64 = 4 * MINUTE;

#[test]
fn a_drain_of_seven_days_becomes_attention_and_is_armed_again() {
    given([draining(), seen(slurm("ALLOCATED+DRAIN").own())])
        .after(7 * DAY)
        .then_nothing()
        .after(JUDGED)
        .then(["attention drain: draining for more than 7 days (resume, quarantine, end the work)", "wait drain +7d"])
        .stands_in(Phase::Draining)
        .after(7 * DAY + JUDGED)
        .then(["wait drain +7d"])
        .has_attention(["drain"]);
}

#[test]
fn its_end_ends_the_attention() {
    given([in_service(), asked(drain_then(Then::Quarantine)), seen(slurm("ALLOCATED+DRAIN").own()), after(8 * DAY)])
        .has_attention(["drain"])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Quarantined by 11, stage fault",
            "operation succeeded: no work runs",
            "attention drain cleared",
        ])
        .after(30 * DAY)
        .then_nothing();
}

#[test]
fn slurm_that_starts_no_job_within_fifteen_minutes_ends_an_activation_in_a_drain_to_quarantine() {
    given([ready(), asked(activate()), seen(slurm("DOWN"))])
        .after(15 * MINUTE)
        .then_nothing()
        .after(JUDGED)
        .then([
            "operation failed: SLURM would not start jobs in time: Down",
            "InService -> Draining by 9, then quarantine, stage activate, cause NotSchedulable",
            "wait drain +7d",
        ])
        .and_plans(["planned slurm-drain of gpu01 \"fleet:<task> NotSchedulable\" for NotSchedulable"])
        .seen(slurm("IDLE+DRAIN").own())
        .and_plans([
            "drain proven",
            "Draining -> Quarantined by 11, stage activate, cause NotSchedulable",
            "done slurm-drain: DRAIN+IDLE with 0 of 64 CPUs allocated",
        ])
        .when(validate())
        .stands_in(Phase::Ready);
}

#[test]
fn a_resume_has_the_same_time() {
    given([draining(), seen(slurm("DOWN")), asked(resume())]).after(15 * MINUTE + JUDGED).stands_in(Phase::Draining);
    given([draining(), seen(slurm("DOWN")), asked(resume()), after(14 * MINUTE)])
        .seen(slurm("IDLE"))
        .and_plans(["operation succeeded: SLURM would start a fitting job"])
        .after(DAY)
        .then_nothing()
        .stands_in(Phase::InService);
}

#[test]
fn it_is_judged_by_what_was_seen_until_it_is_judged() {
    given([ready(), asked(activate()), seen(slurm("DOWN")), after(15 * MINUTE + MINUTE)])
        .seen(slurm("IDLE"))
        .and_plans(["operation succeeded: SLURM would start a fitting job"])
        .after(DAY)
        .then_nothing();
}

#[test]
fn a_deadline_of_a_silent_source_is_recorded_once_and_judged_two_intervals_after_it_is_fresh_again() {
    given([ready(), asked(activate()), seen(slurm("DOWN")), meanwhile(goes_stale("slurm"))])
        .after(15 * MINUTE + JUDGED)
        .then([
            "unobservable schedulable: slurm",
            "attention unobservable-schedulable: the deadline of schedulable fell due while slurm at lhr1 was not fresh (mend the look at the source)",
        ])
.and_plans(nothing())
        .stands_in(Phase::InService)
        .waits_for_nothing()
        .after(DAY)
        .then_nothing()
        .reference_changes(is_fresh_again("netbox"))
        .then_nothing()
        .reference_changes(is_fresh_again("slurm"))
        .and_plans(["wait schedulable +2m", "attention unobservable-schedulable cleared"])
        .after(2 * MINUTE - SECOND)
        .then_nothing()
        .after(SECOND)
        .then([
            "operation failed: SLURM would not start jobs in time: Down",
            "InService -> Draining by 9, then quarantine, stage activate, cause NotSchedulable",
            "wait drain +7d",
        ]);
}

#[test]
fn what_is_seen_after_the_silence_counts() {
    given([
        ready(),
        asked(activate()),
        seen(slurm("DOWN")),
        meanwhile(goes_stale("slurm")),
        after(20 * MINUTE),
        meanwhile(is_fresh_again("slurm")),
    ])
    .seen(slurm("IDLE"))
    .and_plans(["operation succeeded: SLURM would start a fitting job"])
    .after(DAY)
    .then_nothing()
    .has_attention([]);
}

/// The look comes before its source counts as fresh again, as agents send them.
#[test]
fn what_is_seen_just_before_the_silence_is_over_counts() {
    given([ready(), asked(activate()), seen(slurm("DOWN")), meanwhile(goes_stale("slurm")), after(20 * MINUTE)])
        .has_attention(["unobservable-schedulable"])
        .seen(slurm("IDLE"))
        .reference_changes(is_fresh_again("slurm"))
        .and_plans(["operation succeeded: SLURM would start a fitting job", "attention unobservable-schedulable cleared"])
        .after(DAY)
        .then_nothing()
        .has_attention([]);
}

/// A drain that leads nowhere is done when it is proven: nobody is told of it a week later.
#[test]
fn a_proven_drain_waits_for_nothing() {
    given([draining(), drained()]).after(30 * DAY).then_nothing().has_attention([]);
}

/// Silent for a while and fresh again before it fell due: not fresh throughout.
#[test]
fn silence_in_between_counts() {
    let mended = meanwhile(goes_stale("slurm")).and(meanwhile(is_fresh_again("slurm")));
    given([ready(), asked(activate()), seen(slurm("DOWN")), mended])
        .after(15 * MINUTE + JUDGED)
        .then([
            "unobservable schedulable: slurm",
            "attention unobservable-schedulable: the deadline of schedulable fell due while slurm at lhr1 was not fresh (mend the look at the source)",
        ])
        .and_plans(["wait schedulable +2m", "attention unobservable-schedulable cleared"])
        .after(2 * MINUTE)
        .stands_in(Phase::Draining);
}

#[test]
fn silence_before_it_and_of_another_source_does_not() {
    let mended = meanwhile(goes_stale("slurm")).and(meanwhile(is_fresh_again("slurm")));
    given([ready(), mended, asked(activate()), seen(slurm("DOWN")), meanwhile(goes_stale("netbox"))])
        .after(15 * MINUTE + JUDGED)
        .stands_in(Phase::Draining);
}

#[test]
fn a_drain_that_nobody_could_see_waits_in_the_same_way() {
    given([draining(), seen(slurm("ALLOCATED+DRAIN").own()), meanwhile(goes_stale("slurm"))])
        .after(8 * DAY)
        .then([
            "unobservable drain: slurm",
            "attention unobservable-drain: the deadline of drain fell due while slurm at lhr1 was not fresh (mend the look at the source)",
        ])
        .has_attention(["unobservable-drain"])
        .reference_changes(is_fresh_again("slurm"))
        .and_plans(["wait drain +2m", "attention unobservable-drain cleared"])
        .after(2 * MINUTE)
        .then(["attention drain: draining for more than 7 days (resume, quarantine, end the work)", "wait drain +7d"]);
}

/// A leader that has only just begun knows of no silence before its time.
#[test]
fn a_new_leader_waits_until_silence_would_have_shown() {
    given([ready(), asked(activate()), seen(slurm("DOWN")), after(15 * MINUTE)])
        .taken_over()
        .then_nothing()
        .after(JUDGED - SECOND)
        .then(["wait schedulable -4m"])
        .stands_in(Phase::InService)
        .after(SECOND)
        .stands_in(Phase::Draining);
}

#[test]
fn what_rests_on_no_source_waits_for_none() {
    given([ready(), asked(hold_until("h", START.plus(DAY))), meanwhile(goes_stale("slurm")), meanwhile(goes_stale("netbox"))])
        .taken_over()
        .after(DAY)
        .then(["hold h lifted by expiry"]);
}

/// The timers ask the next wait only, and one that does not stand leads to nothing.
#[test]
fn a_wait_that_is_not_due_or_does_not_stand_leads_to_nothing() {
    use fleet_lifecycle::Wait;
    use fleet_schemas::WaitKind::{self, *};
    for kind in [Drain, Schedulable, HoldExpiry, MaintenanceEnd, Look, FreezeEnd] {
        let mut story = given([draining(), asked(hold_until("h", START.plus(DAY)))]);
        let wait = |kind: WaitKind, name: &str| Wait { kind, name: name.into() };
        assert_eq!(story.run.expire(&wait(kind, "")).events, vec![], "{kind}");
        assert_eq!(story.run.expire(&wait(kind, "h")).events, vec![], "{kind}");
    }
    let story = given([draining(), asked(hold_until("h", START.plus(DAY)))]);
    assert_eq!(story.run.next_wait(), Some((START.plus(DAY), Wait { kind: HoldExpiry, name: "h".into() })), "the soonest");
}
