//! What is done to hubs, brokers, the database and the network between them, and when.

use fleet_tests::{Brokers, Database, Fleet, Load, Proxy, Way};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
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

/// What is there to be harmed.
pub struct Harmed<'a> {
    pub fleet: &'a mut Fleet,
    pub brokers: &'a Brokers,
    pub database: &'a Database,
    /// Between the last hub and everything it calls.
    pub proxies: &'a [Proxy],
    pub load: &'a mut Load,
}

const KINDS: [&str; 11] = [
    "kill hub",
    "pause hub",
    "stop hub",
    "kill broker",
    "pause broker",
    "kill postgres",
    "pause postgres",
    "cut the last hub off",
    "hang the last hub's connections",
    "slow the last hub's connections",
    "fill a partition",
];
/// Once, where there is time for it: fewer brokers than a record needs.
const BELOW: &str = "below min.insync";
const BELOW_FOR: Duration = Duration::from_secs(30);
/// The part of the time that may take.
const BELOW_SHARE: u32 = 4;
/// Observations of one device, beside all others.
const FILL: u64 = 5000;

/// Which harms come, in turn: each kind once, in an order that the dice give, and then anew.
struct Deck<'a> {
    rng: &'a mut ChaCha8Rng,
    left: Vec<&'static str>,
}

impl Iterator for Deck<'_> {
    type Item = &'static str;

    fn next(&mut self) -> Option<&'static str> {
        if self.left.is_empty() {
            self.left = KINDS.into();
            self.left.shuffle(self.rng);
        }
        self.left.pop()
    }
}

impl Harmed<'_> {
    /// Harms for `span`; afterwards everything runs. How long it took to the end of the last one.
    pub async fn harm(&mut self, span: Duration, rng: &mut ChaCha8Rng) -> (Vec<Harm>, Duration) {
        let (started, mut harms) = (Instant::now(), Vec::new());
        let (mut dice, mut deck) = (ChaCha8Rng::from_rng(rng), Deck { rng, left: Vec::new() });
        if span >= BELOW_SHARE * BELOW_FOR {
            deck.left = vec![BELOW, KINDS[0]];
        }
        while started.elapsed() < span {
            let (begun, what) = (Instant::now(), deck.next().unwrap_or(KINDS[0]));
            let whom =
                if what.ends_with("hub") { dice.random_range(0..self.fleet.count()) } else { dice.random_range(0..self.brokers.count()) };
            let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as i64;
            println!("{:>4.0} s: {what} {whom}", started.elapsed().as_secs_f64());
            harms.push(Harm { what, at });
            self.one(what, whom, Duration::from_millis(dice.random_range(500..3000))).await;
            tokio::time::sleep(EVERY.saturating_sub(begun.elapsed())).await;
            // As whoever runs it would: one that ended by itself is started again.
            (0..self.fleet.count()).for_each(|nth| self.fleet.launch(nth).unwrap());
        }
        (harms, started.elapsed())
    }

    async fn one(&mut self, what: &str, whom: usize, away: Duration) {
        let Self { fleet, brokers, database, .. } = self;
        match what {
            "kill hub" => {
                fleet.signal(whom, "KILL").unwrap();
                tokio::time::sleep(away).await;
                fleet.launch(whom).unwrap();
            }
            "stop hub" => {
                // One that has ended by itself, or is just starting, is no clean stop.
                fleet.launch(whom).unwrap();
                fleet.ready(whom).await.unwrap();
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
                self.mend();
            }
            "pause broker" => {
                brokers.signal(whom, "STOP").unwrap();
                tokio::time::sleep(PAUSE).await;
                brokers.signal(whom, "CONT").unwrap();
            }
            "kill postgres" => {
                database.kill().unwrap();
                tokio::time::sleep(away).await;
                tokio::task::block_in_place(|| database.mend()).unwrap();
            }
            "pause postgres" => {
                database.signal("STOP").unwrap();
                tokio::time::sleep(PAUSE).await;
                database.signal("CONT").unwrap();
            }
            "cut the last hub off" => self.turned(Way::Cut, PAUSE).await,
            "hang the last hub's connections" => self.turned(Way::Hung, PAUSE).await,
            "slow the last hub's connections" => self.turned(Way::Slow(away / 20), PAUSE).await,
            "fill a partition" => self.load.fill(FILL),
            BELOW => {
                for other in (0..brokers.count()).filter(|b| *b != whom) {
                    brokers.signal(other, "KILL").unwrap();
                }
                tokio::time::sleep(BELOW_FOR).await;
                self.mend();
            }
            other => unreachable!("{other} is no harm"),
        }
    }

    fn mend(&self) {
        tokio::task::block_in_place(|| self.brokers.mend()).unwrap();
    }

    async fn turned(&self, way: Way, span: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.turn(way));
        tokio::time::sleep(span).await;
        self.proxies.iter().for_each(|proxy| proxy.turn(Way::Open));
    }
}
