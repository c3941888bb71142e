//! `make crash`: kill -9 at random instants, under load, and then everything is counted.
//!
//! Hub and satellite are two processes with the wire between them; each round kills the one, the other, or both, also while they start. The
//! world that the satellite looks at lives in this process and goes on. Afterwards: every acknowledged command has exactly one decision; no
//! acknowledged observation is missing below the accepted input position; every decision comes out the same when made again; the read
//! model is the replay.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_journal::{Topics, replay};
use fleet_log::{EventLog, Item};
use fleet_schemas::{topics as names, *};
use fleet_tests::{Api, Pair, Rhythm, World, crypto, redecide, seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Commands in flight.
const WIDTH: usize = 16;
const DEVICES: u32 = 60;

/// Decisions that were told, by command's key.
type Told = Arc<Mutex<HashMap<String, String>>>;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_and_nothing_is_decided_twice() {
    crypto();
    let rounds: u32 = std::env::var("FM_CRASH_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(20);
    let mut rng = ChaCha8Rng::seed_from_u64(seed(std::process::id().into()));
    let options = fleet_sim::Options { sites: 2, devices: DEVICES, seed: 1, people: true, pace: 20.0 };
    let sim = fleet_sim::start(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let world = World::simulated(&sim, folder.path()).unwrap();
    let mut pair = Pair::prepare(folder.path(), &world, Rhythm::QUICK).unwrap();
    // By id: the world's people rename devices.
    let names = fleet_tests::ids(&sim);
    let told: Told = Arc::default();
    // Once in peace, so that the hub has its key.
    pair.start_hub().await.unwrap();
    let way = Way { url: pair.url.clone(), token: pair.operator().unwrap(), renewed: Instant::now() };
    let way = Arc::new(Mutex::new(way));
    let load = tokio::spawn(load(way.clone(), names, told.clone(), rng.random()));
    let (started, mut kills) = (Instant::now(), [0; 3]);
    for round in 0..rounds {
        match round {
            0..3 => start(&mut pair).await,
            _ => pair.launch_missing().unwrap(),
        }
        if way.lock().unwrap().renewed.elapsed() > Duration::from_secs(120) {
            let token = pair.operator().unwrap();
            let mut way = way.lock().unwrap();
            (way.token, way.renewed) = (token, Instant::now());
        }
        // The first rounds let it come up, so that there is something to lose; later ones strike anywhere, the start included.
        let span = if round < 3 { rng.random_range(3000..6000) } else { rng.random_range(0..1500) };
        tokio::time::sleep(Duration::from_millis(span)).await;
        let which = rng.random_range(0..3);
        kills[which] += 1;
        if which != 1 {
            pair.kill_hub();
        }
        if which != 0 {
            pair.kill_satellite();
        }
    }
    let [hub, satellite, both] = kills;
    let told_by_now = told.lock().unwrap().len();
    println!(
        "{rounds} kills ({hub} of the hub, {satellite} of the satellite, {both} of both) in {:.0} s, {told_by_now} commands answered",
        started.elapsed().as_secs_f64()
    );
    settle(&mut pair, load, &told).await;
    count(&pair, &told, hub + both).await;
    sim.stop().await;
}

/// Both, as far as they do not run. One that was killed a moment ago may not have let go of its port yet.
async fn start(pair: &mut Pair) {
    let patience = Instant::now() + Duration::from_secs(30);
    while let Err(error) = pair.start_missing().await {
        assert!(Instant::now() < patience, "{error:#}");
    }
}

/// Where commands go.
struct Way {
    url: String,
    token: String,
    renewed: Instant,
}

/// A last run in peace: everything open is answered and handed over, then a clean stop.
async fn settle(pair: &mut Pair, load: tokio::task::JoinHandle<()>, told: &Told) {
    start(pair).await;
    let before = told.lock().unwrap().len();
    let patience = Instant::now() + Duration::from_secs(60);
    while told.lock().unwrap().len() < before + 3 * WIDTH {
        assert!(Instant::now() < patience, "no further command was answered after the last kill:\n{}", pair.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    load.abort();
    // A poll or two of everything.
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(pair.stop().await.unwrap(), (Some(0), Some(0)), "a clean stop");
}

/// Commands for ever; each is repeated under its key until it is answered.
async fn load(way: Arc<Mutex<Way>>, names: Vec<String>, told: Told, seed: u64) {
    let lanes = (0..WIDTH).map(|lane| {
        let (way, names, told) = (way.clone(), names.clone(), told.clone());
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
                let decision = insist(&way, device, &body, &key).await;
                told.lock().unwrap().insert(key, decision);
            }
        }
    });
    futures::future::join_all(lanes).await;
}

async fn insist(way: &Mutex<Way>, device: &str, body: &str, key: &str) -> String {
    loop {
        let api = {
            let way = way.lock().unwrap();
            Api::with_token(&way.url, &way.token).unwrap()
        };
        let path = format!("/api/v1/devices/{device}/commands");
        let headers = [("idempotency-key", key)];
        match api.send(reqwest::Method::POST, &path, Some(body.as_bytes()), &headers).await {
            Ok(answer) if answer.body["decision"].is_string() => return answer.body["decision"].as_str().unwrap().to_owned(),
            // Not seen yet, pending, a token that has ended, or the process is gone: again, under the same key.
            Ok(_) | Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn count(pair: &Pair, told: &Told, hub_kills: u32) {
    let (log, topics) = pair.log_of_hub().await.unwrap();
    let references = redecide::references(&*log, &topics).await.unwrap();
    let (mut decisions, mut again, mut silent, mut claims) = (BTreeSet::new(), 0, 0, 0);
    let mut by_command: HashMap<CommandId, u32> = HashMap::new();
    for partition in 0..topics.partitions {
        let (ledger, found) = replay::partition(&*log, &topics, partition).await;
        assert!(found.sound(), "{found:?}");
        claims += ledger.position.term;
        for topic in [names::COMMANDS, names::OBSERVATIONS] {
            let end = log.bounds(topics.at(topic, partition)).await.unwrap().end;
            let accepted = if topic == names::COMMANDS { ledger.inputs.commands } else { ledger.inputs.observations };
            assert_eq!(accepted, end, "{topic}/{partition}: every input lies below the accepted position");
        }
        let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
        let mut audit = fleet_journal::Ledger::new(partition, fleet_journal::Rules::default());
        while let Ok(Item::Record(stored)) = reader.next().await {
            if let fleet_journal::Applied::Decision(d) = audit.apply(&stored).unwrap() {
                decisions.insert(d.id.to_string());
                if let Some(command) = d.cause.command {
                    *by_command.entry(command).or_default() += 1;
                }
            }
        }
        let checked = redecide::partition(&*log, &topics, partition, &references).await.unwrap();
        (again, silent) = (again + checked.decisions, silent + checked.silent);
    }
    let told = told.lock().unwrap();
    let lost: Vec<_> = told.iter().filter(|(_, d)| !decisions.contains(*d)).collect();
    assert!(lost.is_empty(), "told, and not in the journal: {lost:?}");
    let twice: Vec<_> = by_command.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "decided more than once: {twice:?}");
    let observations = all_handed_over(&*log, &topics, pair).await;
    assert!(told.len() > 3 * WIDTH && claims as u32 >= hub_kills, "too little happened: {} told, {claims} claims", told.len());
    rebuilt(pair);
    println!(
        "{} decisions made again the same, {silent} silent inputs rightly so, {} commands told, {observations} observations handed over, {claims} claims",
        again,
        told.len()
    );
}

/// Whatever an agent ever queued is still queued, or was acknowledged and deleted: then the log has it, unless the hub refused it for good
/// (a device that was moved meanwhile), which the satellite's log says. The queue's numbers are never given out again, so they say how many
/// there were; one look at SLURM comes as two facts under one number.
async fn all_handed_over(log: &dyn EventLog, topics: &Topics, pair: &Pair) -> usize {
    let mut there = BTreeSet::new();
    for partition in 0..topics.partitions {
        let mut reader = log.read(&[(topics.at(names::OBSERVATIONS, partition), 0)]);
        while let Ok(Item::Record(stored)) = reader.next().await {
            let o = decode::<Observation>(&stored.record.value).unwrap();
            there.insert((o.site, o.source, o.source_seq.epoch, o.source_seq.counter));
        }
    }
    let (queued, waiting) = pair.queued().unwrap();
    let log = std::fs::read_to_string(pair.folder.join("satellite/log.txt")).unwrap();
    let refused = log
        .lines()
        .filter(|l| l.contains("the hub refused observations"))
        .filter_map(|l| l.split("refused=").nth(1)?.split(' ').next()?.parse::<i64>().ok());
    let refused: i64 = refused.sum();
    let found = there.len() as i64;
    assert!(found >= queued - waiting - refused, "{queued} queued, {waiting} of them still waiting, {refused} refused, {found} in the log");
    println!("{queued} queued, {waiting} still waiting, {refused} refused for good");
    there.len()
}

/// The read model that was fed through all of it is the one made anew.
fn rebuilt(pair: &Pair) {
    let text = pair.manager(&["projections", "rebuild", "--config", "hub.toml"]).unwrap();
    assert!(text.contains("row for row the same"), "{text}");
}
