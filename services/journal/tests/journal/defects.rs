//! Defects are contained: a panic, an undecodable input, a corrupt record cost what they touch and nothing else.

use crate::world::{START, World, command, device, drain, netbox, observation, only_embedded, open, profile, register, site_stream, until};
use fleet_journal::{Clock, ManualClock, Phase as Doing, Rules, Topics};
use fleet_lifecycle::{Context, Decider, Entity, Fleet, Observed, Refusal, Request, Sighting};
use fleet_log::{Item, Record};
use fleet_schemas::*;
use std::sync::Arc;
use tempfile::TempDir;

async fn parked(world: &World) -> Vec<Parked> {
    let at = Topics::embedded().at(topics::PARKED, 0);
    let (mut reader, mut out) = (world.log.read(&[(at, 0)]), vec![]);
    while let Ok(Item::Record(stored)) = reader.next().await {
        out.push(decode(&stored.record.value).unwrap());
    }
    out
}

async fn until_parked(world: &World, n: usize) -> Vec<Parked> {
    until(|| async {
        let parked = parked(world).await;
        if parked.len() >= n { Ok(parked) } else { Err(format!("{} parked", parked.len())) }
    })
    .await
}

async fn put(world: &World, topic: &str, stream: &StreamId, value: Vec<u8>) {
    let at = Topics::embedded().at(topic, stream.partition(5));
    world.log.append(at, vec![Record { key: stream.to_string().into(), value: value.into() }]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn undecodable_input_is_parked_as_it_was_and_the_stream_goes_on() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    put(&world, topics::OBSERVATIONS, &device(1), b"no avro at all".to_vec()).await;
    let mut unknown = encode(&netbox(1, 5, START));
    unknown[5] ^= 0xff;
    put(&world, topics::OBSERVATIONS, &device(1), unknown).await;
    let mut cut = encode(&command(device(1), drain()));
    cut.truncate(60);
    put(&world, topics::COMMANDS, &device(1), cut.clone()).await;
    let stray = encode(&command(StreamId::Site("elsewhere".parse().unwrap()), register()));
    put(&world, topics::COMMANDS, &device(1), stray).await;
    let parked = until_parked(&world, 4).await;
    let whys: Vec<_> = parked.iter().map(|p| p.why.as_str()).collect();
    assert!(whys.iter().any(|w| w.contains("not an Avro single object")), "{whys:?}");
    assert!(whys.iter().any(|w| w.contains("unknown schema")), "{whys:?}");
    assert!(whys.iter().any(|w| w.contains("belongs into partition 0")), "{whys:?}");
    let of_commands = parked.iter().find(|p| p.value.as_slice() == cut.as_slice()).unwrap();
    assert_eq!((of_commands.topic.as_str(), of_commands.hash), ("fm.commands.v1", Hash::of(&cut)));
    world.expect(&command(device(1), drain()), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_of_a_type_we_do_not_know_is_parked_and_refused() {
    let world = World::new().await;
    world.site().await;
    let mut ask = command(site_stream(), profile());
    ask.ask.r#type = "OfAnotherVersion".into();
    let answer = world.expect(&ask, "undecodable").await;
    assert!(answer.decided.outcome.seen.contains("OfAnotherVersion"));
    assert_eq!(until_parked(&world, 1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_decision_is_parked_and_a_command_refused_too_large() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let mut big = profile();
    if let Ask::SetRoleProfile(p) = &mut big {
        p.role = "x".repeat(300_000);
    }
    world.expect(&command(site_stream(), big), "too-large").await;
    assert!(until_parked(&world, 1).await[0].why.contains("300"));
    world.expect(&command(device(1), drain()), "").await;
}

fn observe(state: &Entity, sighting: &Sighting, ctx: &Context<'_>) -> Observed<Event> {
    assert!(sighting.native_id != "poison", "a defect in observe");
    Fleet::observe(state, sighting, ctx)
}

fn decide(state: &Entity, request: &Request, ctx: &Context<'_>) -> Result<Vec<Event>, Refusal> {
    assert!(ctx.reason != "poison", "a defect in decide");
    Fleet::decide(state, request, ctx)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_decider_parks_the_input_and_nothing_else_stops() {
    let folder = Arc::new(TempDir::new().unwrap());
    let log = open(&folder).await;
    let rules = Rules { observe, decide, ..Rules::default() };
    let world = World::on(folder, log, Arc::new(ManualClock::new(START)), rules).await;
    world.site().await;
    world.in_service(1).await;
    let poison = Observation { native_id: "poison".into(), ..netbox(1, 5, START) };
    world.journal.observe(&[poison]).await.unwrap();
    let asked = Command { reason: "poison".into(), ..command(device(1), drain()) };
    let answer = world.expect(&asked, "internal").await;
    assert!(answer.decided.outcome.seen.contains("a defect in decide"), "{:?}", answer.decided.outcome);
    let parked = until_parked(&world, 2).await;
    assert!(parked.iter().any(|p| p.why.contains("a defect in observe")), "{parked:?}");
    world.expect(&command(device(1), drain()), "").await;
}

fn evolve(state: &mut Entity, event: &Event, at: Timestamp) {
    assert!(!matches!(event, Event::Device(DeviceEvent::HoldPlaced(h)) if h.name == "poison"), "a defect in evolve");
    Fleet::evolve(state, event, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_fold_on_an_accepted_record_stops_that_partition_alone() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    world.expect(&command(device(1), PlaceHold { name: "poison".into(), expires_at: None }.into()), "").await;
    let (folder, log, clock) = world.stop().await;
    let world = World::on(folder, log, clock, Rules { evolve, ..Rules::default() }).await;
    stopped_alone(&world, device(1).partition(5), "panicked").await;
}

async fn stopped_alone(world: &World, partition: u32, because: &str) {
    for status in world.journal.statuses() {
        match status.phase {
            Doing::Stopped(why) if status.partition == partition => assert!(why.contains(because), "{why}"),
            Doing::Leading if status.partition != partition => {}
            other => panic!("partition {}: {other:?}", status.partition),
        }
    }
    world.expect(&command(site_stream(), register()), "").await;
    let elsewhere = (1..100).find(|i| device(*i).partition(5) != partition).unwrap();
    world.journal.observe(&[netbox(elsewhere, 1, world.clock.now())]).await.unwrap();
    world.until_phase(elsewhere, Phase::Discovered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_record_stops_its_partition_with_a_clear_text_and_the_rest_serves() {
    if only_embedded("a_corrupt_record_stops_its_partition_with_a_clear_text_and_the_rest_serves") {
        return;
    }
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let partition = device(1).partition(5);
    let (folder, log, clock) = world.stop().await;
    drop(log);
    let file = rusqlite::Connection::open(folder.path().join("log.sqlite")).unwrap();
    let lane: i64 =
        file.query_row("SELECT id FROM lane WHERE topic = 'fm.journal.v1' AND partition = ?1", [partition], |r| r.get(0)).unwrap();
    file.execute(&format!("UPDATE records_{lane} SET value = CAST(x'00' || value AS BLOB) WHERE offset = 3"), []).unwrap();
    drop(file);
    let log = open(&folder).await;
    let world = World::on(folder, log, clock, Rules::default()).await;
    stopped_alone(&world, partition, &format!("fm.journal.v1/{partition} offset 3 cannot be decoded")).await;
}

/// The reference's own partition: the others go on with what they know, and take no step forward on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_record_in_the_reference_leaves_the_safer_edges() {
    if only_embedded("a_corrupt_record_in_the_reference_leaves_the_safer_edges") {
        return;
    }
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let (folder, log, clock) = world.stop().await;
    drop(log);
    let file = rusqlite::Connection::open(folder.path().join("log.sqlite")).unwrap();
    let lane: i64 = file.query_row("SELECT id FROM lane WHERE topic = 'fm.journal.v1' AND partition = 0", [], |r| r.get(0)).unwrap();
    let changed = file
        .execute(&format!("UPDATE records_{lane} SET value = x'00' WHERE offset = (SELECT max(offset) FROM records_{lane})"), [])
        .unwrap();
    assert_eq!(changed, 1);
    drop(file);
    let log = open(&folder).await;
    let world = World::on(folder, log, clock, Rules::default()).await;
    for status in world.journal.statuses() {
        match status.phase {
            Doing::Stopped(why) if status.partition == 0 => assert!(why.contains("fm.journal.v1/0 offset"), "{why}"),
            Doing::Leading if status.partition != 0 => {}
            other => panic!("partition {}: {other:?}", status.partition),
        }
    }
    world.expect(&command(device(1), drain()), "").await;
    world.expect(&command(device(1), Resume {}.into()), "reference-stale").await;
}

/// One byte of a record changed, decodable or not, is found by whoever reads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_forged_decision_breaks_its_chain() {
    if only_embedded("a_forged_decision_breaks_its_chain") {
        return;
    }
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    world.expect(&command(device(1), drain()), "").await;
    let partition = device(1).partition(5);
    let (folder, log, _) = world.stop().await;
    drop(log);
    let file = rusqlite::Connection::open(folder.path().join("log.sqlite")).unwrap();
    let lane: i64 =
        file.query_row("SELECT id FROM lane WHERE topic = 'fm.journal.v1' AND partition = ?1", [partition], |r| r.get(0)).unwrap();
    let sql = format!("SELECT offset, value FROM records_{lane} ORDER BY offset");
    let records: Vec<(i64, Vec<u8>)> =
        file.prepare(&sql).unwrap().query_map([], |r| Ok((r.get(0)?, r.get(1)?))).unwrap().map(Result::unwrap).collect();
    let (offset, value) =
        records.iter().find(|(_, v)| matches!(JournalRecord::decode(v), Ok(JournalRecord::Decision(d)) if d.version == 1)).unwrap();
    let Ok(JournalRecord::Decision(mut forged)) = JournalRecord::decode(value) else { panic!("no decision") };
    forged.reason = "rewritten".into();
    file.execute(&format!("UPDATE records_{lane} SET value = ?1 WHERE offset = ?2"), (encode(&*forged), offset)).unwrap();
    drop(file);
    let log = open(&folder).await;
    let (_, found) = fleet_journal::replay::partition(&*log, &Topics::embedded(), partition).await;
    assert!(!found.sound() && found.forked.len() == 1, "{found:?}");
    assert!(found.forked[0].contains("a fork"), "{found:?}");
}

/// A look says nothing of a device: a sweep on a device's stream, a device's fact on a site's.
/// Until a decision about the first device notes this.
pub async fn until_noted(world: &World, note: &str) {
    let at = Topics::embedded().at(topics::JOURNAL, device(1).partition(5));
    until(|| async {
        let (mut reader, mut notes) = (world.log.read(&[(at.clone(), 0)]), vec![]);
        while let Ok(Item::Record(stored)) = reader.next().await {
            if let Ok(JournalRecord::Decision(d)) = JournalRecord::decode(&stored.record.value) {
                notes.push(d.outcome.code.clone());
            }
        }
        if notes.iter().any(|n| n == note) { Ok(()) } else { Err(format!("{notes:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_on_the_wrong_stream_are_noted() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let sweep = SweepCompleted { source: Source::Slurm, interval_seconds: 60, count: 1 };
    world.journal.observe(&[observation(device(1), sweep.into(), Source::Slurm, 77, START)]).await.unwrap();
    let before = world.replayed(device(1).partition(5)).await.streams[&device(1)].head.version;
    until_noted(&world, "wrong-stream").await;
    assert_eq!(world.replayed(device(1).partition(5)).await.streams[&device(1)].head.version, before);
}

/// A log whose journal is never read: its readers say nothing, as consumers have been known to.
struct Silent(Arc<dyn fleet_log::EventLog>);

struct Nothing;

impl fleet_log::Reader for Nothing {
    fn next(&mut self) -> fleet_log::Fut<'_, Result<Item, fleet_log::ReadError>> {
        Box::pin(std::future::pending())
    }
}

impl fleet_log::EventLog for Silent {
    fn ensure(&self, topics: &[fleet_log::TopicSpec]) -> fleet_log::Fut<'_, Result<(), fleet_log::Error>> {
        self.0.ensure(topics)
    }
    fn append(&self, at: fleet_log::TopicPartition, records: Vec<Record>) -> fleet_log::Fut<'static, Result<(), fleet_log::AppendError>> {
        self.0.append(at, records)
    }
    fn read(&self, _: &[(fleet_log::TopicPartition, u64)]) -> Box<dyn fleet_log::Reader> {
        Box::new(Nothing)
    }
    fn bounds(&self, at: fleet_log::TopicPartition) -> fleet_log::Fut<'_, Result<std::ops::Range<u64>, fleet_log::Error>> {
        self.0.bounds(at)
    }
    fn trim(&self, at: fleet_log::TopicPartition, before: u64) -> fleet_log::Fut<'_, Result<(), fleet_log::Error>> {
        self.0.trim(at, before)
    }
}

/// Field report 2 (kafka-flow#849): a recovery that hangs ends the process with the reason, well before health checks call it stuck.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_stops_answering_while_catching_up_ends_the_process_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let log = crate::hubs::shared(&folder).await;
    let (mut tasks, hubs) = (tokio::task::JoinSet::new(), Some(fleet_journal::Hubs { name: "one".into(), leads: false }));
    let config = fleet_journal::Config { hubs, ..fleet_journal::Config::new(Arc::new(Silent(log)), Topics::embedded()) };
    let begun = std::time::Instant::now();
    let journal = fleet_journal::Journal::start(config, &mut tasks, tokio_util::sync::CancellationToken::new()).await.unwrap();
    let ended = tasks.join_next().await.unwrap().unwrap().unwrap_err().to_string();
    assert!(ended.contains("no progress") && ended.contains("does not answer"), "{ended}");
    assert!(begun.elapsed().as_secs() < 60, "it took {:?}", begun.elapsed());
    assert!(journal.statuses().iter().all(|s| s.beat.elapsed().as_secs() < 60), "no loop was called stuck before");
}
