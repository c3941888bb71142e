//! `make downstream`: a consumer that others could have written (tests/downstream/consumer.py) builds its own tables from the public topics
//! while a fleet lives, is killed and started again, and ends equal to the API. What it counted is what the journal gives.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_hub::published;
use fleet_journal::{Applied, Ledger, Rules};
use fleet_log::Item;
use fleet_schemas::{Event, StreamId, topics as names};
use fleet_tests::{Brokers, Fleet, World, crypto, repository, until_within};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

const DEVICES: u32 = 60;
/// Fields that a row of the API's list and a device's public state have in common.
const COMMON: [&str; 8] = ["name", "site", "role", "rack", "slurm_node", "phase", "owner", "tenant_state"];

fn python(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("FM_PYTHON").unwrap_or_else(|_| "python3".into()));
    command.arg(repository("tests/downstream/consumer.py")).args(args).stdin(Stdio::null());
    command
}

struct Consumer<'a> {
    fleet: &'a Fleet,
    table: &'a str,
}

impl Consumer<'_> {
    fn start(&self, idle: &[&str]) -> Child {
        let schemas = repository("schemas/avro/published");
        let k = &self.fleet.kafka;
        let args = ["--brokers", &k.bootstrap, "--prefix", &k.prefix, "--schemas", schemas.to_str().unwrap(), "--table", self.table];
        python(&args).args(idle).spawn().unwrap()
    }

    /// Reads for a while, and is killed.
    async fn killed_after(&self, span: Duration) {
        let mut child = self.start(&[]);
        tokio::time::sleep(span).await;
        assert!(child.try_wait().unwrap().is_none(), "the consumer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Reads until nothing comes any more; gives its tables.
    fn tables(&self) -> Value {
        assert!(self.start(&["--idle", "5"]).wait().unwrap().success(), "the consumer found a fault");
        let dumped = python(&["--table", self.table, "--dump"]).output().unwrap();
        serde_json::from_slice(&dumped.stdout).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_from_the_public_topics_equals_the_api_and_lacks_nothing() {
    crypto();
    let options = fleet_sim::Options { sites: 2, devices: DEVICES, seed: 3, people: true, pace: 30.0 };
    let (folder, sim) = (TempDir::new().unwrap(), fleet_sim::start(options).await.unwrap());
    let world = World::simulated(&sim, folder.path()).unwrap();
    let brokers = Brokers::start(folder.path(), 1, "").unwrap();
    let mut fleet = Fleet::prepare(folder.path(), &world, 2, brokers.options()).unwrap();
    fleet.start(0).await.unwrap();
    fleet.start(1).await.unwrap();
    fleet.start_satellite().await.unwrap();
    let table = folder.path().join("table.sqlite");
    let table = table.to_str().unwrap();
    for span in [3, 5, 4] {
        Consumer { fleet: &fleet, table }.killed_after(Duration::from_secs(span)).await;
        commands(&fleet).await;
    }
    // Whoever publishes is killed as well: what the other repeats is dropped.
    fleet.signal(1, "KILL").unwrap();
    Consumer { fleet: &fleet, table }.killed_after(Duration::from_secs(6)).await;
    fleet.end_satellite();
    let (mine, api) = equal(&fleet, &Consumer { fleet: &fleet, table }).await;
    assert_eq!(mine["devices"].as_object().unwrap().len(), api.len());
    complete(&fleet, &mine).await;
    println!("{} devices, tally {}", api.len(), mine["tally"]);
    assert_eq!(fleet.stop(0).await.unwrap(), Some(0));
    sim.stop().await;
}

/// Something of every kind happens to some devices.
async fn commands(fleet: &Fleet) {
    let api = fleet.operator(0).unwrap();
    for device in api.all("/devices").await.unwrap_or_default().iter().step_by(7) {
        let id = device["id"].as_str().unwrap();
        for (command, params) in [("hold", json!({"name": "look"})), ("drain", json!({"then": "maintenance"})), ("unhold", json!({"name": "look"}))] {
            // Refusals are part of life.
            api.command(id, command, params).await.unwrap();
        }
    }
}

/// Waits until both say the same; gives the tables, and the API's devices by id.
async fn equal(fleet: &Fleet, consumer: &Consumer<'_>) -> (Value, BTreeMap<String, Value>) {
    let api = fleet.operator(0).unwrap();
    until_within(Duration::from_secs(120), "the table equals the API", || async {
        let mine = tokio::task::block_in_place(|| consumer.tables());
        let listed: BTreeMap<String, Value> =
            api.all("/devices").await.unwrap().into_iter().map(|d| (d["id"].as_str().unwrap().to_owned(), d)).collect();
        for (id, row) in &listed {
            let state = &mine["devices"][id];
            if let Some(field) = COMMON.iter().find(|f| row[**f] != state[**f]) {
                return Err(format!("{id}: {field} is {} in the API and {} in the table", row[*field], state[*field]));
            }
            if state["version"] != row["version"] || (!row["phase"].is_null() && mine["phases"][id] != row["phase"]) {
                return Err(format!("{id}: version {} and phase {} by events", state["version"], mine["phases"][id]));
            }
        }
        Ok((mine, listed))
    })
    .await
}

/// The consumer counted, for each topic and subject, what the journal gives; and its conditions are those of the states.
async fn complete(fleet: &Fleet, mine: &Value) {
    let (log, topics) = fleet.log_of_hubs().await.unwrap();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for partition in 1..topics.partitions {
        let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
        let mut ledger = Ledger::new(partition, Rules::default());
        while let Ok(Item::Record(stored)) = reader.next().await {
            let Applied::Decision(decision) = ledger.apply(&stored).unwrap() else { continue };
            for payload in &decision.events {
                let event = Event::decode(&decision.stream, payload).unwrap();
                if let Some((topic, _)) = published(&decision.stream, &event) {
                    *counts.entry(format!("{} {}", names::name(topic), decision.stream)).or_default() += 1;
                }
            }
        }
        for (id, stream) in &ledger.streams {
            let (StreamId::Device(device), Some(state)) = (id, stream.entity.device()) else { continue };
            for c in state.conditions.iter() {
                let told = &mine["conditions"][format!("{device} {} {}", c.r#type, c.subject)];
                assert_eq!(*told, json!([c.status.as_str(), c.reason]), "{device} {}", c.r#type);
            }
        }
    }
    assert!(counts.len() > DEVICES as usize, "too little happened: {counts:?}");
    assert_eq!(mine["seqs"], json!(counts), "what was counted, and what the journal gives");
}
