//! Stopped, killed, on a log that misbehaves: nothing acknowledged is lost, nothing is decided twice.

use crate::world::{START, World, command, device, netbox, open, until};
use fleet_journal::{AskError, Clock, Journal, ManualClock, Rules, Topics};
use fleet_log::{EventLog, Faults, Unreliable};
use fleet_schemas::*;
use rand::{Rng, SeedableRng};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tempfile::TempDir;

const DEVICES: i64 = 20;

fn hold(device_no: i64, n: usize) -> Command {
    command(device(device_no), PlaceHold { name: format!("h{n}"), expires_at: None }.into())
}

/// Asks until there is an answer, as a client with an idempotency key does.
async fn insist(journal: &Journal, command: &Command) -> fleet_journal::Answer {
    until(|| async {
        match journal.ask(command, Duration::from_secs(2)).await {
            Ok(answer) => Ok(answer),
            Err(e @ (AskError::Pending | AskError::NotStored(_))) => Err(e.to_string()),
            Err(AskError::IdReused) => panic!("the id was used for another request"),
        }
    })
    .await
}

/// Every command has exactly one decision in the journal, and it is the one that was told.
async fn each_once(world: &World, told: &HashMap<CommandId, fleet_journal::Answer>) {
    let mut seen: HashMap<CommandId, Vec<DecisionId>> = HashMap::new();
    for partition in 0..5 {
        world.replayed(partition).await;
        let at = Topics::embedded().at(topics::JOURNAL, partition);
        let (mut reader, mut ledger) = (world.log.read(&[(at, 0)]), fleet_journal::Ledger::new(partition, Rules::default()));
        while let Ok(fleet_log::Item::Record(stored)) = reader.next().await {
            if let fleet_journal::Applied::Decision(d) = ledger.apply(&stored).unwrap()
                && let Some(id) = d.cause.command
            {
                seen.entry(id).or_default().push(d.id);
            }
        }
    }
    for (id, answer) in told {
        assert_eq!(seen.get(id).map(Vec::as_slice), Some(&[answer.decided.decision][..]), "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_came_while_nobody_led_are_decided_after_the_start() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let (folder, log, clock) = world.stop().await;
    let at = Topics::embedded().at(topics::COMMANDS, device(1).partition(5));
    let asked = hold(1, 7);
    let record = fleet_log::Record { key: device(1).to_string().into(), value: encode(&asked).into() };
    log.append(at, vec![record]).await.unwrap();
    let world = World::on(folder, log, clock, Rules::default()).await;
    until(|| async {
        let holds = world.device(1).await.unwrap().holds.len();
        if holds == 1 { Ok(()) } else { Err(format!("{holds} holds")) }
    })
    .await;
    let partition = device(1).partition(5);
    let decided = world.replayed(partition).await.decisions;
    world.expect(&asked, "").await;
    assert_eq!(world.replayed(partition).await.decisions, decided, "decided once");
}

/// A stop in the middle of a batch, while an input of it is being parked in vain: the inputs before that one are read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_in_the_middle_of_a_batch_loses_nothing() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let (folder, log, clock) = world.stop().await;
    let asked = hold(1, 7);
    let record = |value: Vec<u8>| fleet_log::Record { key: device(1).to_string().into(), value: value.into() };
    let at = Topics::embedded().at(topics::COMMANDS, device(1).partition(5));
    log.append(at, vec![record(encode(&asked)), record(b"no avro".to_vec())]).await.unwrap();
    let unreliable = Arc::new(Unreliable::new(log.clone(), "fm.parked.v1", 1, Faults { not_stored: 1000, ..Faults::default() }));
    let world = World::on(folder, unreliable, clock, Rules::default()).await;
    let (folder, _, clock) = world.stop().await;
    let world = World::on(folder, log, clock, Rules::default()).await;
    until(|| async {
        let holds = world.device(1).await.unwrap().holds.len();
        if holds == 1 { Ok(()) } else { Err(format!("{holds} holds")) }
    })
    .await;
}

/// Loops ended at any await point, again and again, under commands; then everything is counted.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_point_nothing_is_lost_and_nothing_decided_twice() {
    let seed = std::env::var("FM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(11);
    println!("FM_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let mut world = World::new().await;
    world.site().await;
    let mut told = HashMap::new();
    for round in 0..25 {
        let now = world.clock.now();
        let observed: Vec<_> = (1..=DEVICES).map(|i| netbox(i, round + 1, now)).collect();
        world.journal.observe(&observed).await.unwrap();
        let commands: Vec<_> = (1..=DEVICES).map(|i| hold(i, round as usize)).collect();
        let asks: Vec<_> = commands.iter().map(|c| world.journal.ask(c, Duration::from_secs(5))).collect();
        let patience = Duration::from_micros(rng.random_range(0..8000));
        // Whoever is answered in time was told; the others ask again after the restart.
        let _ = tokio::time::timeout(patience, futures::future::join_all(asks)).await;
        let (folder, log, clock) = world.kill().await;
        clock.advance(SECOND);
        world = World::on(folder, log, clock, Rules::default()).await;
        for command in &commands {
            told.insert(command.id, insist(&world.journal, command).await);
        }
    }
    each_once(&world, &told).await;
    assert_eq!(told.len(), 25 * DEVICES as usize);
    assert_eq!(world.device(DEVICES).await.unwrap().holds.len(), 25);
}

/// Appends to the journal are refused, lost, halved, doubled, delayed; who was told yes is in the journal, once.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_misbehaves_costs_time_and_nothing_else() {
    for seed in [1, 2, 3] {
        println!("seed {seed}");
        let folder = Arc::new(TempDir::new().unwrap());
        let inner = open(&folder).await;
        let unreliable = Arc::new(Unreliable::new(inner, "fm.journal.v1", seed, Faults::default()));
        let world = World::on(folder, unreliable.clone() as Arc<dyn EventLog>, Arc::new(ManualClock::new(START)), Rules::default()).await;
        world.site().await;
        let observed: Vec<_> = (1..=DEVICES).map(|i| netbox(i, 1, START)).collect();
        world.journal.observe(&observed).await.unwrap();
        world.until_phase(DEVICES, Phase::Discovered).await;
        unreliable.set(Faults::storm());
        let mut told = HashMap::new();
        for n in 0..40 {
            let commands: Vec<_> = (1..=DEVICES).map(|i| hold(i, n)).collect();
            let answers = futures::future::join_all(commands.iter().map(|c| insist(&world.journal, c))).await;
            told.extend(commands.iter().map(|c| c.id).zip(answers));
        }
        unreliable.set(Faults::default());
        each_once(&world, &told).await;
        let claims: u64 = world.journal.statuses().iter().map(|s| s.stats.claims).sum();
        assert!(claims > 5, "the faults must have made somebody step down: {claims} claims");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_is_recorded_after_many_inputs_without_a_decision_and_at_a_clean_stop() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let partition = device(1).partition(5);
    let before = world.replayed(partition).await.position.next;
    let same: Vec<_> = (2..10_102).map(|c| crate::world::slurm(1, c, START, &["IDLE"])).collect();
    world.journal.observe(&same).await.unwrap();
    until(|| async {
        let ledger = world.replayed(partition).await;
        if ledger.inputs.observations >= 10_000 { Ok(()) } else { Err(format!("{:?}", ledger.inputs)) }
    })
    .await;
    let first = world.replayed(partition).await.position.next;
    assert_eq!(first, before + 1, "a Progress for the first ten thousand");
    // The others are too few for one, and no time passes: it takes a clean stop, or as many as it takes to have read them all.
    let (mut world, mut stops) = (world, 0);
    while world.replayed(partition).await.inputs.observations < 10_102 {
        world = world.restart().await;
        stops += 1;
        assert!(stops < 1000, "a clean stop does not say how far the inputs were read");
    }
    let records = world.replayed(partition).await.position.next - first;
    assert!(records <= 2 * stops, "at each stop at most a Progress, and the next claim: {records} for {stops}");
}
