//! Field report 5 (rust-rdkafka#509, #611): what hangs when it is dropped.

use fleet_tests::{Brokers, Fleet, World, crypto};
use reqwest::StatusCode;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// With no broker left, reads are served until the end, and a stop takes less than ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_brokers_serves_reads_and_stops_within_ten_seconds() {
    crypto();
    let (folder, options) = (TempDir::new().unwrap(), fleet_sim::Options { sites: 1, devices: 4, seed: 1, people: false, pace: 1.0 });
    let sim = fleet_sim::start(options).await.unwrap();
    let world = World::simulated(&sim, folder.path()).unwrap();
    let brokers = Brokers::start(folder.path(), 1, "").unwrap();
    let mut fleet = Fleet::prepare(folder.path(), &world, 1, brokers.options(), None).unwrap();
    fleet.start(0).await.unwrap();
    // Inputs are passed until the very end, so that a stop has something to record.
    fleet.start_satellite().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let api = fleet.operator(0).unwrap();
    brokers.signal(0, "KILL").unwrap();
    let begun = Instant::now();
    for _ in 0..5 {
        let answer = api.send(reqwest::Method::GET, "/api/v1/devices", None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    let begun = Instant::now();
    fleet.stop(0).await.unwrap();
    // What it gives itself is ten seconds; the machine of a test may be busy.
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?} to stop", begun.elapsed());
    sim.stop().await;
}
