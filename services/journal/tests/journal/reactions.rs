//! Reactions: what one stream's decision means for another takes effect once, whatever comes in between.

use crate::world::{START, World, command, device, netbox, open, until};
use fleet_fence::Position;
use fleet_journal::{Applied, Ledger, ManualClock, Positions, Rules, Topics};
use fleet_log::{Error, EventLog, Faults, Fut, Item, Unreliable};
use fleet_schemas::*;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Positions in memory; those that are forgetful take one and keep nothing, as where the process dies between append and write.
#[derive(Default)]
pub struct Kept {
    positions: Mutex<BTreeMap<u32, Position>>,
    forgetful: AtomicBool,
    stores: AtomicU64,
    /// How far the reactor is in each partition, kept or not: everything before has its reactions appended.
    followed: Mutex<BTreeMap<u32, u64>>,
}

impl Positions for Kept {
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>> {
        let positions = self.positions.lock().unwrap().clone();
        *self.followed.lock().unwrap() = positions.iter().map(|(partition, p)| (*partition, p.next)).collect();
        Box::pin(async { Ok(positions) })
    }
    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>> {
        self.stores.fetch_add(1, Ordering::Relaxed);
        self.followed.lock().unwrap().insert(partition, position.next);
        if !self.forgetful.load(Ordering::Relaxed) {
            let mut positions = self.positions.lock().unwrap();
            if positions.get(&partition).map_or(0, |p| p.next) != before {
                return Box::pin(async { Ok(false) });
            }
            positions.insert(partition, position);
        }
        Box::pin(async { Ok(true) })
    }
}

/// A device with this serial and no SLURM name.
fn with_serial(i: i64, counter: u64, serial: &str) -> Observation {
    let mut observation = netbox(i, counter, START);
    let Fact::NetboxDeviceSeen(mut seen) = Fact::decode(&observation.fact).unwrap() else { panic!("{observation:?}") };
    (seen.inventory.serial, seen.inventory.slurm_node) = (Some(serial.into()), None);
    observation.fact = Fact::from(seen).encode();
    observation
}

fn serial(value: &str) -> StreamId {
    ExclusiveName::serial(value).unwrap().stream()
}

/// Who holds a serial, and who waits.
async fn holds(world: &World, value: &str) -> (Option<DeviceId>, Vec<DeviceId>) {
    let stream = serial(value);
    let ledger = world.replayed(stream.partition(5)).await;
    let name = ledger.streams.get(&stream).and_then(|s| s.entity.exclusive().cloned());
    name.map_or((None, vec![]), |n| (n.holder, n.waiting.clone()))
}

fn id(i: i64) -> DeviceId {
    DeviceId::from_netbox("main", i)
}

/// What a device is told of its serial: held or not, by whom it is contested, and whether it shows the conflict.
async fn shows(world: &World, i: i64) -> Option<(bool, Option<DeviceId>, bool)> {
    let device = world.device(i).await?;
    let (name, grant) = device.claimed().find(|(name, _)| name.kind == ExclusiveKind::Serial)?;
    let conflict = device.conditions.get("IdentityConflict", &name.to_string()).is_some_and(|c| c.status == Status::True);
    Some((grant.held, grant.other, conflict))
}

async fn until_shows(world: &World, i: i64, expected: (bool, Option<DeviceId>, bool)) {
    until(|| async {
        match shows(world, i).await {
            Some(found) if found == expected => Ok(()),
            other => Err(format!("device {i}: {expected:?} expected, {other:?}")),
        }
    })
    .await;
}

/// Every reaction that was handled: by the stream that it follows from, its place there, and the stream that it is for.
async fn handled(log: &dyn EventLog) -> BTreeMap<(StreamId, u64, u32, StreamId), u32> {
    let mut out = BTreeMap::new();
    for partition in 0..5 {
        let mut reader = log.read(&[(Topics::embedded().at(topics::JOURNAL, partition), 0)]);
        let mut ledger = Ledger::new(partition, Rules::default());
        while let Ok(Item::Record(stored)) = reader.next().await {
            if let Applied::Decision(d) = ledger.apply(&stored).unwrap()
                && d.cause.kind == CauseKind::Reaction
            {
                let key = (d.cause.stream.clone().unwrap(), d.cause.version.unwrap(), d.cause.index.unwrap(), d.stream.clone());
                *out.entry(key).or_insert(0) += 1;
            }
        }
    }
    out
}

async fn each_once(log: &dyn EventLog) -> usize {
    let handled = handled(log).await;
    let twice: Vec<_> = handled.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "handled more than once: {twice:?}");
    handled.len()
}

/// Waits until nothing follows any more: the reactor is at the end of the journal, and every input is decided, with nothing new meanwhile.
async fn settled(world: &World, kept: &Kept) {
    let ends = |topic| async move {
        let mut ends = Vec::new();
        for partition in 0..5 {
            ends.push(world.log.bounds(Topics::embedded().at(topic, partition)).await.unwrap().end);
        }
        ends
    };
    until(|| async {
        let journal = ends(topics::JOURNAL).await;
        let followed = kept.followed.lock().unwrap().clone();
        let behind = (0..).zip(&journal).find(|(p, end)| followed.get(p).copied().unwrap_or(0) < **end);
        if let Some((partition, end)) = behind {
            return Err(format!("the reactor is not at {end} of partition {partition}: {followed:?}"));
        }
        let inputs: Vec<_> = ends(topics::COMMANDS).await.into_iter().zip(ends(topics::OBSERVATIONS).await).collect();
        let decided: Vec<_> = world.journal.statuses().iter().map(|s| (s.stats.commands, s.stats.observations)).collect();
        match decided == inputs && ends(topics::JOURNAL).await == journal {
            true => Ok(()),
            false => Err(format!("decided {decided:?} of {inputs:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_devices_with_one_serial_one_holds_it_both_show_it_and_it_heals() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    world.site().await;
    world.journal.observe(&[with_serial(1, 1, "SN7"), with_serial(2, 1, " sn7 ")]).await.unwrap();
    until(|| async {
        match (shows(&world, 1).await, shows(&world, 2).await) {
            (Some((a, Some(_), true)), Some((b, Some(_), true))) if a != b => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let (holder, waiting) = holds(&world, "SN7").await;
    let (holder, waits) = if holder == Some(id(1)) { (1, 2) } else { (2, 1) };
    assert_eq!(waiting, [id(waits)]);
    until_shows(&world, holder, (true, Some(id(waits)), true)).await;
    until_shows(&world, waits, (false, Some(id(holder)), true)).await;
    // The holder turns out to be another machine: the other one has it, and nobody shows a conflict any more.
    world.journal.observe(&[with_serial(holder, 2, "SN8")]).await.unwrap();
    until_shows(&world, waits, (true, None, false)).await;
    until_shows(&world, holder, (true, None, false)).await;
    assert_eq!(holds(&world, "SN7").await, (Some(id(waits)), vec![]));
    each_once(&*world.log).await;
}

/// The process dies after its reactions were appended and before its position was written, again and again; and the position is lost
/// altogether, after every answer was long forgotten.
#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_was_not_written_repeats_reactions_without_effect() {
    let kept = Arc::new(Kept::default());
    kept.forgetful.store(true, Ordering::Relaxed);
    let mut world = World::reacting(kept.clone()).await;
    world.site().await;
    world.journal.observe(&[with_serial(1, 1, "SN7"), with_serial(2, 1, "SN7")]).await.unwrap();
    until(|| async { if shows(&world, 2).await.is_some_and(|s| s.2) { Ok(()) } else { Err("no conflict yet".into()) } }).await;
    settled(&world, &kept).await;
    until(|| async { if kept.stores.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err("no position was to be written".into()) } }).await;
    let (first, before) = (each_once(&*world.log).await, holds(&world, "SN7").await);
    for _ in 0..3 {
        let commands = |log: Arc<dyn EventLog>| async move {
            let mut sum = 0;
            for partition in 0..5 {
                sum += log.bounds(Topics::embedded().at(topics::COMMANDS, partition)).await.unwrap().end;
            }
            sum
        };
        let appended = commands(world.log.clone()).await;
        let (folder, log, clock) = world.kill().await;
        clock.advance(30 * DAY);
        world = World::on(folder, log, clock, Rules::default()).await;
        world.react(kept.clone()).await;
        settled(&world, &kept).await;
        assert!(commands(world.log.clone()).await >= appended + first as u64, "every reaction is appended again");
        assert_eq!((each_once(&*world.log).await, holds(&world, "SN7").await), (first, before.clone()), "no double effect");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_of_another_journal_is_not_believed() {
    let kept = Arc::new(Kept::default());
    for partition in 0..5 {
        let strange = Position { next: 1 + u64::from(partition) * 100, before: Hash::of(b"elsewhere"), ..Position::START };
        kept.positions.lock().unwrap().insert(partition, strange);
    }
    let world = World::reacting(kept).await;
    world.site().await;
    world.journal.observe(&[with_serial(1, 1, "SN7")]).await.unwrap();
    until_shows(&world, 1, (true, None, false)).await;
}

/// Killed at any await point, while serials change hands: once each, and at the end everybody is told how things stand.
#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_point_each_reaction_takes_effect_once() {
    let seed = std::env::var("FM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    println!("FM_SEED={seed}");
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let kept = Arc::new(Kept::default());
    let mut world = World::reacting(kept.clone()).await;
    world.site().await;
    for round in 0..20 {
        kept.forgetful.store(rng.random_bool(0.5), Ordering::Relaxed);
        let observed: Vec<_> = (1..=6).map(|i| with_serial(i, round + 1, &format!("SN-{}", rng.random_range(0..3)))).collect();
        world.journal.observe(&observed).await.unwrap();
        // The instant of the kill: any will do, none is waited for.
        tokio::time::sleep(Duration::from_micros(rng.random_range(0..15_000))).await;
        let (folder, log, clock) = world.kill().await;
        clock.advance(SECOND);
        world = World::on(folder, log, clock, Rules::default()).await;
        world.react(kept.clone()).await;
    }
    settled(&world, &kept).await;
    assert!(each_once(&*world.log).await > 20, "names must have changed hands");
    knows(&world).await;
}

/// Everybody claims what its record says; of each name one holds it, and all are told so.
async fn knows(world: &World) {
    let mut claims: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for i in 1..=6 {
        let device = world.device(i).await.unwrap();
        let value = device.inventory.as_ref().unwrap().serial.clone().unwrap();
        assert_eq!(device.claimed().map(|(n, _)| n.value).collect::<Vec<_>>(), [value.to_lowercase()]);
        claims.entry(value).or_default().push(i);
    }
    for (value, devices) in claims {
        let (holder, waiting) = holds(world, &value).await;
        let mut all: Vec<_> = holder.into_iter().chain(waiting.iter().copied()).collect();
        let mut expected: Vec<_> = devices.iter().map(|i| id(*i)).collect();
        all.sort();
        expected.sort();
        assert_eq!(all, expected, "{value}");
        for i in devices {
            let held = holder == Some(id(i));
            let other = if held { waiting.first().copied() } else { holder };
            until_shows(world, i, (held, other, other.is_some())).await;
        }
    }
}

/// Appends of reactions are refused, lost, doubled, delayed.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_misbehaves_loses_no_reaction() {
    for seed in [1, 2] {
        println!("seed {seed}");
        let folder = Arc::new(TempDir::new().unwrap());
        let inner = open(&folder).await;
        let unreliable = Arc::new(Unreliable::new(inner, "fm.commands.v1", seed, Faults::default()));
        let log = unreliable.clone() as Arc<dyn EventLog>;
        let mut world = World::on(folder, log, Arc::new(ManualClock::new(START)), Rules::default()).await;
        let kept = Arc::new(Kept::default());
        world.react(kept.clone()).await;
        world.site().await;
        unreliable.set(Faults::storm());
        for round in 0..10 {
            let observed: Vec<_> = (1..=6).map(|i| with_serial(i, round + 1, &format!("SN-{}", (i as u64 + round) % 3))).collect();
            world.journal.observe(&observed).await.unwrap();
        }
        unreliable.set(Faults::default());
        settled(&world, &kept).await;
        each_once(&*world.log).await;
        knows(&world).await;
    }
}

/// A person's command stands beside reactions: neither's memory takes the other's.
#[tokio::test(flavor = "multi_thread")]
async fn reactions_take_no_room_from_commands() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    world.site().await;
    world.journal.observe(&[with_serial(1, 1, "SN7")]).await.unwrap();
    until_shows(&world, 1, (true, None, false)).await;
    let hold = command(device(1), PlaceHold { name: "a".into(), expires_at: None }.into());
    world.expect(&hold, "").await;
    let again = world.ask(&hold).await.unwrap();
    assert!(again.repeated);
}
