//! `make chaos`: two hubs, three brokers and a PostgreSQL under load, and every ten seconds something is killed, paused, stopped, cut off,
//! slowed or filled. Afterwards everything is counted: what was acknowledged, what the journal holds, what each read model says.
//!
//! `FM_CHAOS_SECONDS` (120), `FM_CHAOS_RATE` (observations a second, 1500), `FM_SEED`.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod count;
mod harm;

use fleet_tests::{Consumer, Load, Stand, ids, seed};
use harm::Harmed;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

const DEVICES: u32 = 200;
const HUBS: usize = 2;
/// Before the first harm.
const WARM: Duration = Duration::from_secs(45);

/// A number of the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_is_killed_or_paused_nothing_acknowledged_is_lost_and_nothing_is_decided_twice() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed(std::process::id().into()));
    let options = fleet_sim::Options { sites: 1, devices: DEVICES, seed: 1, people: false, pace: 1.0 };
    let Stand { folder, sim, world, database, proxies, brokers, mut fleet } = Stand::proxied(options, HUBS, 3).await.unwrap();
    let database = database.unwrap();
    for hub in 0..HUBS {
        fleet.start(hub).await.unwrap();
    }
    fleet.enrol(DEVICES as usize).await.unwrap();
    let mut load = Load::start(&fleet, &world.places[0].name, ids(&sim), setting("FM_CHAOS_RATE", 1500));
    // Undisturbed at first: the brokers compile what they do often.
    tokio::time::sleep(WARM).await;
    let warm = load.observed();
    let span = Duration::from_secs(setting("FM_CHAOS_SECONDS", 120));
    let mut harmed = Harmed { fleet: &mut fleet, brokers: &brokers, database: &database, proxies: &proxies, load: &mut load };
    let (harms, span) = harmed.harm(span, &mut rng).await;
    let during = load.observed() - warm;
    let done = load.settle(&mut fleet).await;
    // While both still publish: what others see is complete and in order.
    let table = folder.path().join("table.sqlite");
    let consumer = Consumer { fleet: &fleet, table: table.to_str().unwrap() };
    let mine = tokio::task::block_in_place(|| consumer.tables());
    consumer.is_complete(&mine).await;
    println!("the public topics: {}", mine["tally"]);
    for hub in 0..HUBS {
        assert_eq!(fleet.stop(hub).await.unwrap(), Some(0), "a clean stop of hub {hub}");
    }
    count::count(&fleet, &harms, &done, (span, during)).await;
    sim.stop().await;
}
