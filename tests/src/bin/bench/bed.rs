//! A journal with its read model in this process, filled to size.

use crate::cpu::Cpu;
use crate::table::{Ground, Table, at_least, short};
use fleet_journal::{Answer, Config, Journal, Topics};
use fleet_log::{EventLog, TopicPartition, kafka::KafkaLog, sqlite::SqliteLog};
use fleet_projections::{Generations, Store};
use fleet_schemas::*;
use fleet_tests::{Brokers, Database};
use std::{sync::Arc, time::Duration, time::Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub const SITES: u64 = 20;
/// Observations handed over at once while filling.
const BATCH: u64 = 2000;
const PATIENCE: Duration = Duration::from_secs(600);

pub struct Bed {
    pub ground: Ground,
    pub outside: Option<Outside>,
    pub log: Arc<dyn EventLog>,
    pub journal: Arc<Journal>,
    pub generations: Arc<Generations>,
    topics: Topics,
    tasks: JoinSet<Result<(), fleet_log::Error>>,
    cancel: CancellationToken,
    /// Dropped last.
    pub folder: TempDir,
}

/// What runs beside us.
pub struct Outside {
    pub brokers: Brokers,
    pub database: Database,
}

impl Bed {
    pub async fn new(ground: Ground) -> Self {
        let folder = TempDir::new().unwrap();
        let start = |count| Outside { brokers: Brokers::start(folder.path(), count, "").unwrap(), database: Database::start().unwrap() };
        let outside = Some(ground.brokers()).filter(|count| *count > 0).map(start);
        let topics = ground.pick(Topics::embedded(), Topics::kafka());
        let (log, store): (Arc<dyn EventLog>, _) = match &outside {
            None => (Arc::new(SqliteLog::open(&folder.path().join("log")).unwrap()), Store::Folder(folder.path().join("read"))),
            Some(outside) => {
                let log = KafkaLog::open(outside.brokers.options()).await.unwrap();
                (Arc::new(log), Store::Postgres(Box::new(outside.database.config().unwrap())))
            }
        };
        log.ensure(&ground.pick(Topics::specs_embedded(), Topics::specs_kafka())).await.unwrap();
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        let journal = Arc::new(Journal::start(Config::new(log.clone(), topics.clone()), &mut tasks, cancel.clone()).await.unwrap());
        let partitions = (0..topics.partitions).map(|p| topics.at(topics::JOURNAL, p)).collect();
        let generations = Generations::open(store, log.clone(), partitions, topics.at(topics::PARKED, 0)).await.unwrap();
        let generations = Arc::new(generations);
        generations.feed().await.unwrap();
        journal.settled().await;
        let bed = Self { ground, outside, log, journal, generations, topics, tasks, cancel, folder };
        bed.register().await;
        bed
    }

    async fn register(&self) {
        for s in 0..SITES {
            let stream = StreamId::Site(site(s));
            let source = |source| SourceConfig { source, interval_seconds: 3600, mode: Mode::Observe };
            self.ask(stream.clone(), RegisterSite { sources: vec![source(Source::Netbox), source(Source::Slurm)] }.into()).await;
            let profile = RoleProfile {
                provisioner: Provisioner::External,
                scheduler: Scheduler::Slurm,
                dhcp: Dhcp::None,
                workload_proofs: vec!["slurm-idle".into()],
                bom: None,
                firmware: None,
                validation: None,
                burn_in: None,
            };
            self.ask(stream.clone(), SetRoleProfile { role: "gpu".into(), profile }.into()).await;
            for source in [Source::Netbox, Source::Slurm] {
                let fact = SweepCompleted { source, interval_seconds: 3600, count: 0 };
                self.journal.observe(&[observation(stream.clone(), s, source, 1, fact.into())]).await.unwrap();
            }
        }
    }

    pub async fn ask(&self, stream: StreamId, ask: Ask) -> Answer {
        self.journal.ask(&command(stream, ask), PATIENCE).await.unwrap()
    }

    /// Every device once from NetBox and once from SLURM; then until the read model shows them all.
    pub async fn fill(&self, devices: u64, table: &mut Table) {
        let (started, before) = (Instant::now(), self.cpu());
        for from in (0..devices).step_by(BATCH as usize) {
            let some: Vec<_> = (from..(from + BATCH).min(devices)).map(netbox).collect();
            self.journal.observe(&some).await.unwrap();
        }
        for from in (0..devices).step_by(BATCH as usize) {
            let some: Vec<_> = (from..(from + BATCH).min(devices)).map(|i| slurm(i, 1, 0)).collect();
            self.journal.observe(&some).await.unwrap();
        }
        self.caught_up().await;
        let took = started.elapsed();
        let rate = 2.0 * devices as f64 / took.as_secs_f64();
        let ours = format!("{rate:.0}/s, {}, {} in all", self.each(before, 2 * devices), short(took));
        table.row("first sight of every device: observed, decided, projected", "2,000 observations/s", ours, at_least(rate, 2000.0));
    }

    /// Decisions on the devices there are, until the journal has as many as asked for.
    pub async fn grow(&self, devices: u64, decisions: u64, table: &mut Table) {
        let have: u64 = self.journal.statuses().iter().map(|s| s.stats.decisions).sum();
        let want = decisions.saturating_sub(have).max(5 * BATCH);
        let (started, before) = (Instant::now(), self.cpu());
        let (mut sent, mut counter) = (0, 1_000_000);
        // One device has a history of a thousand decisions; the rest share what is missing.
        let mut one: Vec<_> = (0..1000).map(|n| slurm(7, counter + n, (n % 2) as i64 + 1)).collect();
        counter += 1000;
        while sent < want {
            let mut some: Vec<_> = (0..BATCH).map(|n| slurm((sent + n) % devices, counter, (counter % 2) as i64 + 1)).collect();
            some.append(&mut one);
            self.journal.observe(&some).await.unwrap();
            sent += BATCH;
            if sent / devices != (sent - BATCH) / devices {
                counter += 1;
            }
        }
        self.caught_up().await;
        let took = started.elapsed();
        let rate = sent as f64 / took.as_secs_f64();
        table.row(
            "changes on known devices: observed, decided, projected",
            "2,000 observations/s",
            format!("{rate:.0}/s, {}", self.each(before, sent)),
            at_least(rate, 2000.0),
        );
    }

    /// What was spent so far.
    pub fn cpu(&self) -> Cpu {
        Cpu::now(self.outside.as_ref())
    }

    /// What was spent since then on each of so many.
    pub fn each(&self, before: Cpu, units: u64) -> String {
        before.each(self.outside.as_ref(), units)
    }

    /// Until every input is decided and every decision is in the read model.
    pub async fn caught_up(&self) {
        let (reads, started) = (self.generations.reads().borrow().clone(), Instant::now());
        for partition in 0..self.topics.partitions {
            while !self.decided(partition).await {
                assert!(started.elapsed() < PATIENCE, "partition {partition} does not get through its inputs");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let end = self.end(topics::JOURNAL, partition).await;
            assert!(reads.reached(partition, end - 1, PATIENCE).await, "partition {partition} does not get into the read model");
        }
    }

    async fn decided(&self, partition: u32) -> bool {
        let ends = (self.end(topics::COMMANDS, partition).await, self.end(topics::OBSERVATIONS, partition).await);
        let stats = &self.journal.statuses()[partition as usize].stats;
        (stats.commands, stats.observations) == ends
    }

    async fn end(&self, topic: &str, partition: u32) -> u64 {
        self.log.bounds(self.at(topic, partition)).await.unwrap().end
    }

    pub fn at(&self, topic: &str, partition: u32) -> TopicPartition {
        self.topics.at(topic, partition)
    }

    /// Gives what is left: the folder, and whoever runs beside us.
    pub async fn stop(mut self) -> (TempDir, Option<Outside>) {
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
        let cancelled = CancellationToken::new();
        cancelled.cancel();
        self.generations.watch(cancelled).await.unwrap();
        (self.folder, self.outside)
    }
}

pub fn site(i: u64) -> SiteId {
    format!("dc{i}").parse().unwrap()
}

pub fn name(i: u64) -> String {
    format!("gpu{i:06}")
}

pub fn device(i: u64) -> StreamId {
    StreamId::Device(DeviceId::from_netbox("bench", i as i64))
}

pub fn command(stream: StreamId, ask: Ask) -> Command {
    let now = now();
    Command {
        id: CommandId(Uuid::new_v4()),
        stream,
        ask: ask.encode(),
        actor: Actor::system("bench"),
        reason: "bench".into(),
        expected_version: None,
        dry_run: false,
        issued_at: now,
        not_after: now.plus(HOUR),
        trace_id: String::new(),
        reaction: None,
    }
}

fn now() -> Timestamp {
    use fleet_journal::Clock;
    fleet_journal::SystemClock.now()
}

pub fn observation(stream: StreamId, site_no: u64, source: Source, counter: u64, fact: Fact) -> Observation {
    let at = now();
    Observation {
        id: ObservationId(Uuid::new_v4()),
        stream,
        fact: fact.encode(),
        site: site(site_no),
        source,
        native_id: "n".into(),
        source_seq: SourceSeq { epoch: 1, counter },
        observed_at: at,
        sent_at: at,
        received_at: at,
        client: "bench".into(),
        trace_id: String::new(),
        reach: Vec::new(),
    }
}

fn condition(r#type: &str, holds: bool, reason: &str) -> ConditionReport {
    let status = if holds { Status::True } else { Status::False };
    ConditionReport { r#type: r#type.into(), subject: "device".into(), status, reason: reason.into(), message: String::new() }
}

pub fn netbox(i: u64) -> Observation {
    let name = name(i);
    let inventory = Inventory {
        instance: "bench".into(),
        netbox_id: i as i64,
        name: Some(name.clone()),
        display: name.clone(),
        site: site(i % SITES),
        role: "gpu".into(),
        device_type: "h200".into(),
        serial: Some(format!("SN{i:07}")),
        asset_tag: Some(format!("AT{i:07}")),
        rack: Some(format!("r{}", i / 40)),
        position_tenths: Some(10),
        face: Some("front".into()),
        status: "active".into(),
        fleet_phase: None,
        tenant: Some("tenant-a".into()),
        tags: vec!["gpu".into(), "managed".into()],
        slurm_node: Some(name),
        slurm_node_from: Some("custom-field".into()),
    };
    let mut conditions = vec![condition("InventoryMatched", true, "Complete"), condition("IdentityConflict", false, "SerialUnique")];
    // With what SLURM says ten each, as the design counts.
    let gpus = (0..4).map(|gpu| ConditionReport { subject: format!("gpu{gpu}"), ..condition("IdentityConflict", false, "SerialUnique") });
    conditions.extend(gpus);
    observation(device(i), i % SITES, Source::Netbox, 1, NetboxDeviceSeen { inventory, conditions, edits: vec![] }.into())
}

/// A look that shows `busy` allocated CPUs.
pub fn slurm(i: u64, counter: u64, busy: i64) -> Observation {
    let name = name(i);
    let section = SchedulerSection {
        slurm_node: name.clone(),
        state: vec![if busy > 0 { "MIXED" } else { "IDLE" }.into()],
        reservation: None,
        slurmd_start_time: Some(Timestamp(1_790_000_000_000_000)),
        cpus: 128,
        alloc_cpus: busy,
        partitions: vec!["batch".into(), "burnin".into()],
        features: vec!["h200".into()],
        gres: Some("gpu:h200:8".into()),
        reason: None,
        reason_user: None,
        reason_since: None,
        drain_since: None,
    };
    let conditions = vec![
        condition("SlurmMember", true, "Listed"),
        condition("SlurmSchedulable", true, if busy > 0 { "Mixed" } else { "Idle" }),
        condition("SlurmDrained", false, "NotDraining"),
        condition("SlurmDrainForeign", false, "NotDraining"),
    ];
    observation(device(i), i % SITES, Source::Slurm, counter, SlurmNodeSeen { slurm_node: name, conditions, section: Some(section) }.into())
}
