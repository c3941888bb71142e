//! `make crash`: kill -9 at random instants, under load, and then everything is counted.
//!
//! The whole process is killed (log, journal, projector, agents with their outbox, API), also while it starts. The world it looks at
//! lives in this one and goes on. Afterwards: every acknowledged command has exactly one decision; no acknowledged observation is
//! missing below the accepted input position; every decision comes out the same when made again; the read model is the replay.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_journal::{Topics, replay};
use fleet_log::{EventLog, Item, sqlite::SqliteLog};
use fleet_schemas::*;
use fleet_tests::{Api, binary, crypto, redecide, seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Commands in flight.
const WIDTH: usize = 16;
const DEVICES: u32 = 60;

/// Decisions that were told, by command's key.
type Told = Arc<Mutex<HashMap<String, String>>>;

struct Bed {
    folder: TempDir,
    port: u16,
    config: PathBuf,
}

impl Bed {
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The last lines that the process logged.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("log.txt")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn spawn(&self) -> Child {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.path().join("log.txt")).unwrap();
        let mut process = Process::new(binary("fleet-manager"));
        process.arg("dev").arg("--data").arg(self.data()).args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        process.arg("--config").arg(&self.config).stdout(Stdio::null()).stderr(log).spawn().unwrap()
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_is_decided_twice() {
    crypto();
    let rounds: u32 = std::env::var("FM_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(20);
    let mut rng = ChaCha8Rng::seed_from_u64(seed(std::process::id().into()));
    let options = fleet_sim::Options { sites: 2, devices: DEVICES, seed: 1, people: true, pace: 20.0 };
    let sim = fleet_sim::start(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let config = fleet_tests::configure(&sim, folder.path());
    let bed = Bed { folder, port: free_port(), config };
    // By id: the world's people rename devices.
    let names: Vec<String> = sim.world.devices().iter().map(|d| DeviceId::from_netbox("sim", d.id as i64).to_string()).collect();
    let told: Told = Arc::default();
    let load = tokio::spawn(load(bed.data(), names, told.clone(), rng.random()));
    let started = Instant::now();
    for round in 0..rounds {
        let mut child = bed.spawn();
        // The first rounds let it come up, so that there is something to lose; later ones strike anywhere, the start included.
        let span = if round < 3 { rng.random_range(3000..6000) } else { rng.random_range(0..1500) };
        tokio::time::sleep(Duration::from_millis(span)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    println!("{rounds} kills in {:.0} s, {} commands answered", started.elapsed().as_secs_f64(), told.lock().unwrap().len());
    settle(&bed, load, &told).await;
    count(&bed, &told, rounds).await;
}

/// A last run in peace: everything open is answered, then a clean stop.
async fn settle(bed: &Bed, load: tokio::task::JoinHandle<()>, told: &Told) {
    let mut child = bed.spawn();
    let before = told.lock().unwrap().len();
    let patience = Instant::now() + Duration::from_secs(60);
    while told.lock().unwrap().len() < before + 3 * WIDTH {
        assert!(Instant::now() < patience, "no further command was answered after the last kill:\n{}", bed.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    load.abort();
    // A poll or two of everything.
    tokio::time::sleep(Duration::from_secs(3)).await;
    Process::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "a clean stop");
}

/// Commands for ever; each is repeated under its key until it is answered.
async fn load(data: PathBuf, names: Vec<String>, told: Told, seed: u64) {
    let lanes = (0..WIDTH).map(|lane| {
        let (data, names, told) = (data.clone(), names.clone(), told.clone());
        async move {
            let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(lane as u64));
            for n in 0u64.. {
                let device = &names[rng.random_range(0..names.len())];
                let (command, params) = match rng.random_range(0..6) {
                    0 => ("drain", json!({"then": "maintenance"})),
                    1 => ("resume", json!({})),
                    2 => ("end-maintenance", json!({})),
                    3 => ("activate", json!({})),
                    4 => ("unhold", json!({"name": format!("h{lane}")})),
                    _ => ("hold", json!({"name": format!("h{lane}")})),
                };
                let body = json!({"command": command, "reason": "crash", "params": params}).to_string();
                let key = format!("{lane}-{n}");
                let decision = insist(&data, device, &body, &key).await;
                told.lock().unwrap().insert(key, decision);
            }
        }
    });
    futures::future::join_all(lanes).await;
}

async fn insist(data: &Path, device: &str, body: &str, key: &str) -> String {
    loop {
        if let Ok(api) = Api::from_context(&data.join("fmctl.toml")).await {
            for _ in 0..1000 {
                let path = format!("/api/v1/devices/{device}/commands");
                let headers = [("idempotency-key", key)];
                match api.send(reqwest::Method::POST, &path, Some(body.as_bytes()), &headers).await {
                    Ok(answer) if answer.body["decision"].is_string() => return answer.body["decision"].as_str().unwrap().to_owned(),
                    // Not seen yet, pending, or the process is gone: again, under the same key.
                    Ok(answer) if answer.status != reqwest::StatusCode::UNAUTHORIZED => tokio::time::sleep(Duration::from_millis(50)).await,
                    Ok(_) | Err(_) => break,
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

async fn count(bed: &Bed, told: &Told, rounds: u32) {
    let log = SqliteLog::open_read_only(&bed.data().join("log")).unwrap();
    let topics = Topics::embedded();
    let references = redecide::references(&log).await.unwrap();
    let (mut decisions, mut again, mut silent, mut claims) = (BTreeSet::new(), 0, 0, 0);
    let mut by_command: HashMap<CommandId, u32> = HashMap::new();
    for partition in 0..topics.partitions {
        let (ledger, found) = replay::partition(&log, &topics, partition).await;
        assert!(found.sound(), "{found:?}");
        claims += ledger.position.term;
        for topic in [topics::COMMANDS, topics::OBSERVATIONS] {
            let end = log.bounds(topics.at(topic, partition)).await.unwrap().end;
            let accepted = if topic == topics::COMMANDS { ledger.inputs.commands } else { ledger.inputs.observations };
            assert_eq!(accepted, end, "{topic}/{partition}: every input lies below the accepted position");
        }
        let mut reader = log.read(&[(topics.at(topics::JOURNAL, partition), 0)]);
        let mut audit = fleet_journal::Ledger::new(partition, fleet_journal::Rules::default());
        while let Ok(Item::Record(stored)) = reader.next().await {
            if let fleet_journal::Applied::Decision(d) = audit.apply(&stored).unwrap() {
                decisions.insert(d.id.to_string());
                if let Some(command) = d.cause.command {
                    *by_command.entry(command).or_default() += 1;
                }
            }
        }
        let checked = redecide::partition(&log, partition, &references).await.unwrap();
        (again, silent) = (again + checked.decisions, silent + checked.silent);
    }
    let told = told.lock().unwrap();
    let lost: Vec<_> = told.iter().filter(|(_, d)| !decisions.contains(*d)).collect();
    assert!(lost.is_empty(), "told, and not in the journal: {lost:?}");
    let twice: Vec<_> = by_command.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "decided more than once: {twice:?}");
    let observations = all_handed_over(&log, bed).await;
    assert!(told.len() > 3 * WIDTH && claims as u32 >= rounds, "too little happened: {} told, {claims} claims", told.len());
    rebuilt(bed);
    println!(
        "{} decisions made again the same, {silent} silent inputs rightly so, {} commands told, {observations} observations handed over, {claims} claims",
        again,
        told.len()
    );
}

/// Whatever an agent ever queued is still queued, or was acknowledged and deleted: then the log has it. The queue's numbers are never
/// given out again, so they say how many there were.
async fn all_handed_over(log: &SqliteLog, bed: &Bed) -> usize {
    let mut there = BTreeSet::new();
    for partition in 0..Topics::embedded().partitions {
        let mut reader = log.read(&[(Topics::embedded().at(topics::OBSERVATIONS, partition), 0)]);
        while let Ok(Item::Record(stored)) = reader.next().await {
            there.insert(decode::<Observation>(&stored.record.value).unwrap().id);
        }
    }
    let outbox = rusqlite::Connection::open(bed.data().join("satellite/outbox.sqlite")).unwrap();
    let count = |sql: &str| outbox.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    let queued = count("SELECT seq FROM sqlite_sequence WHERE name = 'queue'");
    let waiting = count("SELECT count(*) FROM queue");
    assert!(there.len() as i64 >= queued - waiting, "{queued} queued, {waiting} of them still waiting, {} in the log", there.len());
    there.len()
}

/// The read model that was fed through all of it is the one made anew.
fn rebuilt(bed: &Bed) {
    let done = Process::new(binary("fleet-manager")).args(["projections", "rebuild", "--data"]).arg(bed.data()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && text.contains("row for row the same"), "{text}{}", String::from_utf8_lossy(&done.stderr));
}
