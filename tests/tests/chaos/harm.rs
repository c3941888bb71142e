//! What is done to hubs and brokers, and when.

use fleet_tests::{Brokers, Database, Fleet};
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::time::{Duration, Instant, SystemTime};

/// Between two harms.
const EVERY: Duration = Duration::from_secs(10);
/// Longer than a lease.
const PAUSE: Duration = Duration::from_secs(5);

/// One harm.
#[derive(Clone, Debug)]
pub struct Harm {
    pub what: &'static str,
    /// Microseconds since 1970.
    pub at: i64,
}

const KINDS: [&str; 7] = ["kill hub", "pause hub", "stop hub", "kill broker", "pause broker", "kill postgres", "below min.insync"];
/// How long fewer brokers are there than a record needs.
const BELOW: Duration = Duration::from_secs(30);

/// Harms for `span`; afterwards everything runs.
pub async fn harm(fleet: &mut Fleet, brokers: &mut Brokers, database: &Database, span: Duration, rng: &mut ChaCha8Rng) -> Vec<Harm> {
    let (started, mut harms) = (Instant::now(), Vec::new());
    // What it does undisturbed, for comparison.
    tokio::time::sleep(EVERY.max(span / 10)).await;
    // Every kind once, whatever the dice say.
    for round in 0.. {
        let begun = Instant::now();
        // The long one once, and only where there is time for it.
        let what = match KINDS.get(round) {
            Some(&"below min.insync") if span < 4 * BELOW => KINDS[0],
            Some(what) => what,
            None => KINDS[rng.random_range(0..KINDS.len() - 1)],
        };
        let whom = if what.ends_with("hub") { rng.random_range(0..fleet.count()) } else { rng.random_range(0..brokers.count()) };
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as i64;
        println!("{:>4.0} s: {what} {whom}", started.elapsed().as_secs_f64());
        harms.push(Harm { what, at });
        one(fleet, brokers, database, what, whom, Duration::from_millis(rng.random_range(500..3000))).await;
        tokio::time::sleep(EVERY.saturating_sub(begun.elapsed())).await;
        // As whoever runs it would: one that ended by itself is started again.
        (0..fleet.count()).for_each(|nth| fleet.launch(nth).unwrap());
        if started.elapsed() >= span {
            return harms;
        }
    }
    harms
}

async fn one(fleet: &mut Fleet, brokers: &mut Brokers, database: &Database, what: &str, whom: usize, away: Duration) {
    match what {
        "kill hub" => {
            fleet.signal(whom, "KILL").unwrap();
            tokio::time::sleep(away).await;
            fleet.launch(whom).unwrap();
        }
        "stop hub" => {
            assert_eq!(fleet.stop(whom).await.unwrap(), Some(0), "a clean stop of hub {whom}");
            tokio::time::sleep(away).await;
            fleet.launch(whom).unwrap();
        }
        "pause hub" => {
            fleet.signal(whom, "STOP").unwrap();
            tokio::time::sleep(PAUSE).await;
            fleet.signal(whom, "CONT").unwrap();
        }
        "kill broker" => {
            brokers.signal(whom, "KILL").unwrap();
            tokio::time::sleep(away).await;
            tokio::task::block_in_place(|| brokers.mend()).unwrap();
        }
        "kill postgres" => {
            database.kill().unwrap();
            tokio::time::sleep(away).await;
            tokio::task::block_in_place(|| database.mend()).unwrap();
        }
        "below min.insync" => {
            for other in (0..brokers.count()).filter(|b| *b != whom) {
                brokers.signal(other, "KILL").unwrap();
            }
            tokio::time::sleep(BELOW).await;
            tokio::task::block_in_place(|| brokers.mend()).unwrap();
        }
        _ => {
            brokers.signal(whom, "STOP").unwrap();
            tokio::time::sleep(PAUSE).await;
            brokers.signal(whom, "CONT").unwrap();
        }
    }
}
