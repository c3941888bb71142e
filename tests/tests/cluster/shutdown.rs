//! Field report 5 (rust-rdkafka#509, #611): what hangs when it is dropped.

use fleet_tests::Stand;
use reqwest::StatusCode;
use std::time::{Duration, Instant};

/// With no broker left, reads are served until the end, and a stop takes less than ten seconds.
#[tokio::test(flavor = "multi_thread")]
async fn a_hub_without_brokers_serves_reads_and_stops_within_ten_seconds() {
    let Stand { folder: _folder, sim, brokers, mut fleet, .. } = Stand::quiet(4, 1, false).await.unwrap();
    fleet.start(0).await.unwrap();
    // Inputs are passed until the very end, so that a stop has something to record.
    fleet.start_satellite().await.unwrap();
    fleet.shows(0, 4).await.unwrap();
    let api = fleet.operator(0).unwrap();
    brokers.signal(0, "KILL").unwrap();
    for _ in 0..50 {
        let answer = api.send(reqwest::Method::GET, "/api/v1/devices", None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    }
    let begun = Instant::now();
    fleet.stop(0).await.unwrap();
    // What it gives itself is ten seconds; the machine of a test may be busy.
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?} to stop", begun.elapsed());
    sim.stop().await;
}
