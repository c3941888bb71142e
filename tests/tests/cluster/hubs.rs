//! Two hubs that share Kafka, PostgreSQL and a vault, as they stand in production.

use fleet_tests::{Api, Fleet, Stand, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LIST: &str = "/api/v1/sites/sim1/slurm-bootstrap-configs/";

async fn ask(api: &Api, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let bytes = body.to_string();
    let answer = api.send(method, path, (!body.is_null()).then_some(bytes.as_bytes()), &[]).await.unwrap();
    (answer.status, answer.body)
}

/// What is sealed at one hub is read at the other, and erased for both. A rolling restart fails no request of who asks the hub that is
/// there: each is stopped and started in turn, while the other is asked without a pause.
#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_are_one_service_and_a_rolling_restart_fails_no_request() {
    let Stand { folder: _folder, sim, database: _database, brokers: _brokers, mut fleet, .. } = Stand::quiet(8, 2, true).await.unwrap();
    fleet.start(0).await.unwrap();
    fleet.start(1).await.unwrap();
    fleet.start_satellite().await.unwrap();
    vaulted(&fleet).await;
    let refused = fleet.manager(0, &["publisher", "restart", "--config", "hub.toml"]).unwrap_err().to_string();
    assert!(refused.contains("stop every hub first"), "{refused}");
    for turn in 0..2 {
        let other = 1 - turn;
        let (stop, asking) = (Arc::new(AtomicBool::new(false)), fleet.operator(other).unwrap());
        let asked = tokio::spawn(unfailing(asking, stop.clone()));
        assert_eq!(fleet.stop(turn).await.unwrap(), Some(0));
        fleet.start(turn).await.unwrap();
        fleet.ready(turn).await.unwrap();
        stop.store(true, Ordering::Relaxed);
        let (reads, writes) = asked.await.unwrap();
        assert!(reads > 20 && writes > 5, "{reads} reads and {writes} writes");
        println!("hub {turn} was restarted: {reads} reads and {writes} commands at the other, none failed");
    }
    sim.stop().await;
}

async fn vaulted(fleet: &Fleet) {
    let (one, two) = (fleet.operator(0).unwrap(), fleet.operator(1).unwrap());
    let body = json!({"device_role": "gpu-node", "user_data": "Zm9v"});
    let (status, answer) = ask(&one, Method::POST, LIST, body).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    let path = format!("{LIST}gpu-node/");
    let read = until("the other hub shows it", || async {
        let (status, body) = ask(&two, Method::GET, &path, Value::Null).await;
        if status == StatusCode::OK { Ok(body) } else { Err(format!("{status} {body}")) }
    })
    .await;
    assert_eq!(read["user_data"], "Zm9v");
    let said = fleet.manager(0, &["vault", "erase", "--config", "hub.toml", "sim1", "gpu-node"]).unwrap();
    assert!(said.contains("can be read by nobody any more"), "{said}");
    for api in [&one, &two] {
        let (status, body) = ask(api, Method::GET, &path, Value::Null).await;
        assert_eq!((status, body["code"].as_str()), (StatusCode::GONE, Some("user-data-erased")), "{body}");
    }
}

/// Reads and commands, one after the other, until told to stop; gives how many of each.
async fn unfailing(api: Api, stop: Arc<AtomicBool>) -> (u32, u32) {
    let devices = api.all("/devices").await.unwrap();
    let (mut reads, mut writes) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        for device in &devices {
            let id = device["id"].as_str().unwrap();
            let (status, body) = ask(&api, Method::GET, &format!("/api/v1/devices/{id}"), Value::Null).await;
            assert_eq!(status, StatusCode::OK, "{body}");
            reads += 1;
        }
        let id = devices[writes as usize % devices.len()]["id"].as_str().unwrap();
        let verb = if writes % 2 == 0 { "hold" } else { "unhold" };
        let answer = api.command(id, verb, json!({"name": "rolling"})).await.unwrap();
        // Decided, one way or the other: never left open.
        assert!(answer.body["decision"].is_string(), "{} {}", answer.status, answer.body);
        writes += 1;
    }
    (reads, writes)
}
