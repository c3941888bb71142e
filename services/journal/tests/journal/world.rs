//! A journal in a folder, a clock that the test moves, and the shortest ways to ask and to show.

use fleet_journal::{Answer, AskError, Clock, Config, Journal, Ledger, ManualClock, Positions, Rules, Topics, replay};
use fleet_log::{EventLog, kafka, sqlite::SqliteLog};
use fleet_schemas::*;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Where time begins.
pub const START: Timestamp = Timestamp(1_800_000_000_000_000);
const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub folder: Arc<TempDir>,
    pub log: Arc<dyn EventLog>,
    pub clock: Arc<ManualClock>,
    pub journal: Journal,
    tasks: JoinSet<Result<(), fleet_log::Error>>,
    cancel: CancellationToken,
}

/// Whether the tests run on Kafka.
pub fn on_kafka() -> bool {
    std::env::var("FM_TEST_LOG").is_ok_and(|log| log == "kafka")
}

/// True where a test is about the embedded log's own file: on Kafka there is nothing for it to show.
pub fn only_embedded(test: &str) -> bool {
    if on_kafka() {
        eprintln!("skipped on Kafka: {test}");
    }
    on_kafka()
}

/// The log of a folder: embedded in it; or, where `FM_TEST_LOG` says `kafka`, on the brokers of `FM_TEST_KAFKA` under its name.
pub async fn open(folder: &TempDir) -> Arc<dyn EventLog> {
    if on_kafka() {
        let brokers = std::env::var("FM_TEST_KAFKA").unwrap_or_else(|_| panic!("FM_TEST_LOG=kafka needs FM_TEST_KAFKA"));
        let prefix = format!("j{}.", folder.path().file_name().unwrap().to_string_lossy().trim_start_matches('.'));
        let log = kafka::KafkaLog::open(kafka::Options { prefix, ..kafka::Options::plain(&brokers) }).await.unwrap();
        log.ensure(&Topics::specs_embedded()).await.unwrap();
        return Arc::new(log);
    }
    // The log of a journal that was just stopped closes with its last task.
    let log = until(|| async { SqliteLog::open(folder.path()).map_err(|e| e.to_string()) }).await;
    log.ensure(&Topics::specs_embedded()).await.unwrap();
    Arc::new(log)
}

/// Waits until `look` gives a value; panics with its last answer when it takes too long.
pub async fn until<T, F: Future<Output = Result<T, String>>>(mut look: impl FnMut() -> F) -> T {
    let started = tokio::time::Instant::now();
    loop {
        match look().await {
            Ok(value) => return value,
            Err(last) if started.elapsed() > PATIENCE => panic!("{last}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

impl World {
    pub async fn new() -> Self {
        let folder = Arc::new(TempDir::new().unwrap());
        let log = open(&folder).await;
        Self::on(folder, log, Arc::new(ManualClock::new(START)), Rules::default()).await
    }

    /// With a reactor that keeps its positions there.
    pub async fn reacting(positions: Arc<dyn Positions>) -> Self {
        let mut world = Self::new().await;
        world.react(positions).await;
        world
    }

    /// Starts a reactor.
    pub async fn react(&mut self, positions: Arc<dyn Positions>) {
        self.journal.react(positions, &mut self.tasks, self.cancel.clone());
    }

    pub async fn on(folder: Arc<TempDir>, log: Arc<dyn EventLog>, clock: Arc<ManualClock>, rules: Rules) -> Self {
        // Tests move the clock in leaps.
        Self::leaping(folder, log, clock, rules, Micros::MAX).await
    }

    pub async fn leaping(folder: Arc<TempDir>, log: Arc<dyn EventLog>, clock: Arc<ManualClock>, rules: Rules, jump: Micros) -> Self {
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        let config = Config { clock: clock.clone(), rules, jump, ..Config::new(log.clone(), Topics::embedded()) };
        let journal = Journal::start(config, &mut tasks, cancel.clone()).await.unwrap();
        journal.settled().await;
        Self { folder, log, clock, journal, tasks, cancel }
    }

    /// Stops cleanly; gives what a next one can be started on.
    pub async fn stop(mut self) -> (Arc<TempDir>, Arc<dyn EventLog>, Arc<ManualClock>) {
        self.cancel.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap().unwrap();
        }
        (self.folder, self.log, self.clock)
    }

    /// Ends every loop wherever it is, as a killed process would.
    pub async fn kill(mut self) -> (Arc<TempDir>, Arc<dyn EventLog>, Arc<ManualClock>) {
        self.tasks.shutdown().await;
        (self.folder, self.log, self.clock)
    }

    pub async fn restart(self) -> Self {
        let (folder, log, clock) = self.stop().await;
        Self::on(folder, log, clock, Rules::default()).await
    }

    pub async fn ask(&self, command: &Command) -> Result<Answer, AskError> {
        self.journal.ask(command, PATIENCE).await
    }

    /// Asks and expects this code; empty = accepted.
    pub async fn expect(&self, command: &Command, code: &str) -> Answer {
        let answer = self.ask(command).await.unwrap();
        assert_eq!(answer.decided.outcome.code, code, "{:?}", answer.decided.outcome);
        answer
    }

    /// A site with both sources and a profile for `gpu`, freshly looked at.
    pub async fn site(&self) {
        self.expect(&command(site_stream(), register()), "").await;
        self.expect(&command(site_stream(), profile()), "").await;
        self.look(1).await;
    }

    /// A complete look at both sources of the site, now.
    pub async fn look(&self, counter: u64) {
        let now = self.clock.now();
        for source in [Source::Netbox, Source::Slurm] {
            let fact = SweepCompleted { source, interval_seconds: 60, count: 1 };
            self.journal.observe(&[observation(site_stream(), fact.into(), source, counter, now)]).await.unwrap();
        }
        let site: SiteId = SITE.parse().unwrap();
        until(|| async {
            let reference = self.journal.reference();
            let fresh = reference.fresh(&site, Source::Netbox) && reference.fresh(&site, Source::Slurm);
            if fresh { Ok(()) } else { Err("not fresh".into()) }
        })
        .await;
    }

    /// A device that NetBox and SLURM show as running; baselined into service.
    pub async fn in_service(&self, i: i64) {
        let now = self.clock.now();
        self.journal.observe(&[netbox(i, 1, now), slurm(i, 1, now, &["IDLE"])]).await.unwrap();
        self.until_phase(i, Phase::Discovered).await;
        until(|| async {
            let answer = self.ask(&command(device(i), Baseline { phase: Phase::InService }.into())).await.unwrap();
            if answer.decided.outcome.code.is_empty() { Ok(()) } else { Err(format!("{:?}", answer.decided.outcome)) }
        })
        .await;
    }

    /// The whole of one partition, from its first record.
    pub async fn replayed(&self, partition: u32) -> Ledger {
        let (ledger, found) = replay::partition(&*self.log, &Topics::embedded(), partition).await;
        assert!(found.sound(), "{found:?}");
        ledger
    }

    pub async fn device(&self, i: i64) -> Option<Arc<fleet_lifecycle::Device>> {
        let stream = device(i);
        let ledger = self.replayed(stream.partition(5)).await;
        ledger.streams.get(&stream).and_then(|s| s.entity.device().cloned())
    }

    /// Waits until every name that a device claims is its own: a reactor must run.
    pub async fn granted(&self, i: i64) {
        until(|| async {
            let held = self.device(i).await.unwrap().claimed().all(|(_, grant)| grant.held);
            if held { Ok(()) } else { Err("its names are not granted yet".into()) }
        })
        .await;
    }

    pub async fn until_phase(&self, i: i64, phase: Phase) {
        until(|| async {
            match self.device(i).await {
                Some(d) if d.phase == Some(phase) => Ok(()),
                other => Err(format!("{phase} expected, {:?}", other.map(|d| d.phase))),
            }
        })
        .await;
    }
}

pub const SITE: &str = "lab1";

pub fn site_stream() -> StreamId {
    StreamId::Site(SITE.parse().unwrap())
}

pub fn device(i: i64) -> StreamId {
    StreamId::Device(DeviceId::from_netbox("main", i))
}

pub fn register() -> Ask {
    let source = |source| SourceConfig { source, interval_seconds: 60, mode: Mode::Observe };
    RegisterSite { sources: vec![source(Source::Netbox), source(Source::Slurm)] }.into()
}

pub fn profile() -> Ask {
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
    SetRoleProfile { role: "gpu".into(), profile }.into()
}

pub fn command(stream: StreamId, ask: Ask) -> Command {
    Command {
        id: CommandId(Uuid::new_v4()),
        stream,
        ask: ask.encode(),
        actor: Actor::system("test"),
        reason: "test".into(),
        expected_version: None,
        dry_run: false,
        issued_at: START,
        not_after: START.plus(365 * DAY),
        trace_id: String::new(),
        reaction: None,
    }
}

pub fn drain() -> Ask {
    Drain { mode: "pending".into(), then: Then::Stay }.into()
}

pub fn observation(stream: StreamId, fact: Fact, source: Source, counter: u64, at: Timestamp) -> Observation {
    Observation {
        id: ObservationId(Uuid::new_v4()),
        stream,
        fact: fact.encode(),
        site: SITE.parse().unwrap(),
        source,
        native_id: "n".into(),
        source_seq: SourceSeq { epoch: 1, counter },
        observed_at: at,
        sent_at: at,
        received_at: at,
        client: "test".into(),
        trace_id: String::new(),
        reach: Vec::new(),
    }
}

pub fn netbox(i: i64, counter: u64, at: Timestamp) -> Observation {
    let name = format!("gpu{i:02}");
    let inventory = Inventory {
        instance: "main".into(),
        netbox_id: i,
        name: Some(name.clone()),
        display: name.clone(),
        site: SITE.parse().unwrap(),
        role: "gpu".into(),
        device_type: "h200".into(),
        serial: Some(format!("SN{i}")),
        asset_tag: None,
        rack: Some("r1".into()),
        position_tenths: Some(10),
        face: Some("front".into()),
        status: "active".into(),
        fleet_phase: None,
        tenant: None,
        tags: vec![],
        slurm_node: Some(name),
        slurm_node_from: Some("custom-field".into()),
    };
    observation(device(i), NetboxDeviceSeen { inventory, conditions: vec![], edits: vec![] }.into(), Source::Netbox, counter, at)
}

pub fn slurm(i: i64, counter: u64, at: Timestamp, state: &[&str]) -> Observation {
    let idle = state == ["IDLE"];
    let drained = state.contains(&"DRAIN");
    let condition = |r#type: &str, holds: bool, reason: &str| ConditionReport {
        r#type: r#type.into(),
        subject: "device".into(),
        status: if holds { Status::True } else { Status::False },
        reason: reason.into(),
        message: String::new(),
    };
    let section = SchedulerSection {
        slurm_node: format!("gpu{i:02}"),
        state: state.iter().map(|s| (*s).to_owned()).collect(),
        reservation: None,
        slurmd_start_time: None,
        cpus: 8,
        alloc_cpus: 0,
        partitions: vec![],
        features: vec![],
        gres: None,
        reason: None,
        reason_user: None,
        reason_since: None,
        drain_since: drained.then_some(at),
    };
    let conditions = vec![
        condition("SlurmMember", true, "Listed"),
        condition("SlurmSchedulable", idle, if idle { "Idle" } else { "Drained" }),
        condition("SlurmDrained", drained, "Drained"),
        condition("SlurmDrainForeign", drained, "Foreign"),
    ];
    let seen = SlurmNodeSeen { slurm_node: format!("gpu{i:02}"), conditions, section: Some(section) };
    observation(device(i), seen.into(), Source::Slurm, counter, at)
}
