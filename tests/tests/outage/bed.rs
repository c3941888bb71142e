//! Hub and satellite in this process, with the real wire between them and one clock for both, which the test moves.

use fleet_hub::Hub;
use fleet_hub::access::{Client, Clients, Denials, Issuer, Limits, generate_key, public_jwk};
use fleet_hub::vault::{MasterKey, Vault};
use fleet_journal::{Clock as _, Config, Journal, ManualClock, Topics};
use fleet_log::{EventLog, sqlite::SqliteLog};
use fleet_projections::{Generations, Store};
use fleet_satellite::{Agent, Clock, LaneSpec, Outbox, Settings, SystemClock, drain, hub, netbox, run, slurm};
use fleet_schemas::*;
use fleet_sim::Sim;
use fleet_tests::recorder::Recorder;
use fleet_tests::{Api, crypto, until};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// One clock for hub and satellite.
#[derive(Clone)]
struct Shared(Arc<ManualClock>);

impl Clock for Shared {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// What runs until it is stopped.
pub(super) struct Loops {
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Loops {
    fn new() -> Self {
        Self { cancel: CancellationToken::new(), tasks: JoinSet::new() }
    }
    pub(super) async fn stop(mut self) {
        self.cancel.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

pub(super) struct Bed {
    folder: TempDir,
    pub(super) sim: Sim,
    clock: Arc<ManualClock>,
    log: Arc<dyn EventLog>,
    port: u16,
    pub(super) way: Recorder,
    pub(super) hub: Option<Loops>,
    pub(super) satellite: Option<Loops>,
    pokes: Vec<Arc<Notify>>,
    looks: Arc<AtomicU64>,
}

const MINUTE_S: i64 = 60;

impl Bed {
    pub(super) async fn new(devices: u32) -> Self {
        crypto();
        let options = fleet_sim::Options { sites: 1, devices, seed: 7, people: false, pace: 0.000_001 };
        let (sim, folder) = (fleet_sim::start(options).await.unwrap(), TempDir::new().unwrap());
        let log: Arc<dyn EventLog> = Arc::new(SqliteLog::open(&folder.path().join("log")).unwrap());
        log.ensure(&Topics::specs_embedded()).await.unwrap();
        let port = fleet_tests::free_port();
        let way = Recorder::before(&format!("http://127.0.0.1:{port}")).await.unwrap();
        for (name, text) in [("jwt", &sim.sites[0].slurm_jwt), ("token", &sim.netbox.token)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        for key in ["issuer", "slurm-agent-sim1", "netbox-agent-sim"] {
            std::fs::write(folder.path().join(format!("{key}.pem")), generate_key().unwrap().private_pem).unwrap();
        }
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let (pokes, looks) = (vec![], Arc::default());
        let mut bed = Self { folder, sim, clock, log, port, way, hub: None, satellite: None, pokes, looks };
        bed.start_hub().await;
        bed.start_satellite().await;
        bed
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pem(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(&format!("{name}.pem"))).unwrap()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn client(&self, client: &str, source: Source, scopes: &[&str]) -> Client {
        let jwks = serde_json::from_value(json!({"keys": [public_jwk(&self.pem(client)).unwrap()]})).unwrap();
        let (scopes, sites) = (scopes.iter().map(|s| (*s).to_owned()).collect(), vec!["sim1".to_owned()]);
        let conditions = Client::types_of(Some(source));
        let instance = (source == Source::Netbox).then(|| "sim".to_owned());
        Client { client: client.into(), scopes, sites, source: Some(source), instance, conditions, token_url_audience: false, jwks }
    }

    /// Hub and journal begin, on the log and the read model that are there.
    pub(super) async fn start_hub(&mut self) {
        let mut loops = Loops::new();
        let mut tasks = JoinSet::new();
        // The test moves the clock by leaps; no process was paused.
        let config = Config { clock: self.clock.clone(), jump: i64::MAX, ..Config::new(self.log.clone(), Topics::embedded()) };
        let journal = Arc::new(Journal::start(config, &mut tasks, loops.cancel.clone()).await.unwrap());
        let topics = Topics::embedded();
        let partitions = (0..topics.partitions).map(|p| topics.at(topics::JOURNAL, p)).collect();
        let generations =
            Generations::open(Store::Folder(self.path("read")), self.log.clone(), partitions, topics.at(topics::PARKED, 0)).await.unwrap();
        let generations = Arc::new(generations);
        generations.feed().await.unwrap();
        journal.settled().await;
        let positions =
            Arc::new(fleet_hub::ControlPositions { control: generations.control().clone(), of: fleet_projections::Follower::Reactor });
        journal.react(positions, &mut tasks, loops.cancel.clone());
        let slurm = self.client("slurm-agent-sim1", Source::Slurm, &["device:update", "device-condition:create"]);
        let clients = Clients::new(vec![slurm, self.client("netbox-agent-sim", Source::Netbox, &["observation:create"])]).unwrap();
        let key = MasterKey::read_or_make(&self.path("master.key"), &self.path("vault.sqlite")).unwrap();
        let hub = Hub {
            journal: journal.clone(),
            generations: generations.clone(),
            issuer: Issuer::new(&self.url(), &[self.pem("issuer")]).unwrap(),
            clients,
            outside: vec![],
            denials: Denials::new(generations.control().clone()),
            limits: Limits::default(),
            vault: Vault::open_file(&self.path("vault.sqlite"), key).await.unwrap(),
            url: self.url(),
            patience: Duration::from_secs(30),
        };
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", self.port)).await.unwrap();
        let (router, stop) = (fleet_hub::router(Arc::new(hub)), loops.cancel.clone());
        loops.tasks.spawn(async move {
            tokio::select! {
                served = axum::serve(listener, router) => served.unwrap(),
                () = stop.cancelled() => {}
            }
        });
        let stop = loops.cancel.clone();
        loops.tasks.spawn(async move { generations.watch(stop).await.unwrap() });
        loops.tasks.spawn(async move {
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap().unwrap();
            }
        });
        self.register(&journal).await;
        self.hub = Some(loops);
    }

    async fn register(&self, journal: &Journal) {
        let source = |source| SourceConfig { source, interval_seconds: MINUTE_S, mode: Mode::Observe };
        let none = || None;
        let profile = RoleProfile {
            provisioner: Provisioner::External,
            scheduler: Scheduler::Slurm,
            dhcp: Dhcp::None,
            workload_proofs: vec!["slurm-idle".into()],
            bom: none(),
            firmware: none(),
            validation: none(),
            burn_in: none(),
        };
        let asks: [Ask; 2] = [
            RegisterSite { sources: vec![source(Source::Netbox), source(Source::Slurm)] }.into(),
            SetRoleProfile { role: "gpu-node".into(), profile }.into(),
        ];
        for ask in asks {
            let now = journal.clock().now();
            let command = Command {
                id: CommandId(uuid::Uuid::new_v4()),
                stream: StreamId::Site("sim1".parse().unwrap()),
                ask: ask.encode(),
                actor: Actor::system("test"),
                reason: "configuration".into(),
                expected_version: None,
                dry_run: false,
                issued_at: now,
                not_after: now.plus(10 * MINUTE),
                trace_id: String::new(),
                reaction: None,
            };
            let answer = journal.ask(&command, Duration::from_secs(30)).await.unwrap();
            assert_eq!(answer.decided.outcome.kind, OutcomeKind::Accepted, "{:?}", answer.decided.outcome);
        }
    }

    /// The satellite begins; its agents look when they are poked.
    pub(super) async fn start_satellite(&mut self) {
        let mut loops = Loops::new();
        let hour = Duration::from_secs(3600);
        let outbox = Arc::new(Outbox::open(&self.path("outbox.sqlite"), Duration::from_secs(900), 24 * 7 * hour).unwrap());
        let face = &self.sim.sites[0];
        let slurm = slurm::Agent::new(slurm::Settings {
            site: "sim1".parse().unwrap(),
            url: face.slurm_url.clone(),
            user: face.slurm_user.clone(),
            jwt_file: self.path("jwt"),
            interval: hour,
            deadline: Duration::from_secs(30),
        });
        let netbox = netbox::Agent::new(netbox::Settings {
            instance: "sim".into(),
            url: self.sim.netbox.url.clone(),
            token_file: self.path("token"),
            sites: vec!["sim1".parse().unwrap()],
            interval: hour,
            sweep_every: Duration::from_secs(900),
            window: Duration::from_secs(600),
            deadline: Duration::from_secs(30),
            slurm_link: fleet_satellite::SlurmLink::CustomField("slurm_node".into()),
        });
        let mut lanes = Vec::new();
        self.pokes.clear();
        let sink = |client: &str| {
            let settings = hub::Settings {
                url: self.way.url.clone(),
                client: client.into(),
                key_file: self.path(&format!("{client}.pem")),
                kid: None,
                issuer: None,
                ca_file: None,
                deadline: Duration::from_secs(30),
            };
            Arc::new(hub::Client::new(&settings).unwrap())
        };
        let boot = BootId(uuid::Uuid::new_v4());
        let clock = Arc::new(Shared(self.clock.clone()));
        let (slurm_sink, netbox_sink) = (sink("slurm-agent-sim1"), sink("netbox-agent-sim"));
        for (source, sink) in [(Source::Slurm, slurm_sink.clone()), (Source::Netbox, netbox_sink.clone())] {
            lanes.push(LaneSpec { source, sites: vec!["sim1".parse().unwrap()], sink });
        }
        let poke = || Arc::new(Notify::new());
        let (slurm_poke, netbox_poke) = (poke(), poke());
        self.pokes.extend([netbox_poke.clone(), slurm_poke.clone()]);
        let counted = Counted { agent: slurm.unwrap(), looks: self.looks.clone() };
        let cancel = loops.cancel.clone();
        let running = run(counted, outbox.clone(), slurm_sink, clock.clone(), Settings::new(boot), slurm_poke, cancel.clone());
        loops.tasks.spawn(async move { running.await.unwrap() });
        let counted = Counted { agent: netbox.unwrap(), looks: self.looks.clone() };
        let running = run(counted, outbox.clone(), netbox_sink, clock.clone(), Settings::new(boot), netbox_poke, cancel.clone());
        loops.tasks.spawn(async move { running.await.unwrap() });
        let draining = drain(outbox, lanes, clock, cancel);
        loops.tasks.spawn(async move { draining.await.unwrap() });
        self.satellite = Some(loops);
    }

    /// A minute passes; each source is looked at once in it.
    pub(super) async fn minute(&self) {
        self.clock.advance(MINUTE);
        let before = self.looks.load(Ordering::SeqCst);
        self.pokes.iter().for_each(|p| p.notify_one());
        let want = before + self.pokes.len() as u64;
        let looked = || async { if self.looks.load(Ordering::SeqCst) >= want { Ok(()) } else { Err(self.looks.load(Ordering::SeqCst)) } };
        if self.satellite.is_some() {
            until("every source is looked at", looked).await;
        }
    }

    pub(super) async fn api(&self) -> Api {
        let scopes = fleet_hub::access::SCOPES.join(" ");
        let token = Issuer::new(&self.url(), &[self.pem("issuer")]).unwrap().issue("operator", &scopes, &["*".into()]).unwrap();
        Api::with_token(&self.url(), &token).unwrap()
    }

    pub(super) fn waiting(&self) -> i64 {
        let db = rusqlite::Connection::open(self.path("outbox.sqlite")).unwrap();
        db.query_row("SELECT count(*) FROM queue", [], |r| r.get(0)).unwrap()
    }

    /// Until nothing waits, and the hub shows what SLURM shows.
    pub(super) async fn settled(&self) {
        until("the outbox is empty", || async {
            match self.waiting() {
                0 => Ok(()),
                n => Err(n),
            }
        })
        .await;
        let api = self.api().await;
        until("the hub shows what SLURM has", || async {
            let nodes: BTreeMap<_, _> = self.sim.world.slurm_nodes("sim1").into_iter().map(|n| (n.name.clone(), n.has("DRAIN"))).collect();
            for device in api.all("/devices").await.map_err(|e| e.to_string())? {
                let Some(drained) = device["slurm_node"].as_str().and_then(|n| nodes.get(n)) else { continue };
                let known = api.get(&format!("/devices/{}", device["id"].as_str().unwrap())).await.map_err(|e| e.to_string())?;
                let shown = known["scheduler"]["state"].as_array().is_some_and(|s| s.iter().any(|t| t == "DRAIN"));
                let confirmed = known["conditions"].as_array().into_iter().flatten().all(|c| c["confirmed_live"] == true);
                if shown != *drained || !confirmed {
                    return Err(format!("{}: {} drained {drained} confirmed {confirmed}", device["name"], known["scheduler"]["state"]));
                }
            }
            Ok(())
        })
        .await;
    }

    pub(super) async fn stop(mut self) {
        for loops in [self.satellite.take(), self.hub.take()].into_iter().flatten() {
            loops.stop().await;
        }
        self.sim.stop().await;
    }
}

/// An agent whose looks are counted when they have ended.
struct Counted<A> {
    agent: A,
    looks: Arc<AtomicU64>,
}

impl<A: Agent> Agent for Counted<A> {
    const SOURCE: Source = A::SOURCE;
    const LINK: Option<fn(&fleet_satellite::ListedDevice) -> Option<&str>> = A::LINK;
    fn sites(&self) -> &[SiteId] {
        self.agent.sites()
    }
    fn interval(&self) -> Duration {
        self.agent.interval()
    }
    async fn look(&mut self, look: fleet_satellite::Look<'_>) -> Result<fleet_satellite::Sweep, fleet_satellite::ClientError> {
        let looked = self.agent.look(look).await;
        self.looks.fetch_add(1, Ordering::SeqCst);
        looked
    }
}
