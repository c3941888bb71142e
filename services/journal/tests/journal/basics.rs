//! Commands and observations: what is answered, what is recorded.

use crate::reactions::Kept;
use crate::world::{START, World, command, device, drain, netbox, only_embedded, open, profile, register, site_stream, slurm, until};
use fleet_journal::{AskError, Clock, ManualClock, Rules};
use fleet_lifecycle::{Context, Decider, Entity, Fleet, Refusal, Request};
use fleet_log::{Faults, Unreliable};
use fleet_schemas::*;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_decided_once_and_its_answer_is_kept() {
    let world = World::new().await;
    let first = command(site_stream(), register());
    let answer = world.expect(&first, "").await;
    let again = world.expect(&first, "").await;
    assert!(!answer.repeated && again.repeated);
    assert_eq!(answer.decided, again.decided);
    let world = world.restart().await;
    let later = world.expect(&first, "").await;
    assert_eq!((later.decided.decision, later.repeated), (answer.decided.decision, true), "the answer outlives the process");
    let other = Command { reason: "something else".into(), ..first };
    assert_eq!(world.ask(&other).await, Err(AskError::IdReused));
    assert_eq!(world.replayed(0).await.decisions, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_part_of_the_history_and_changes_nothing() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let before = world.device(1).await.unwrap();
    let answer = world.expect(&command(device(1), Activate {}.into()), "phase-forbids").await;
    assert_eq!(answer.decided.outcome.kind, OutcomeKind::Rejected);
    assert_eq!(*world.device(1).await.unwrap(), *before);
    let ledger = world.replayed(device(1).partition(5)).await;
    let stream = &ledger.streams[&device(1)];
    assert_eq!(stream.head.version, answer.decided.version, "versions count decisions with events");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_command_is_refused_and_a_rehearsal_changes_nothing() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let expired = Command { not_after: world.clock.now().plus(-SECOND), ..command(device(1), drain()) };
    world.expect(&expired, "expired").await;
    let rehearsal = Command { dry_run: true, ..command(device(1), drain()) };
    let answer = world.expect(&rehearsal, "dry-run").await;
    assert!(answer.decided.outcome.seen.contains("PhaseChanged to Draining"), "{:?}", answer.decided.outcome);
    let refused = Command { dry_run: true, ..command(device(1), Activate {}.into()) };
    let answer = world.expect(&refused, "phase-forbids").await;
    assert_eq!(answer.decided.outcome.kind, OutcomeKind::Noted);
    assert_eq!(world.device(1).await.unwrap().phase, Some(Phase::InService));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observation_that_changes_nothing_leaves_no_record() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let partition = device(1).partition(5);
    let before = world.replayed(partition).await;
    for counter in 2..50 {
        world.journal.observe(&[slurm(1, counter, world.clock.now(), &["IDLE"])]).await.unwrap();
    }
    world.journal.observe(&[slurm(1, 50, world.clock.now(), &["DOWN"])]).await.unwrap();
    let after = until(|| async {
        let after = world.replayed(partition).await;
        if after.inputs.observations == before.inputs.observations + 49 { Ok(after) } else { Err(format!("{:?}", after.inputs)) }
    })
    .await;
    assert_eq!(after.decisions, before.decisions + 1, "only the last one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_observation_is_kept_without_effect() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let now = world.clock.now();
    world.journal.observe(&[slurm(1, 9, now, &["DOWN"]), slurm(1, 8, now, &["IDLE"])]).await.unwrap();
    until(|| async {
        let ledger = world.replayed(device(1).partition(5)).await;
        let device = ledger.streams[&device(1)].entity.device().unwrap().clone();
        let down = device.condition("SlurmSchedulable").is_some_and(|c| c.status == Status::False);
        if down && ledger.inputs.observations >= 4 { Ok(()) } else { Err(format!("{:?}", ledger.inputs)) }
    })
    .await;
    crate::defects::until_noted(&world, "late").await;
    let device = world.device(1).await.unwrap();
    assert_eq!(device.scheduler.as_ref().unwrap().state, ["DOWN"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_short_is_told_pending_and_asks_again_with_the_same_id() {
    static GATE: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
    fn decide(entity: &Entity, request: &Request, ctx: &Context<'_>) -> Result<Vec<Event>, Refusal> {
        drop(GATE.1.wait_while(GATE.0.lock().unwrap(), |open| !*open).unwrap());
        Fleet::decide(entity, request, ctx)
    }
    let folder = Arc::new(TempDir::new().unwrap());
    let log = open(&folder).await;
    let rules = Rules { decide, ..Rules::default() };
    let world = World::on(folder, log, Arc::new(ManualClock::new(START)), rules).await;
    let asked = command(site_stream(), register());
    assert_eq!(world.journal.ask(&asked, Duration::from_millis(20)).await, Err(AskError::Pending));
    *GATE.0.lock().unwrap() = true;
    GATE.1.notify_all();
    let answer = world.expect(&asked, "").await;
    assert_eq!(world.replayed(0).await.decisions, 1);
    assert_eq!(answer.decided.version, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_nobody_waits_for_is_decided_or_said_not_to_be_stored() {
    let folder = Arc::new(TempDir::new().unwrap());
    let log = Arc::new(Unreliable::new(open(&folder).await, "fm.commands.v1", 1, Faults::default()));
    let world = World::on(folder, log.clone(), Arc::new(ManualClock::new(START)), Rules::default()).await;
    world.journal.put(&command(site_stream(), register()), Duration::from_secs(20)).await.unwrap();
    until(|| async { if world.replayed(0).await.decisions == 1 { Ok(()) } else { Err("not decided".into()) } }).await;
    log.set(Faults { not_stored: 1000, ..Faults::default() });
    let refused = world.journal.put(&command(site_stream(), profile()), Duration::from_secs(20)).await;
    assert!(matches!(refused, Err(AskError::NotStored(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commands_at_once_are_each_decided_once_and_in_order() {
    let world = World::new().await;
    world.site().await;
    let now = world.clock.now();
    let devices: Vec<_> = (1..=100).map(|i| netbox(i, 1, now)).collect();
    world.journal.observe(&devices).await.unwrap();
    world.until_phase(100, Phase::Discovered).await;
    let hold = |i: i64, n: i64| command(device(i), PlaceHold { name: format!("h{n}"), expires_at: None }.into());
    let asks: Vec<_> = (1..=100).flat_map(|i| (0..5).map(move |n| (i, n))).map(|(i, n)| hold(i, n)).collect();
    let answers = futures::future::join_all(asks.iter().map(|c| world.ask(c))).await;
    assert!(answers.iter().all(|a| a.as_ref().unwrap().decided.outcome.kind == OutcomeKind::Accepted));
    for i in [1, 50, 100] {
        assert_eq!(world.device(i).await.unwrap().holds.len(), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_an_hour_runs_no_stream_backwards() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    world.site().await;
    world.in_service(1).await;
    world.granted(1).await;
    world.clock.advance(-HOUR);
    world.expect(&command(device(1), drain()), "").await;
    let device = world.device(1).await.unwrap();
    assert!(device.phase_since >= crate::world::START, "{}", device.phase_since);
    let world = world.restart().await;
    world.expect(&command(device_stream(), Resume {}.into()), "").await;
    assert!(world.replayed(device_stream().partition(5)).await.position.recorded_at >= crate::world::START.0);
}

fn device_stream() -> StreamId {
    device(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_cannot_take_the_folder() {
    if only_embedded("a_second_process_cannot_take_the_folder") {
        return;
    }
    let world = World::new().await;
    let second = fleet_log::sqlite::SqliteLog::open(world.folder.path()).err().unwrap();
    assert!(second.to_string().contains("in use"), "{second}");
    let (folder, log, _) = world.stop().await;
    drop(log);
    open(&folder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_satellite_whose_clock_is_an_hour_off_is_believed_and_shown() {
    let world = World::new().await;
    world.site().await;
    let now = world.clock.now();
    let wrong = Observation { observed_at: now.plus(HOUR), sent_at: now.plus(HOUR), ..netbox(3, 1, now) };
    world.journal.observe(&[wrong]).await.unwrap();
    world.until_phase(3, Phase::Discovered).await;
    let (mut reader, mut codes) =
        (world.log.read(&[(fleet_journal::Topics::embedded().at(topics::JOURNAL, device(3).partition(5)), 0)]), vec![]);
    while let Ok(fleet_log::Item::Record(stored)) = reader.next().await {
        if let Ok(JournalRecord::Decision(d)) = JournalRecord::decode(&stored.record.value) {
            codes.push(d.outcome.code.clone());
        }
    }
    assert!(codes.contains(&"clock-suspect".to_owned()), "{codes:?}");
}

/// A full disk refuses, and heals: what was acknowledged is there, nothing is there twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_that_was_acknowledged() {
    if only_embedded("a_full_disk_loses_nothing_that_was_acknowledged") {
        return;
    }
    let folder = std::sync::Arc::new(tempfile::TempDir::new().unwrap());
    let limits = fleet_log::sqlite::Limits { max_pages: Some(400) };
    let log = std::sync::Arc::new(fleet_log::sqlite::SqliteLog::open_with(folder.path(), limits).unwrap());
    fleet_log::EventLog::ensure(&*log, &fleet_journal::Topics::specs_embedded()).await.unwrap();
    let clock = std::sync::Arc::new(fleet_journal::ManualClock::new(crate::world::START));
    let world = World::on(folder, log, clock, fleet_journal::Rules::default()).await;
    world.site().await;
    world.in_service(1).await;
    let mut told = 0;
    loop {
        let hold = PlaceHold { name: format!("h{told}"), expires_at: None };
        let command = Command { reason: "x".repeat(2000), ..command(device(1), hold.into()) };
        match world.journal.ask(&command, Duration::from_secs(2)).await {
            Ok(answer) => {
                assert_eq!(answer.decided.outcome.kind, OutcomeKind::Accepted);
                told += 1;
            }
            Err(AskError::NotStored(_) | AskError::Pending) => break,
            Err(e) => panic!("{e}"),
        }
    }
    assert!(told > 20, "the disk was full too soon: {told}");
    let (folder, log, clock) = world.kill().await;
    drop(log);
    let log = open(&folder).await;
    let world = World::on(folder, log, clock, fleet_journal::Rules::default()).await;
    world.expect(&command(device(1), drain()), "").await;
    let holds = world.device(1).await.unwrap().holds.len();
    assert!(holds == told || holds == told + 1, "{told} told, {holds} there: one may have been stored and not told");
}
