//! Two hubs on what was grown: how soon one serves and leads, what it holds, and how soon the other leads when it is killed.

use crate::bed::Outside;
use crate::cpu;
use crate::table::{Table, at_most, short};
use fleet_tests::{Api, Fleet, Place, World};
use reqwest::Method;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);
/// How often the other one is killed.
const KILLS: usize = 5;

pub async fn measure(folder: &Path, outside: &Outside, table: &mut Table) {
    // One of the bed's sites; nobody looks at it.
    let place = Place { name: crate::bed::site(0).to_string(), slurm: None, roles: String::new() };
    let world = World { places: vec![place], netbox: ("bench".into(), "http://127.0.0.1:1".into(), folder.join("none")) };
    let mut fleet = Fleet::prepare(folder, &world, 2, outside.brokers.options(), Some(&outside.database)).unwrap();
    let started = Instant::now();
    fleet.launch(0).unwrap();
    let first = fleet.operator(0).unwrap();
    while !first.get("/devices?limit=50").await.is_ok_and(|a| a["items"].as_array().is_some_and(|i| i.len() == 50)) {
        assert!(started.elapsed() < PATIENCE, "the hub does not serve:\n{}", fleet.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let serving = started.elapsed();
    leads(&fleet, 0).await;
    let leading = started.elapsed();
    table.row("cold start with data → serving reads", "≤ 5 s", short(serving), at_most(serving, Duration::from_secs(5)));
    table.row("restart → leading every partition, all of it replayed", "–", short(leading), "stated");
    let mib = crate::processes::memory(fleet.pid(0).unwrap());
    let verdict = if mib <= 250 { "met" } else { "missed" };
    table.row("memory of that process (leader and read model)", "leader ≤ 250 MB", format!("{mib} MiB"), verdict);
    let mut took = Vec::new();
    for kill in 0..KILLS {
        let (leader, other) = (kill % 2, 1 - kill % 2);
        rests(&fleet, leader).await;
        fleet.start(other).await.unwrap();
        stands_by(&fleet, other).await;
        rests(&fleet, other).await;
        fleet.signal(leader, "KILL").unwrap();
        let killed = Instant::now();
        leads(&fleet, other).await;
        took.push(killed.elapsed());
    }
    took.sort_unstable();
    let (p50, most) = (took[KILLS / 2], took[KILLS - 1]);
    let ours = format!("p50 {}, max {} of {KILLS}", short(p50), short(most));
    table.row("kill -9 of one hub → the other leads every partition", "≤ 3 s", ours, at_most(most, Duration::from_secs(3)));
}

/// Until a hub has done what it does once: the first one publishes all of the journal.
async fn rests(fleet: &Fleet, hub: usize) {
    let (pid, started) = (fleet.pid(hub).unwrap().to_string(), Instant::now());
    loop {
        let before = cpu::of(&pid);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if cpu::of(&pid) - before < Duration::from_millis(150) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "hub {hub} does not come to rest");
    }
}

/// Until a hub leads everything.
async fn leads(fleet: &Fleet, hub: usize) {
    until(fleet, hub, |phase| phase == "leading").await;
}

/// Until a hub has read all of it.
async fn stands_by(fleet: &Fleet, hub: usize) {
    until(fleet, hub, |phase| phase == "leading" || phase == "standby").await;
}

async fn until(fleet: &Fleet, hub: usize, fits: impl Fn(&Value) -> bool) {
    let (api, started): (Api, _) = (fleet.operator(hub).unwrap(), Instant::now());
    let all = async || {
        let answer = api.send(Method::GET, "/readyz", None, &[]).await.ok()?;
        answer.body["partitions"].as_array().map(|all| all.iter().all(|p| fits(&p["phase"])))
    };
    while all().await != Some(true) {
        assert!(started.elapsed() < PATIENCE, "hub {hub} does not come so far:\n{}", fleet.log());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
