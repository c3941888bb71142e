//! What the fold makes of histories that no decision of this build writes, but an older or a later one might have.

use crate::dsl::*;
use fleet_schemas::*;
use uuid::Uuid;

fn planned(id: u128) -> Given {
    let task = TaskId(Uuid::from_u128(id));
    happened(TaskPlanned { task, kind: TaskKind::SlurmDrain, target: "gpu01".into(), mark: format!("fleet:{task}"), why: String::new() })
}

#[test]
fn sixteen_marks_are_remembered_and_one_plan_of_a_kind() {
    let story = given([discovered()]);
    let story = (1..=20).fold(story, |story, id| planned(id).told(story));
    let marks: Vec<_> = story.device().marks.iter().map(|task| task.0.as_u128()).collect();
    assert_eq!(marks, (5..=20).collect::<Vec<_>>());
    assert_eq!(story.device().tasks.len(), 1);
}

#[test]
fn what_was_not_tested_is_what_was_not_tested_lately() {
    let skipped = |stage| happened(StageSkipped { stage, reason: String::new() });
    let story = given([discovered(), skipped(Stage::Validate), skipped(Stage::BurnIn), put(Phase::Ready, None)]);
    assert_eq!(story.device().untested.len(), 2);
    let story = put(Phase::Validating, None).told(story);
    assert_eq!(story.device().untested.len(), 0);
}

#[test]
fn a_redirection_without_cause_keeps_the_cause() {
    let redirected = |cause: Option<&str>| happened(DrainRedirected { then: Then::Quarantine, cause: cause.map(str::to_owned) });
    let cause = |story: Story| story.device().cause.clone();
    let draining = || in_service().and(asked(quarantine()));
    assert_eq!(cause(given([draining(), redirected(None)])), Some("GpuFault".into()));
    assert_eq!(cause(given([draining(), redirected(Some("Leak"))])), Some("Leak".into()));
}

#[test]
fn an_older_edit_that_is_judged_late_does_not_bring_newer_ones_back() {
    let judged = |change_id| {
        let (user, edit, verb, result) = ("carol".into(), String::new(), String::new(), "unmapped".into());
        happened(EditJudged { change_id, user, edit, verb, result })
    };
    given([in_service(), judged(100), judged(90)]).seen(netbox().edit(95, "status", "active", "staged")).then(["inventory: status"]);
}

#[test]
fn attention_stands_since_it_was_first_raised() {
    let raised = |why: &str| happened(AttentionRaised { name: "drain".into(), why: why.into(), ways_out: vec![] });
    let story = given([discovered()]);
    let since = story.run.now;
    let story = raised("again").told(raised("first").told(story).after(DAY));
    let attention = &story.device().attention["drain"];
    assert_eq!((attention.since, attention.why.as_str()), (since, "again"));
}
