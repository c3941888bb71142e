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
/// How long it may take after the last harm until answers come again, and until everything open is answered. A busy machine decides no test.
const SETTLED: Duration = Duration::from_secs(240);
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
    /// How many of them filled a partition.
    pub filled: usize,
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
    lane: Arc<Lane>,
    lanes: JoinSet<()>,
    fills: u64,
}

/// What all lanes share.
struct Lane {
    /// Each hub as an operator and as an agent.
    hubs: Vec<(Api, Api)>,
    devices: Vec<String>,
    /// Where observations go.
    path: String,
    done: Mutex<Done>,
    stop: AtomicBool,
}

impl Load {
    /// `rate` observations a second, and [`WIDTH`] commands in flight.
    pub fn start(fleet: &Fleet, site: &str, devices: Vec<String>, rate: u64) -> Self {
        let hubs = (0..fleet.count()).map(|nth| (fleet.operator(nth).unwrap(), fleet.agent(nth).unwrap())).collect();
        let path = format!("/api/v1/sites/{site}/conditions:batch");
        let lane = Arc::new(Lane { hubs, devices, path, done: Mutex::default(), stop: AtomicBool::new(false) });
        let (every, mut lanes) = (Duration::from_secs_f64((EACH * LANES) as f64 / rate as f64), JoinSet::new());
        (0..WIDTH).for_each(|nth| drop(lanes.spawn(lane.clone().commands(nth))));
        (0..LANES).for_each(|nth| drop(lanes.spawn(lane.clone().observations(nth, every))));
        lanes.spawn(lane.clone().pulse());
        Self { lane, lanes, fills: 0 }
    }

    /// Observations that were acknowledged so far, without those that fill a partition.
    pub fn observed(&self) -> usize {
        self.lane.done.lock().unwrap().steady()
    }

    /// So many more observations, of one device: all into one partition, and as fast as it takes them.
    pub fn fill(&mut self, count: u64) {
        self.fills += 1;
        self.lanes.spawn(self.lane.clone().fill(self.fills, count));
    }

    /// Goes on in peace until answers come again, then lets everything open come to its end.
    pub async fn settle(mut self, fleet: &mut Fleet) -> Done {
        let answered = || self.lane.done.lock().unwrap().decisions.len();
        let (before, patience) = (answered(), Instant::now() + SETTLED);
        while answered() < before + 3 * WIDTH as usize {
            assert!(Instant::now() < patience, "no further command was answered after the last harm:\n{}", fleet.log());
            // As whoever runs it would: one that ended by itself, since its log was away too long, is started again.
            (0..fleet.count()).for_each(|nth| fleet.launch(nth).unwrap());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.lane.stop.store(true, Ordering::Relaxed);
        let ended = async {
            while let Some(lane) = self.lanes.join_next().await {
                lane.unwrap();
            }
        };
        tokio::time::timeout(SETTLED, ended).await.unwrap_or_else(|_| panic!("some are never answered:\n{}", fleet.log()));
        fleet.decided().await.unwrap();
        std::mem::take(&mut *self.lane.done.lock().unwrap())
    }
}

impl Lane {
    /// Says every two seconds what was acknowledged in them, and keeps the most of [`SUSTAINED`].
    async fn pulse(self: Arc<Self>) {
        let (mut tick, mut seen) = (tokio::time::interval(PULSE), vec![(0, 0)]);
        tick.tick().await;
        while !self.stopped() {
            tick.tick().await;
            let mut done = self.done.lock().unwrap();
            let (now, before) = ((done.decisions.len(), done.steady()), seen[seen.len() - 1]);
            println!("         {:>5} commands/s {:>6} observations/s", (now.0 - before.0) / 2, (now.1 - before.1) / 2);
            seen.push(now);
            if let Some(start) = seen.len().checked_sub(SUSTAINED + 1) {
                let rate = (now.1 - seen[start].1) as f64 / (SUSTAINED as f64 * PULSE.as_secs_f64());
                done.sustained = done.sustained.max(rate);
            }
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn device(&self, rng: &mut ChaCha8Rng) -> &str {
        &self.devices[rng.random_range(0..self.devices.len())]
    }

    async fn commands(self: Arc<Self>, lane: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(lane);
        for n in (0u64..).take_while(|_| !self.stopped()) {
            let device = self.device(&mut rng);
            let (command, params) = match rng.random_range(0..3) {
                0 => ("unhold", json!({"name": format!("h{lane}")})),
                1 => ("drain", json!({"then": "maintenance"})),
                _ => ("hold", json!({"name": format!("h{lane}")})),
            };
            let (key, path) = (format!("{lane}-{n}"), format!("/api/v1/devices/{device}/commands"));
            let body = json!({"command": command, "reason": "chaos", "params": params}).to_string();
            let (mut hub, mut unknown) = (rng.random_range(0..self.hubs.len()), 0);
            loop {
                let headers = [("idempotency-key", key.as_str())];
                let sent = self.hubs[hub].0.send(Method::POST, &path, Some(body.as_bytes()), &headers);
                if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, sent).await
                    && let Some(decision) = answer.body["decision"].as_str()
                {
                    self.done.lock().unwrap().answered(key, decision, answer.status.is_success(), unknown);
                    break;
                }
                unknown += 1;
                hub = (hub + 1) % self.hubs.len();
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn observations(self: Arc<Self>, lane: u64, every: Duration) {
        let mut rng = ChaCha8Rng::seed_from_u64(1000 + lane);
        let mut tick = tokio::time::interval(every);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
        for n in 0u64.. {
            tick.tick().await;
            if self.stopped() {
                return;
            }
            let some = (0..EACH).map(|i| stated(self.device(&mut rng), format!("{lane}-{n}-{i}"), rng.random_bool(0.5))).collect();
            self.state(some, &mut rng).await;
        }
    }

    async fn fill(self: Arc<Self>, nth: u64, count: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(2000 + nth);
        let device = self.device(&mut rng).to_owned();
        for n in 0..count / EACH {
            let some = (0..EACH).map(|i| stated(&device, format!("fill{nth}-{n}-{i}"), i % 2 == 0)).collect();
            self.state(some, &mut rng).await;
            self.done.lock().unwrap().filled += EACH as usize;
        }
    }

    /// Until a hub has acknowledged them.
    async fn state(&self, conditions: Vec<Value>, rng: &mut ChaCha8Rng) {
        let body = json!({"run": {}, "conditions": conditions}).to_string();
        let mut hub = rng.random_range(0..self.hubs.len());
        loop {
            let sent = self.hubs[hub].1.send(Method::POST, &self.path, Some(body.as_bytes()), &[]);
            if let Ok(Ok(answer)) = tokio::time::timeout(PATIENCE, sent).await
                && answer.status.is_success()
            {
                let results = answer.body["results"].as_array().cloned().unwrap_or_default();
                let mut done = self.done.lock().unwrap();
                assert_eq!(results.len(), conditions.len(), "{}", answer.body);
                for (result, condition) in results.iter().zip(&conditions) {
                    assert_eq!(result["result"], "stored", "{result}");
                    done.observed.extend(condition["message"].as_str().map(str::to_owned));
                }
                break;
            }
            self.done.lock().unwrap().resent += 1;
            hub = (hub + 1) % self.hubs.len();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A condition; `mark` tells it from all others.
fn stated(device: &str, mark: String, holds: bool) -> Value {
    let status = if holds { "True" } else { "False" };
    json!({"device": device, "type": "SlurmDrainForeign", "status": status, "reason": "Chaos", "message": mark})
}

impl Done {
    fn steady(&self) -> usize {
        self.observed.len() - self.filled
    }

    fn answered(&mut self, key: String, decision: &str, accepted: bool, unknown: u64) {
        let now = Instant::now();
        let gap = self.last.replace(now).map_or(Duration::ZERO, |last| now.duration_since(last));
        self.longest = self.longest.max(gap);
        self.refused += u64::from(!accepted);
        self.unknown += u64::from(unknown > 0);
        self.decisions.insert(key, decision.to_owned());
    }
}
