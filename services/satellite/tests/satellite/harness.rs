//! Worlds, looks, a hub that keeps what it is sent, an agent that says what a test tells it to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet_satellite::{
    Agent, ClientError, Clock, DeviceList, Fut, LaneSpec, ListedDevice, Look, Memory, Outbox, RunError, Seen, SendError, Settings, Sink,
    Sweep, SystemClock,
};
use fleet_schemas::{
    BootId, ConditionReport, DeviceId, Fact, NetboxDeviceSeen, Observation, SiteId, SlurmNodeSeen, Source, Status, StreamId, Timestamp,
};
use fleet_sim::{Options, Sim};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A world in which nothing happens but what the test does.
pub(crate) async fn quiet(devices: u32, pace: f64) -> Sim {
    fleet_sim::start(Options { devices, people: false, pace, ..Options::default() }).await.unwrap()
}

pub(crate) fn site(name: &str) -> SiteId {
    name.parse().unwrap()
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// A file with a secret, in a folder that lives as long as the value.
pub(crate) struct SecretFile {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

pub(crate) fn secret_file(text: &str) -> SecretFile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    std::fs::write(&path, format!("{text}\n")).unwrap();
    SecretFile { _folder: folder, path }
}

pub(crate) fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(folder)
}

/// An agent with its memory, looked with by hand.
pub(crate) struct Looker<A> {
    pub(crate) agent: A,
    pub(crate) memory: Memory,
    pub(crate) devices: DeviceList,
    pub(crate) now: Timestamp,
    /// Half of a look's time.
    pub(crate) half: Duration,
}

impl<A: Agent> Looker<A> {
    pub(crate) fn new(agent: A) -> Self {
        Self { agent, memory: Memory::default(), devices: DeviceList::default(), now: now(), half: Duration::from_secs(60) }
    }

    /// One look, a minute after the last. What it remembers is taken over.
    pub(crate) async fn look(&mut self) -> Result<Sweep, ClientError> {
        self.now = self.now.plus(60_000_000);
        let half_time = tokio::time::Instant::now() + self.half;
        let sweep = self.agent.look(Look { devices: &self.devices, memory: &self.memory, now: self.now, half_time }).await?;
        self.memory.apply(&sweep.memory);
        Ok(sweep)
    }
}

/// What a sweep says of each thing, by native id.
pub(crate) fn by_native(sweep: &Sweep) -> BTreeMap<String, Seen> {
    let of_devices = || sweep.observations.iter().filter(|s| !matches!(s.fact, Fact::UnclaimedSeen(_)));
    let all: BTreeMap<String, Seen> = of_devices().map(|s| (s.native_id.clone(), s.clone())).collect();
    assert_eq!(all.len(), of_devices().count(), "a thing is seen twice in one sweep");
    all
}

pub(crate) fn conditions(seen: &Seen) -> &[ConditionReport] {
    match &seen.fact {
        Fact::NetboxDeviceSeen(NetboxDeviceSeen { conditions, .. }) | Fact::SlurmNodeSeen(SlurmNodeSeen { conditions, .. }) => conditions,
        other => panic!("no conditions: {other:?}"),
    }
}

/// `True Idle` and the like.
pub(crate) fn condition(seen: &Seen, r#type: &str) -> String {
    let found = conditions(seen).iter().find(|c| c.r#type == r#type).unwrap_or_else(|| panic!("no {type} in {seen:?}"));
    format!("{} {}", found.status, found.reason)
}

pub(crate) fn listed(id: i64, slurm_node: &str) -> ListedDevice {
    let slurm_node = Some(slurm_node.to_owned());
    ListedDevice { id: DeviceId::from_netbox("sim", id), name: format!("device {id}"), slurm_node }
}

/// A clock that a test sets.
pub(crate) struct TestClock(pub(crate) AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A hub in memory.
#[derive(Default)]
pub(crate) struct Hub {
    pub(crate) taken: Mutex<Vec<Observation>>,
    pub(crate) batches: Mutex<Vec<usize>>,
    /// Answered to each `send` while it is set.
    pub(crate) refuse: Mutex<Option<SendError>>,
    pub(crate) refused: AtomicU64,
    pub(crate) devices: Mutex<DeviceList>,
    /// How often it was asked for the devices.
    pub(crate) listed: AtomicU64,
    pub(crate) epochs: AtomicU64,
    /// More items than this are too large for it; 0 = any number is taken.
    pub(crate) most_items: AtomicU64,
    /// An item that is too large for it, alone and with others.
    pub(crate) never: Mutex<Option<String>>,
    /// Told when the list changed.
    pub(crate) changed: Notify,
}

/// How long an outbox keeps what nobody takes.
pub(crate) const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);

/// One lane a source, of all sites that tests use.
pub(crate) fn lanes(hub: &Arc<Hub>) -> Vec<LaneSpec> {
    let sites: Vec<_> = ["s1", "s2", "sim1", "sim2"].iter().map(|s| site(s)).collect();
    Source::ALL.iter().map(|source| LaneSpec { source: *source, sites: sites.clone(), sink: hub.clone() }).collect()
}

impl Sink for Hub {
    fn relist(&self) -> Fut<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn epoch(&self, _: SiteId, _: Source, _: BootId) -> Fut<'_, Result<u64, SendError>> {
        Box::pin(async { Ok(self.epochs.fetch_add(1, Ordering::SeqCst) + 1) })
    }

    fn send(&self, batch: Vec<Observation>) -> Fut<'_, Result<(), SendError>> {
        Box::pin(async move {
            if let Some(refusal) = self.refuse.lock().unwrap().clone() {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return Err(refusal);
            }
            let most = self.most_items.load(Ordering::SeqCst);
            let never = self.never.lock().unwrap().clone();
            if (most > 0 && batch.len() as u64 > most) || batch.iter().any(|o| Some(&o.native_id) == never.as_ref()) {
                return Err(SendError::TooLarge("413".into()));
            }
            assert!(batch.iter().all(|o| (&o.site, o.source) == (&batch[0].site, batch[0].source)), "a batch holds one site");
            self.batches.lock().unwrap().push(batch.len());
            self.taken.lock().unwrap().extend(batch);
            Ok(())
        })
    }

    fn devices(&self, _: SiteId) -> Fut<'_, Result<DeviceList, SendError>> {
        Box::pin(async {
            let devices = self.devices.lock().unwrap().clone();
            self.listed.fetch_add(1, Ordering::SeqCst);
            Ok(devices)
        })
    }
}

impl Hub {
    /// `<native id> <first reason>` or the fact's name, in order of arrival.
    pub(crate) fn said(&self) -> Vec<String> {
        let say = |o: &Observation| match Fact::decode(&o.fact).unwrap() {
            Fact::SlurmNodeSeen(s) => format!("{} {}", o.native_id, s.conditions[0].reason),
            other => other.name().to_owned(),
        };
        self.taken.lock().unwrap().iter().map(say).collect()
    }
}

/// An agent that looks whenever the test hands it what to say.
pub(crate) struct Scripted {
    pub(crate) sites: Vec<SiteId>,
    pub(crate) script: mpsc::UnboundedReceiver<Result<Sweep, ClientError>>,
    pub(crate) looked: Arc<AtomicU64>,
    /// What the last look was given to remember by.
    pub(crate) remembered: Arc<Mutex<Memory>>,
}

impl Agent for Scripted {
    const SOURCE: Source = Source::Slurm;

    fn sites(&self) -> &[SiteId] {
        &self.sites
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(1)
    }

    async fn look(&mut self, look: Look<'_>) -> Result<Sweep, ClientError> {
        self.looked.fetch_add(1, Ordering::SeqCst);
        *self.remembered.lock().unwrap() = look.memory.clone();
        match self.script.recv().await {
            Some(said) => said,
            None => std::future::pending().await,
        }
    }
}

/// A scripted agent that runs over an outbox, with a hub.
pub(crate) struct Stage {
    pub(crate) hub: Arc<Hub>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) script: mpsc::UnboundedSender<Result<Sweep, ClientError>>,
    pub(crate) looked: Arc<AtomicU64>,
    pub(crate) remembered: Arc<Mutex<Memory>>,
    pub(crate) agent: JoinHandle<Result<(), RunError>>,
    said: u64,
    cancel: CancellationToken,
}

impl Stage {
    pub(crate) fn new(file: &Path, hub: Arc<Hub>, sites: &[&str]) -> Self {
        let outbox = Arc::new(Outbox::open(file, Duration::from_secs(900), KEEP).unwrap());
        let clock = Arc::new(TestClock(AtomicI64::new(1_000_000_000_000_000)));
        let (script, receiver) = mpsc::unbounded_channel();
        let (looked, remembered) = (Arc::<AtomicU64>::default(), Arc::<Mutex<Memory>>::default());
        let sites = sites.iter().map(|s| site(s)).collect();
        let agent = Scripted { sites, script: receiver, looked: looked.clone(), remembered: remembered.clone() };
        let (settings, cancel) = (Settings::new(boot()), CancellationToken::new());
        let agent =
            fleet_satellite::run(agent, outbox.clone(), hub.clone(), clock.clone(), settings, Arc::new(Notify::new()), cancel.clone());
        Self { hub, outbox, clock, script, looked, remembered, agent: tokio::spawn(agent), said: 0, cancel }
    }

    /// The next run on a file that an earlier one still lets go of.
    pub(crate) async fn again(file: &Path, hub: Arc<Hub>, sites: &[&str]) -> Self {
        eventually("the file is free", || Outbox::open(file, Duration::from_secs(900), KEEP).is_ok()).await;
        Self::new(file, hub, sites)
    }

    /// Starts sending.
    pub(crate) fn drain(&self) -> JoinHandle<Result<(), fleet_satellite::OutboxError>> {
        tokio::spawn(fleet_satellite::drain(self.outbox.clone(), lanes(&self.hub), self.clock.clone(), self.cancel.clone()))
    }

    /// The agent says this; waits until it is in the outbox (the next look has begun).
    pub(crate) async fn say(&mut self, said: Result<Sweep, ClientError>) {
        let now = self.clock.now();
        let seen_now = |mut sweep: Sweep| {
            sweep.observations.iter_mut().for_each(|seen| seen.observed_at = now);
            sweep
        };
        self.script.send(said.map(seen_now)).unwrap();
        self.said += 1;
        let (looked, said) = (self.looked.clone(), self.said);
        eventually("the next look", move || looked.load(Ordering::SeqCst) > said).await;
    }

    pub(crate) async fn sent(&self) {
        eventually("everything is sent", || self.outbox.waiting(Source::Slurm).unwrap() == 0).await;
    }

    /// Time passes. A look takes its time when it begins, so an empty one goes between.
    pub(crate) async fn later(&mut self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
        self.say(Ok(Sweep::default())).await;
    }

    /// Ends the sending; the agent has ended by itself.
    pub(crate) fn end(self) {
        self.cancel.cancel();
    }

    /// Ends the agent and the sending.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.agent.await.unwrap().unwrap();
    }
}

pub(crate) fn boot() -> BootId {
    BootId(uuid::Uuid::new_v4())
}

/// A sweep that says of each `<site>/<name>` the reason given.
pub(crate) fn sweep(things: &[(&str, &str)]) -> Sweep {
    let seen = |(thing, reason): &(&str, &str)| {
        let (at, name) = thing.split_once('/').unwrap();
        let condition = ConditionReport {
            r#type: "SlurmSchedulable".into(),
            subject: "device".into(),
            status: Status::True,
            reason: (*reason).into(),
            message: String::new(),
        };
        Seen {
            stream: StreamId::Device(DeviceId::from_netbox(name, 1)),
            site: site(at),
            native_id: name.into(),
            fact: SlurmNodeSeen { slurm_node: name.into(), conditions: vec![condition], section: None }.into(),
            observed_at: Timestamp(7),
        }
    };
    Sweep { observations: things.iter().map(seen).collect(), ..Sweep::default() }
}

/// Waits until `holds`, at most 30 s.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
