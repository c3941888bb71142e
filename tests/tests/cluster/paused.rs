//! A hub that is paused past its leases, and woken: what it had decided by then came too late.

use fleet_journal::{Applied, Ledger, Rules};
use fleet_log::Item;
use fleet_schemas::{JournalRecord, topics as names};
use fleet_tests::{Fleet, Load, Stand, ids, until};
use reqwest::Method;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DEVICES: u32 = 40;
/// How often a hub is paused at most: now and then one has nothing on its way.
const PAUSES: usize = 8;

/// Decisions of the whole journal, as every reader counts them.
#[derive(Default)]
struct Read {
    stands: BTreeSet<String>,
    late: BTreeSet<String>,
    /// Records dropped, decisions or not, of each partition.
    dropped: BTreeMap<u64, u64>,
}

/// What it had put on its way is dropped by every reader, all count the same, and nobody was told that it was decided.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_woken_hub_had_decided_is_dropped_by_every_reader_and_was_told_to_nobody() {
    let Stand { folder: _folder, sim, world, database: _database, brokers: _brokers, mut fleet, .. } =
        Stand::quiet(DEVICES, 2, true).await.unwrap();
    fleet.start(0).await.unwrap();
    fleet.start(1).await.unwrap();
    fleet.enrol(DEVICES as usize).await.unwrap();
    let load = Load::start(&fleet, &world.places[0].name, ids(&sim), 200);
    for _ in 0..PAUSES {
        overtaken(&mut fleet).await;
        if !read(&fleet).await.late.is_empty() {
            break;
        }
    }
    let done = load.settle(&mut fleet).await;
    let read = until("every hub counts what every reader drops", || async {
        let read = read(&fleet).await;
        for hub in 0..fleet.count() {
            let counted = partitions(&fleet, hub, "fenced").await?;
            if counted != read.dropped {
                return Err(format!("hub {hub}: {counted:?}, not {:?}", read.dropped));
            }
        }
        Ok(read)
    })
    .await;
    assert!(!read.late.is_empty(), "a hub was paused {PAUSES} times, and never had a decision on its way");
    let told: BTreeSet<_> = done.decisions.values().cloned().collect();
    assert!(told.is_disjoint(&read.late), "told, and dropped: {:?}", told.intersection(&read.late));
    assert!(told.is_subset(&read.stands), "told, and not in the journal: {:?}", told.difference(&read.stands));
    println!("{} decisions came too late; {} stand, {} of them were told", read.late.len(), read.stands.len(), told.len());
    sim.stop().await;
}

/// Pauses the hub that leads most until the other one leads everything, and wakes it.
async fn overtaken(fleet: &mut Fleet) {
    let leading = |hub| partitions(fleet, hub, "phase");
    let led = |phases: Result<BTreeMap<u64, Value>, String>| phases.unwrap().values().filter(|p| **p == "leading").count();
    let whom = usize::from(led(leading(1).await) > led(leading(0).await));
    let before: BTreeMap<u64, u64> = partitions(fleet, whom, "term").await.unwrap();
    fleet.signal(whom, "STOP").unwrap();
    until("the other hub leads", || async {
        let phases: BTreeMap<_, String> = partitions(fleet, 1 - whom, "phase").await?;
        if phases.values().all(|p| p == "leading") { Ok(()) } else { Err(format!("{phases:?}")) }
    })
    .await;
    fleet.signal(whom, "CONT").unwrap();
    until("the woken hub knows", || async {
        let now = partitions(fleet, whom, "term").await?;
        if now.iter().any(|(p, term)| before.get(p) != Some(term)) { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
}

/// What a hub says of each of its partitions.
async fn partitions<T: serde::de::DeserializeOwned>(fleet: &Fleet, hub: usize, what: &str) -> Result<BTreeMap<u64, T>, String> {
    let api = fleet.operator(hub).map_err(|e| e.to_string())?;
    let answer = api.send(Method::GET, "/readyz", None, &[]).await.map_err(|e| e.to_string())?;
    let all = answer.body["partitions"].as_array().cloned().ok_or("it names no partitions")?;
    if all.is_empty() {
        return Err("it names no partition".into());
    }
    let one = |p: &Value| Some((p["partition"].as_u64()?, serde_json::from_value(p[what].clone()).ok()?));
    all.iter().map(|p| one(p).ok_or_else(|| format!("no {what} in {p}"))).collect()
}

async fn read(fleet: &Fleet) -> Read {
    let (log, topics) = fleet.log_of_hubs().await.unwrap();
    let mut read = Read::default();
    for partition in 0..topics.partitions {
        let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
        let mut ledger = Ledger::new(partition, Rules::default());
        while let Item::Record(stored) = reader.next().await.unwrap() {
            match (ledger.apply(&stored).unwrap(), JournalRecord::decode(&stored.record.value).unwrap()) {
                (Applied::Decision(decision), _) => drop(read.stands.insert(decision.id.to_string())),
                (Applied::Dropped, JournalRecord::Decision(decision)) => drop(read.late.insert(decision.id.to_string())),
                _ => {}
            }
        }
        read.dropped.insert(partition.into(), ledger.fenced);
    }
    // Stored twice by a client that had no answer, and decided once.
    read.late.retain(|id| !read.stands.contains(id));
    read
}
