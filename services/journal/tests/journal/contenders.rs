//! Two journals on one log, both claiming: every command has one decision, whoever is asked.

use crate::world::{START, World, command, device, netbox, open};
use fleet_journal::{AskError, Config, Journal, ManualClock, Rules, Topics};
use fleet_log::EventLog;
use fleet_schemas::*;
use std::{sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

async fn second(log: Arc<dyn EventLog>, tasks: &mut JoinSet<Result<(), fleet_log::Error>>) -> Journal {
    let clock = Arc::new(ManualClock::new(START));
    Journal::start(Config { clock, ..Config::new(log, Topics::embedded()) }, tasks, CancellationToken::new()).await.unwrap()
}

/// Field report 25: two writers, one expected version: exactly one wins, concurrently.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_writers_with_one_expected_version_exactly_one_wins() {
    let folder = Arc::new(TempDir::new().unwrap());
    let log = open(&folder).await;
    let world = World::on(folder, log.clone(), Arc::new(ManualClock::new(START)), Rules::default()).await;
    world.site().await;
    world.journal.observe(&[netbox(1, 1, START)]).await.unwrap();
    world.until_phase(1, Phase::Discovered).await;
    let mut tasks = JoinSet::new();
    let other = second(log, &mut tasks).await;
    for round in 0..20u64 {
        let version = world.replayed(device(1).partition(5)).await.streams[&device(1)].head.version;
        let ask = |n: &str| {
            let hold = PlaceHold { name: format!("{n}{round}"), expires_at: None };
            Command { expected_version: Some(version), ..command(device(1), hold.into()) }
        };
        let (a, b) = (ask("a"), ask("b"));
        let (x, y) = tokio::join!(insist(&world.journal, &a), insist(&other, &b));
        let accepted = [&x, &y].iter().filter(|o| o.kind == OutcomeKind::Accepted).count();
        assert_eq!(accepted, 1, "round {round}: {x:?} {y:?}");
        assert!([&x, &y].iter().any(|o| o.code == "version-conflict"));
    }
    let ledger = world.replayed(device(1).partition(5)).await;
    assert!(ledger.position.term > 1, "the two must have taken the partition from each other");
    tasks.shutdown().await;
}

async fn insist(journal: &Journal, command: &Command) -> Outcome {
    for _ in 0..100 {
        match journal.ask(command, Duration::from_secs(1)).await {
            Ok(answer) => return (*answer.decided.outcome).clone(),
            Err(AskError::Pending | AskError::NotStored(_)) => {}
            Err(AskError::IdReused) => panic!("the id was used for another request"),
        }
    }
    panic!("no answer")
}
