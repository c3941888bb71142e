//! `make downstream`: a consumer that others could have written (tests/downstream/consumer.py) builds its own tables from the public topics
//! while a fleet lives, is killed and started again, and ends equal to the API. What it counted is what the journal gives.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_tests::{Consumer, Fleet, Stand, until_within};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const DEVICES: u32 = 60;
/// Fields that a row of the API's list and a device's public state have in common.
const COMMON: [&str; 8] = ["name", "site", "role", "rack", "slurm_node", "phase", "owner", "tenant_state"];

#[tokio::test(flavor = "multi_thread")]
async fn a_table_from_the_public_topics_equals_the_api_and_lacks_nothing() {
    let options = fleet_sim::Options { sites: 2, devices: DEVICES, seed: 3, people: true, pace: 30.0 };
    let Stand { folder, sim, database: _database, brokers: _brokers, mut fleet, .. } = Stand::new(options, 2, 1, true).await.unwrap();
    fleet.start(0).await.unwrap();
    fleet.start(1).await.unwrap();
    fleet.start_satellite().await.unwrap();
    let table = folder.path().join("table.sqlite");
    let table = table.to_str().unwrap();
    for records in [20, 200, 100] {
        Consumer { fleet: &fleet, table }.killed_after(records).await;
        commands(&fleet, 0).await;
    }
    // Whoever publishes is killed as well, the first hub that there was: what the other repeats is dropped.
    fleet.signal(0, "KILL").unwrap();
    fleet.end_satellite();
    commands(&fleet, 1).await;
    Consumer { fleet: &fleet, table }.killed_after(10).await;
    let (mine, api) = equal(&fleet, &Consumer { fleet: &fleet, table }).await;
    assert_eq!(mine["devices"].as_object().unwrap().len(), api.len());
    assert!(mine["seqs"].as_object().unwrap().len() > DEVICES as usize, "too little happened: {}", mine["seqs"]);
    Consumer { fleet: &fleet, table }.is_complete(&mine).await;
    println!("{} devices, tally {}", api.len(), mine["tally"]);
    assert_eq!(fleet.stop(1).await.unwrap(), Some(0));
    sim.stop().await;
}

/// Something of every kind happens to some devices.
async fn commands(fleet: &Fleet, hub: usize) {
    let api = fleet.operator(hub).unwrap();
    for device in api.all("/devices").await.unwrap_or_default().iter().step_by(7) {
        let id = device["id"].as_str().unwrap();
        for (command, params) in
            [("hold", json!({"name": "look"})), ("drain", json!({"then": "maintenance"})), ("unhold", json!({"name": "look"}))]
        {
            // Refusals are part of life.
            api.command(id, command, params).await.unwrap();
        }
    }
}

/// Waits until both say the same; gives the tables, and the API's devices by id.
async fn equal(fleet: &Fleet, consumer: &Consumer<'_>) -> (Value, BTreeMap<String, Value>) {
    let api = fleet.operator(1).unwrap();
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
