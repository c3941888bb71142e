//! What a SLURM agent asks, how often, and with which rights: its contract, behind recorders. Here a minute is a second; `FM_RHYTHM=60`
//! makes it a minute (`cargo test --test main -- --nocapture rhythm`, 31 minutes).

use fleet_tests::recorder::{Call, Recorder};
use fleet_tests::{Pair, Rhythm, World, until_within};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Minutes that are watched.
const MINUTES: u64 = 31;

#[tokio::test(flavor = "multi_thread")]
async fn one_node_list_a_minute_one_device_list_each_five_one_full_send_each_fifteen() {
    let minute: u64 = std::env::var("FM_RHYTHM").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let sim =
        fleet_sim::start(fleet_sim::Options { sites: 1, devices: 24, people: false, pace: 0.001, ..Default::default() }).await.unwrap();
    let folder = TempDir::new().unwrap();
    let mut world = World::simulated(&sim, folder.path()).unwrap();
    let slurm = Recorder::before(&world.places[0].slurm.as_ref().unwrap().0).await.unwrap();
    world.places[0].slurm.as_mut().unwrap().0.clone_from(&slurm.url);
    let rhythm = Rhythm { interval: minute, list: 5 * minute, resync: 15 * minute, sweep: 15 * minute, window: 10 * minute.max(6) };
    let mut pair = Pair::prepare(folder.path(), &world, rhythm).unwrap();
    let hub = Recorder::before(&pair.url).await.unwrap();
    pair.satellite_calls(&hub.url, &world, rhythm).unwrap();
    pair.start().await.unwrap();
    let lists = || hub.calls().into_iter().filter(|c| c.method == "GET" && c.path.starts_with("/api/v1/devices?")).collect::<Vec<_>>();
    // The fleet comes up: devices are listed, linked, and looked at.
    until_within(Duration::from_secs(60 + 2 * minute), "conditions of every node", || async {
        let conditions = posted(&hub, "conditions:batch");
        if conditions.iter().any(|c| c.json()["conditions"].as_array().is_some_and(|a| a.len() > 20)) {
            Ok(())
        } else {
            Err(conditions.len())
        }
    })
    .await;
    let begun = Instant::now();
    let (nodes, first_lists) = (node_lists(&slurm).len(), lists().len());
    tokio::time::sleep(Duration::from_secs(MINUTES * minute)).await;
    let took = begun.elapsed().as_secs_f64() / minute as f64;
    let (nodes, device_lists) = (node_lists(&slurm).len() - nodes, lists().len() - first_lists);
    let sections = |c: &Call| c.json()["devices"].as_array().map_or(0, Vec::len);
    let all = posted(&hub, "devices:batch").iter().map(sections).max().unwrap_or_default();
    let full = posted(&hub, "devices:batch").into_iter().filter(|c| c.asked_at >= begun && sections(c) == all).count();
    println!("{took:.1} minutes of {minute} s: {nodes} node lists, {device_lists} device lists, {full} full sends");
    let about = |count: usize, every: f64| (count as f64 - took / every).abs() <= 1.0 + took * 0.04 / every;
    assert!(about(nodes, 1.0), "{nodes} node lists in {took:.1} minutes");
    assert!(about(device_lists, 5.0), "{device_lists} device lists in {took:.1} minutes");
    assert!(about(full, 15.0), "{full} full sends in {took:.1} minutes");
    nothing_beyond_the_contract(&hub, &slurm);
    pair.stop().await.unwrap();
    sim.stop().await;
}

fn node_lists(slurm: &Recorder) -> Vec<Call> {
    slurm.calls().into_iter().filter(|c| c.path.starts_with("/slurm/") && c.path.trim_end_matches('/').ends_with("/nodes")).collect()
}

fn posted(hub: &Recorder, route: &str) -> Vec<Call> {
    hub.calls().into_iter().filter(|c| c.path.ends_with(route)).collect()
}

/// SLURM is only read; of the hub nothing is asked that the two scopes of the SLURM agent, or the one of the NetBox agent, do not give.
fn nothing_beyond_the_contract(hub: &Recorder, slurm: &Recorder) {
    let writes: Vec<_> = slurm.calls().into_iter().filter(|c| c.method != "GET").map(|c| c.path).collect();
    assert!(writes.is_empty(), "SLURM was asked to change something: {writes:?}");
    let allowed = |c: &Call| match (c.method.as_str(), c.path.split('?').next().unwrap_or_default()) {
        ("GET", "/.well-known/oauth-authorization-server" | "/api/v1/devices") | ("POST", "/oauth/token") => true,
        ("POST", path) => path.ends_with("/conditions:batch") || path.ends_with("/observations:batch"),
        ("PATCH", path) => path.ends_with("/devices:batch"),
        _ => false,
    };
    let beyond: Vec<_> = hub.calls().into_iter().filter(|c| !allowed(c)).map(|c| format!("{} {}", c.method, c.path)).collect();
    assert!(beyond.is_empty(), "beyond the contract: {beyond:?}");
    let refused: Vec<_> =
        hub.calls().iter().filter_map(|c| c.answer.as_ref().map(|a| (c.path.clone(), a.status))).filter(|(_, s)| *s >= 400).collect();
    assert!(refused.is_empty(), "the hub refused: {refused:?}");
    for call in hub.calls().iter().filter(|c| c.path == "/oauth/token") {
        let answer = call.answer.as_ref().map(|a| String::from_utf8_lossy(&a.body).into_owned()).unwrap_or_default();
        let scopes = ["\"scope\":\"device:update device-condition:create\"", "\"scope\":\"observation:create\""];
        assert!(scopes.iter().any(|s| answer.contains(s)), "a token with other scopes: {answer}");
    }
}
