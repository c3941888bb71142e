//! The read model: what it shows is the journal's fold, however the records came.

use crate::place::{Place, both, generations};
use crate::world::{World, command, device, drain, netbox, slurm, until};
use fleet_journal::{Clock, Topics};
use fleet_log::{EventLog, Fut, Item, Offset, ReadError, Reader, Record, TopicPartition, TopicSpec};
use fleet_projections::{DeviceFilter, Error, Generations, OperationFilter, OperationRow};
use fleet_schemas::*;
use rand::{Rng, SeedableRng};
use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};

both! {
    rebuilt_is_live_row_for_row_and_the_devices_are_the_deciders,
    a_rebuild_of_nothing_ends,
    a_rebuild_that_differs_says_where_and_does_not_flip,
    repeated_delivery_equals_single_delivery,
    a_position_that_does_not_fit_the_journal_is_refused_and_names_the_rebuild,
    two_projectors_on_one_generation_write_every_row_once,
    a_generation_of_another_format_is_made_anew,
    a_poison_record_stops_its_partition_and_is_shown,
}

/// A fleet with some history: service, drains, maintenance, holds, a refusal, a move, a device that NetBox deleted.
pub(crate) async fn history(world: &World) {
    world.site().await;
    for i in 1..=12 {
        world.in_service(i).await;
    }
    let now = world.clock.now();
    for i in 1..=4 {
        world.expect(&command(device(i), drain()), "").await;
    }
    world.expect(&command(device(5), Quarantine { cause: "Test".into() }.into()), "").await;
    world.expect(&command(device(6), PlaceHold { name: "h".into(), expires_at: None }.into()), "").await;
    world.expect(&command(device(7), Activate {}.into()), "phase-forbids").await;
    let gone =
        NetboxDeviceGone { instance: "main".into(), netbox_id: 8, deleted_by: Some("alice".into()), noticed_by: "change-feed".into() };
    let gone = crate::world::observation(device(8), gone.into(), Source::Netbox, 9, now);
    world.journal.observe(&[gone, slurm(9, 9, now, &["DOWN"]), netbox(10, 9, now)]).await.unwrap();
    until(|| async {
        let vanished = world.device(8).await.unwrap().condition("InventoryVanished").is_some_and(|c| c.status == Status::True);
        let down = world.device(9).await.unwrap().scheduler.as_ref().is_some_and(|s| s.state == ["DOWN"]);
        if vanished && down { Ok(()) } else { Err("not seen yet".into()) }
    })
    .await;
}

pub(crate) async fn caught_up(generations: &Generations, world: &World) {
    for partition in 0..5 {
        let end = world.log.bounds(Topics::embedded().at(topics::JOURNAL, partition)).await.unwrap().end;
        let reads = generations.reads().borrow().clone();
        assert!(reads.reached(partition, end - 1, Duration::from_secs(20)).await, "partition {partition} is not read to {end}");
    }
}

/// Field report 9 (with a device deleted in NetBox in place of a decommission): rebuilt, it is the same; nothing comes back.
async fn rebuilt_is_live_row_for_row_and_the_devices_are_the_deciders(place: Place) {
    let world = World::new().await;
    let generations = generations(&place, world.log.clone()).await.unwrap();
    generations.feed().await.unwrap();
    history(&world).await;
    caught_up(&generations, &world).await;
    let reads = generations.reads().borrow().clone();
    for i in 1..=12 {
        let StreamId::Device(id) = device(i) else { unreachable!() };
        let doc = reads.device(id).await.unwrap().unwrap();
        assert_eq!(*doc.state, *world.device(i).await.unwrap(), "the read model's fold is the decider's");
    }
    let built = generations.rebuild(false).await.unwrap();
    assert_eq!((built.differences.as_slice(), built.flipped, built.devices), (&[][..], true, 12));
    // After the flip it is still fed.
    world.expect(&command(device(11), drain()), "").await;
    caught_up(&generations, &world).await;
    let reads = generations.reads().borrow().clone();
    assert_eq!(reads.generation(), built.generation);
    let draining = DeviceFilter { phase: Some("Draining".into()), ..Default::default() };
    assert_eq!(reads.count_devices(&draining).await.unwrap(), 6);
    let running = OperationFilter { state: Some("running".into()), ..Default::default() };
    assert_eq!(reads.operations(&running, &OperationRow::sort(None), None, 100).await.unwrap().rows.len(), 6);
}

async fn a_rebuild_of_nothing_ends(place: Place) {
    let world = World::new().await;
    let generations = generations(&place, world.log.clone()).await.unwrap();
    let built = generations.rebuild(false).await.unwrap();
    assert_eq!((built.devices, built.decisions, built.flipped), (0, 0, true));
}

async fn a_rebuild_that_differs_says_where_and_does_not_flip(place: Place) {
    let world = World::new().await;
    {
        let generations = generations(&place, world.log.clone()).await.unwrap();
        history(&world).await;
        generations.feed().await.unwrap();
        caught_up(&generations, &world).await;
        generations.watch(cancelled()).await.unwrap();
    }
    place.tamper(1, "UPDATE device SET phase = 'Ready' WHERE name = 'gpu03'").await;
    let generations = generations(&place, world.log.clone()).await.unwrap();
    let built = generations.rebuild(false).await.unwrap();
    assert!(!built.flipped);
    let told = &built.differences[0];
    assert_eq!(told.table, "device");
    assert!(told.served.as_ref().unwrap().contains("phase=Ready") && told.rebuilt.as_ref().unwrap().contains("phase=Draining"));
    assert!(generations.rebuild(true).await.unwrap().flipped);
}

pub(crate) fn cancelled() -> tokio_util::sync::CancellationToken {
    let cancel = tokio_util::sync::CancellationToken::new();
    cancel.cancel();
    cancel
}

/// A log whose readers deliver what they have again, in random overlap (field report 4).
struct Repeating(Arc<dyn EventLog>, u64);

struct RepeatingReader {
    inner: Box<dyn Reader>,
    rng: rand_chacha::ChaCha8Rng,
    recent: VecDeque<fleet_log::Stored>,
    again: VecDeque<fleet_log::Stored>,
}

impl Reader for RepeatingReader {
    fn next(&mut self) -> Fut<'_, Result<Item, ReadError>> {
        Box::pin(async move {
            if let Some(stored) = self.again.pop_front() {
                return Ok(Item::Record(stored));
            }
            let item = self.inner.next().await;
            if let Ok(Item::Record(stored)) = &item {
                self.recent.push_back(stored.clone());
                if self.recent.len() > 30 {
                    self.recent.pop_front();
                }
                if self.rng.random_bool(0.1) {
                    let from = self.rng.random_range(0..self.recent.len());
                    self.again.extend(self.recent.iter().skip(from).cloned());
                }
            }
            item
        })
    }
}

impl EventLog for Repeating {
    fn ensure(&self, topics: &[TopicSpec]) -> Fut<'_, Result<(), fleet_log::Error>> {
        self.0.ensure(topics)
    }
    fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), fleet_log::AppendError>> {
        self.0.append(at, records)
    }
    fn read(&self, from: &[(TopicPartition, Offset)]) -> Box<dyn Reader> {
        let rng = rand_chacha::ChaCha8Rng::seed_from_u64(self.1);
        Box::new(RepeatingReader { inner: self.0.read(from), rng, recent: VecDeque::new(), again: VecDeque::new() })
    }
    fn bounds(&self, at: TopicPartition) -> Fut<'_, Result<Range<Offset>, fleet_log::Error>> {
        self.0.bounds(at)
    }
    fn trim(&self, at: TopicPartition, before: Offset) -> Fut<'_, Result<(), fleet_log::Error>> {
        self.0.trim(at, before)
    }
}

/// Field report 4: every decision delivered one to many times, in random overlap, gives what single delivery gives.
async fn repeated_delivery_equals_single_delivery(place: Place) {
    let world = World::new().await;
    history(&world).await;
    for seed in 1..=3 {
        let place = place.another();
        let repeating: Arc<dyn EventLog> = Arc::new(Repeating(world.log.clone(), seed));
        let fed = generations(&place, repeating).await.unwrap();
        fed.feed().await.unwrap();
        caught_up(&fed, &world).await;
        fed.watch(cancelled()).await.unwrap();
        drop(fed);
        let plain = generations(&place, world.log.clone()).await.unwrap();
        let built = plain.rebuild(false).await.unwrap();
        assert_eq!(built.differences, [], "seed {seed}");
    }
}

/// Field report 8: the position is in the read model itself. Lose it, and reading refuses rather than guesses.
async fn a_position_that_does_not_fit_the_journal_is_refused_and_names_the_rebuild(place: Place) {
    let world = World::new().await;
    history(&world).await;
    {
        let generations = generations(&place, world.log.clone()).await.unwrap();
        generations.feed().await.unwrap();
        caught_up(&generations, &world).await;
        generations.watch(cancelled()).await.unwrap();
    }
    // Restarted, it resumes from its own position: nothing is read again.
    let again = generations(&place, world.log.clone()).await.unwrap();
    again.feed().await.unwrap();
    assert!(again.reads().borrow().progress().partitions.values().all(|p| p.next > 0));
    again.watch(cancelled()).await.unwrap();
    drop(again);
    // The position is erased, the rows are not: to begin anew would write them twice.
    place.tamper(1, "DELETE FROM position WHERE partition = 2").await;
    let erased = generations(&place, world.log.clone()).await.unwrap();
    let refused = erased.feed().await.unwrap_err().to_string();
    assert!(refused.contains("projections rebuild"), "{refused}");
    assert!(erased.rebuild(true).await.unwrap().flipped);
    erased.feed().await.unwrap();
    erased.watch(cancelled()).await.unwrap();
    drop(erased);
    // Another journal stands where the first one was.
    let other = World::new().await;
    history(&other).await;
    let refused = generations(&place, other.log.clone()).await.unwrap().feed().await.unwrap_err();
    assert!(matches!(refused, Error::AnotherJournal { .. }) && refused.to_string().contains("projections rebuild"), "{refused}");
}

/// Two projectors on one generation: one moves the position, the other's writes change nothing.
async fn two_projectors_on_one_generation_write_every_row_once(place: Place) {
    let world = World::new().await;
    let (first, second) = (generations(&place, world.log.clone()).await.unwrap(), generations(&place, world.log.clone()).await.unwrap());
    first.feed().await.unwrap();
    second.feed().await.unwrap();
    history(&world).await;
    caught_up(&first, &world).await;
    caught_up(&second, &world).await;
    first.watch(cancelled()).await.unwrap();
    second.watch(cancelled()).await.unwrap();
    drop((first, second));
    let plain = generations(&place, world.log.clone()).await.unwrap();
    assert_eq!(plain.rebuild(false).await.unwrap().differences, []);
}

/// A file that an earlier program laid out is put out of service: a new one is filled from the journal.
async fn a_generation_of_another_format_is_made_anew(place: Place) {
    let world = World::new().await;
    history(&world).await;
    drop(generations(&place, world.log.clone()).await.unwrap());
    place.outdate(1).await;
    let made = generations(&place, world.log.clone()).await.unwrap();
    made.feed().await.unwrap();
    let reads = made.reads().borrow().clone();
    assert_eq!(reads.generation(), 2);
    until(|| async {
        let devices = reads.devices(&DeviceFilter::default(), None, 50).await.unwrap().len();
        if devices == 12 { Ok(()) } else { Err(format!("{devices} devices")) }
    })
    .await;
    // Where others may still read it, it stands beside.
    assert_eq!(place.exists(1).await, !place.is_folder());
}

/// Every list question is answered from an index.
#[tokio::test(flavor = "multi_thread")]
async fn every_list_uses_its_index() {
    let world = World::new().await;
    let place = Place::folder();
    let Place::Folder(folder) = &place else { unreachable!() };
    let generations = generations(&place, world.log.clone()).await.unwrap();
    let file = rusqlite::Connection::open(folder.path().join("read-1.sqlite")).unwrap();
    let rows = [
        ("SELECT * FROM device WHERE 1 = 1 AND (name, id) > ('a', x'00') ORDER BY name, id LIMIT 50", "device_by_name"),
        ("SELECT * FROM device WHERE 1 = 1 AND site IN ('a') AND (name, id) > ('a', x'00') ORDER BY name, id LIMIT 50", "device_by_site"),
        ("SELECT * FROM device WHERE 1 = 1 AND phase = 'Ready' ORDER BY name, id LIMIT 50", "device_by_phase"),
        ("SELECT id FROM device WHERE plans > 0 ORDER BY id", "device_by_plans"),
        ("SELECT * FROM condition c WHERE c.type = 'a' ORDER BY c.status, c.device, c.subject LIMIT 5", "condition_by_type"),
        ("SELECT * FROM history WHERE stream = 'a' AND offset < 9 ORDER BY offset DESC LIMIT 5", "history_by_stream"),
        ("SELECT * FROM operation o WHERE 1 = 1 AND o.device = x'00' ORDER BY o.started_at DESC, o.id DESC LIMIT 5", "operation_by_device"),
        (
            "SELECT * FROM operation o WHERE 1 = 1 AND o.state = 'running' ORDER BY o.started_at DESC, o.id DESC LIMIT 5",
            "operation_by_state",
        ),
        ("SELECT * FROM stream WHERE id >= 'site/' AND id < 'site0' ORDER BY id", "PRIMARY KEY"),
    ];
    for (sql, index) in rows {
        let mut statement = file.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let plan: Vec<String> = statement.query_map([], |r| r.get(3)).unwrap().map(Result::unwrap).collect();
        assert!(plan.iter().any(|p| p.contains(index)) && !plan.iter().any(|p| p.contains("TEMP B-TREE")), "{sql}: {plan:?}");
    }
    drop(generations);
}

/// A poison decision stops its partition alone, visibly.
async fn a_poison_record_stops_its_partition_and_is_shown(place: Place) {
    let world = World::new().await;
    history(&world).await;
    let partition = device(1).partition(5);
    let at = Topics::embedded().at(topics::JOURNAL, partition);
    world.log.append(at, vec![Record { key: "poison".into(), value: "no avro".into() }]).await.unwrap();
    let generations = generations(&place, world.log.clone()).await.unwrap();
    generations.feed().await.unwrap();
    let reads = generations.reads().borrow().clone();
    until(|| async {
        let progress = reads.progress();
        let stopped: Vec<_> = progress.partitions.iter().filter_map(|(p, s)| Some((*p, s.stopped.clone()?))).collect();
        match stopped.as_slice() {
            [(p, why)] if *p == partition && why.contains("not an Avro single object") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(reads.progress().partitions.iter().filter(|(p, _)| **p != partition).all(|(_, s)| s.stopped.is_none()));
}
