//! Commands and observations, for ever, to whichever hub answers; what was acknowledged is kept.

#![allow(clippy::unwrap_used, reason = "part of tests, which say what failed by panicking")]

use crate::{Api, Fleet};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Commands in flight.
const WIDTH: u64 = 64;
/// Observations in a request.
const EACH: u64 = 50;
/// Requests of observations at once, the most.
const LANES: u64 = 8;
/// How often what was acknowledged is said.
const PULSE: Duration = Duration::from_secs(2);
/// Pulses over which a rate counts as sustained.
const SUSTAINED: usize = 10;
/// A request that takes longer is asked again, of another hub.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of it.
#[derive(Default)]
pub struct Done {
    /// Decision of each answered command, by its key.
    pub decisions: HashMap<String, String>,
    /// Of these: refused.
    pub refused: u64,
    /// Answers that left open what became of the command; each was asked again until it was known.
    pub unknown: u64,
    /// Marks of the observations that were acknowledged.
    pub observed: BTreeSet<String>,
    /// Requests of observations that were not acknowledged, and sent again.
    pub resent: u64,
    /// The highest rate of observations that lasted 20 s, a second.
    pub sustained: f64,
    /// The longest time without any command answered.
    pub longest: Duration,
    last: Option<Instant>,
}

/// See the module.
pub struct Load {
    done: Arc<Mutex<Done>>,
    stop: Arc<AtomicBool>,
    lanes: JoinSet<()>,
}

impl Load {
    /// `rate` observations a second, and [`WIDTH`] commands in flight.
    pub fn start(fleet: &Fleet, site: &str, devices: Vec<String>, rate: u64) -> Self {
        let (done, stop, mut lanes) = (Arc::<Mutex<Done>>::default(), Arc::new(AtomicBool::new(false)), JoinSet::new());
        let hubs: Arc<Vec<(Api, Api)>> =
            Arc::new((0..fleet.count()).map(|nth| (fleet.operator(nth).unwrap(), fleet.agent(nth).unwrap())).collect());
        let devices = Arc::new(devices);
        for lane in 0..WIDTH {
            lanes.spawn(commands(lane, hubs.clone(), devices.clone(), done.clone(), stop.clone()));
        }
        for lane in 0..LANES {
            let every = Duration::from_secs_f64((EACH * LANES) as f64 / rate as f64);
            lanes.spawn(observations(lane, every, site.to_owned(), hubs.clone(), devices.clone(), done.clone(), stop.clone()));
        }
        lanes.spawn(pulse(done.clone(), stop.clone()));
        Self { done, stop, lanes }
    }

    /// Goes on in peace until answers come again, then lets everything open come to its end.
    pub async fn settle(mut self, fleet: &mut Fleet) -> Done {
        let answered = |done: &Mutex<Done>| done.lock().unwrap().decisions.len();
        let (before, patience) = (answered(&self.done), Instant::now() + Duration::from_secs(90));
        while answered(&self.done) < before + 3 * WIDTH as usize {
            assert!(Instant::now() < patience, "no further command was answered after the last harm:\n{}", fleet.log());
            // As whoever runs it would: one that ended by itself, since its log was away too long, is started again.
            (0..fleet.count()).for_each(|nth| fleet.launch(nth).unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.stop.store(true, Ordering::Relaxed);
        let ended = async { while self.lanes.join_next().await.is_some_and(|lane| lane.is_ok()) {} };
        tokio::time::timeout(Duration::from_secs(90), ended).await.unwrap_or_else(|_| panic!("some are never answered:\n{}", fleet.log()));
        fleet.decided().await.unwrap();
        std::mem::take(&mut *self.done.lock().unwrap())
    }
}

/// Says every two seconds what was acknowledged in them, and keeps the most of [`SUSTAINED`].
async fn pulse(done: Arc<Mutex<Done>>, stop: Arc<AtomicBool>) {
    let (mut tick, mut seen) = (tokio::time::interval(PULSE), vec![(0, 0)]);
    tick.tick().await;
    while !stop.load(Ordering::Relaxed) {
        tick.tick().await;
        let mut done = done.lock().unwrap();
        let (now, before) = ((done.decisions.len(), done.observed.len()), seen[seen.len() - 1]);
        println!("         {:>5} commands/s {:>6} observations/s", (now.0 - before.0) / 2, (now.1 - before.1) / 2);
        seen.push(now);
        if let Some(start) = seen.len().checked_sub(SUSTAINED + 1) {
            let rate = (now.1 - seen[start].1) as f64 / (SUSTAINED as f64 * PULSE.as_secs_f64());
            done.sustained = done.sustained.max(rate);
        }
    }
}

async fn commands(lane: u64, hubs: Arc<Vec<(Api, Api)>>, devices: Arc<Vec<String>>, done: Arc<Mutex<Done>>, stop: Arc<AtomicBool>) {
    let mut rng = ChaCha8Rng::seed_from_u64(lane);
    for n in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let device = &devices[rng.random_range(0..devices.len())];
        let (command, params) = match rng.random_range(0..3) {
            0 => ("unhold", json!({"name": format!("h{lane}")})),
            1 => ("drain", json!({"then": "maintenance"})),
            _ => ("hold", json!({"name": format!("h{lane}")})),
        };
        let (key, path) = (format!("{lane}-{n}"), format!("/api/v1/devices/{device}/commands"));
        let body = json!({"command": command, "reason": "chaos", "params": params}).to_string();
        let (mut hub, mut unknown) = (rng.random_range(0..hubs.len()), 0);
        loop {
            let headers = [("idempotency-key", key.as_str())];
            let sent = hubs[hub].0.send(Method::POST, &path, Some(body.as_bytes()), &headers);
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, sent).await
                && let Some(decision) = answer.body["decision"].as_str()
            {
                done.lock().unwrap().answered(key, decision, answer.status.is_success(), unknown);
                break;
            }
            unknown += 1;
            hub = (hub + 1) % hubs.len();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Done {
    fn answered(&mut self, key: String, decision: &str, accepted: bool, unknown: u64) {
        let now = Instant::now();
        let gap = self.last.replace(now).map_or(Duration::ZERO, |last| now.duration_since(last));
        self.longest = self.longest.max(gap);
        self.refused += u64::from(!accepted);
        self.unknown += u64::from(unknown > 0);
        self.decisions.insert(key, decision.to_owned());
    }
}

async fn observations(
    lane: u64,
    every: Duration,
    site: String,
    hubs: Arc<Vec<(Api, Api)>>,
    devices: Arc<Vec<String>>,
    done: Arc<Mutex<Done>>,
    stop: Arc<AtomicBool>,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(1000 + lane);
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let path = format!("/api/v1/sites/{site}/conditions:batch");
    for n in 0u64.. {
        tick.tick().await;
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mark = |i: u64| format!("{lane}-{n}-{i}");
        let stated = |i: u64, rng: &mut ChaCha8Rng| {
            let status = if rng.random_bool(0.5) { "True" } else { "False" };
            let device = &devices[rng.random_range(0..devices.len())];
            json!({"device": device, "type": "SlurmDrainForeign", "status": status, "reason": "Chaos", "message": mark(i)})
        };
        let conditions: Vec<Value> = (0..EACH).map(|i| stated(i, &mut rng)).collect();
        let body = json!({"run": {}, "conditions": conditions}).to_string();
        let mut hub = rng.random_range(0..hubs.len());
        loop {
            let sent = hubs[hub].1.send(Method::POST, &path, Some(body.as_bytes()), &[]);
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, sent).await
                && answer.status.is_success()
            {
                let results = answer.body["results"].as_array().cloned().unwrap_or_default();
                let mut done = done.lock().unwrap();
                for (i, result) in results.iter().enumerate() {
                    assert_eq!(result["result"], "stored", "{result}");
                    done.observed.insert(mark(i as u64));
                }
                break;
            }
            done.lock().unwrap().resent += 1;
            hub = (hub + 1) % hubs.len();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
