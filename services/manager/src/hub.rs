//! `hub`: log, deciders, read model and API. [`Running`] is the part that `dev` has too.

use crate::args::Role;
use crate::configuration::{Commands, hub::Configuration};
use crate::folder::Folder;
use crate::ground::Ground;
use crate::{embedded, process, serve::serve};
use anyhow::{Context, bail};
use axum_server::tls_rustls::RustlsConfig;
use fleet_hub::access::outside::{Grant, Outside};
use fleet_hub::access::{Client, Clients, Denials, Issuer, Limits};
use fleet_hub::vault::{MasterKey, Vault};
use fleet_hub::{ControlPositions, Hub, Publisher};
use fleet_journal::{AskError, Config, Journal, Phase};
use fleet_projections::{Follower, Generations};
use fleet_schemas::{Actor, Ask, Command, CommandId, MINUTE, OutcomeKind, SiteId, StreamId};
use std::{collections::BTreeSet, net::SocketAddr, net::TcpListener, path::Path, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a request waits for its decision.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hub's loops.
pub struct Running {
    /// The journal.
    pub journal: Arc<Journal>,
    /// The read models.
    pub generations: Arc<Generations>,
    tasks: JoinSet<anyhow::Result<()>>,
    loops: JoinSet<Result<(), fleet_log::Error>>,
    cancel: CancellationToken,
}

/// How a hub is reached.
pub struct Face {
    /// Where it listens.
    pub listener: TcpListener,
    /// Its URL.
    pub url: String,
    /// Its issuer.
    pub issuer: Issuer,
    /// Who may ask.
    pub clients: Vec<Client>,
    /// Outside issuers.
    pub outside: Vec<Outside>,
    /// How fast.
    pub limits: Limits,
    /// Keys of user-data.
    pub vault: Vault,
    /// Certificate chain and key, PEM files.
    pub tls: Option<RustlsConfig>,
}

impl Running {
    /// Starts it in a folder.
    pub async fn start(mut ground: Ground, face: Face) -> anyhow::Result<Self> {
        let (mut tasks, mut loops, cancel) = (JoinSet::new(), JoinSet::new(), CancellationToken::new());
        ground.watch(&mut tasks, cancel.clone());
        let config = Config { hubs: ground.hubs, ..Config::new(ground.log.clone(), ground.topics.clone()) };
        let journal = Journal::start(config, &mut loops, cancel.clone()).await.context("the journal did not start")?;
        let journal = Arc::new(journal);
        let place = ground.store.to_string();
        let generations = embedded::open_generations(ground.store, ground.log, &ground.topics).await.context(place)?;
        if ground.roles.contains(&Role::Projector) {
            generations.feed().await?;
            let watching = (generations.clone(), cancel.clone());
            tasks.spawn(async move { Ok(watching.0.watch(watching.1).await?) });
        }
        if ground.roles.contains(&Role::Reactor) {
            let positions = Arc::new(ControlPositions { control: generations.control().clone(), of: Follower::Reactor });
            journal.react(positions, &mut loops, cancel.clone());
        }
        if let Some(log) = ground.kafka.filter(|_| ground.roles.contains(&Role::Publisher)) {
            let positions = Arc::new(ControlPositions { control: generations.control().clone(), of: Follower::Publisher });
            Publisher { log, journal: journal.clone(), positions, framing: ground.framing }.start(&mut loops, &cancel);
        }
        let hub = Hub {
            journal: journal.clone(),
            generations: generations.clone(),
            issuer: face.issuer,
            clients: Clients::new(face.clients).map_err(anyhow::Error::msg)?,
            denials: Denials::new(generations.control().clone()),
            outside: face.outside,
            limits: face.limits,
            vault: face.vault,
            url: face.url,
            patience: PATIENCE,
        };
        let hub = Arc::new(hub);
        let routes = if ground.roles.contains(&Role::Api) { fleet_hub::router(hub) } else { fleet_hub::health(hub) };
        serve(face.listener, face.tls, routes, &mut tasks, &cancel)?;
        Ok(Self { journal, generations, tasks, loops, cancel })
    }

    /// Makes the site streams say what a configuration says: which sources a site has, and the first profile of each role. What people
    /// set a profile to since then stands.
    pub async fn register(&self, commands: Vec<Commands>) -> anyhow::Result<()> {
        let journal = &self.journal;
        if let Some(Phase::Stopped(why)) = journal.settled_at(0).await {
            tracing::error!(why, "the sites are in a partition that has stopped: they stay as they are, and what still works goes on");
            return Ok(());
        }
        for (site, register, profiles) in commands {
            ask(journal, &site, register.into()).await.with_context(|| format!("site {site}"))?;
            for profile in profiles {
                let role = profile.role.clone();
                ask(journal, &site, profile.clone().into()).await.with_context(|| format!("site {site}, role {role}"))?;
                let stands = journal.reference().profile(&site, &role).is_some_and(|stands| *stands != profile.profile);
                if stands {
                    tracing::info!(%site, role, "the role's profile was changed since it was first set, and stays; the configuration says another");
                }
            }
        }
        Ok(())
    }

    /// Until any loop ends by itself.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            Some(ended) = self.tasks.join_next() => ended.context("a loop panicked")?.context("a loop failed"),
            Some(ended) = self.loops.join_next() => Ok(ended.context("a loop of the journal panicked")?.context("the journal failed")?),
        }
    }

    /// Ends everything.
    pub async fn stop(&mut self) {
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
        while self.loops.join_next().await.is_some() {}
    }
}

async fn ask(journal: &Journal, site: &SiteId, ask: Ask) -> anyhow::Result<()> {
    let now = journal.clock().now();
    let command = Command {
        id: CommandId(uuid::Uuid::new_v4()),
        stream: StreamId::Site(site.clone()),
        ask: ask.encode(),
        actor: Actor::system("configuration"),
        reason: "configuration at start".into(),
        expected_version: None,
        dry_run: false,
        issued_at: now,
        not_after: now.plus(10 * MINUTE),
        trace_id: String::new(),
        reaction: None,
    };
    match journal.ask(&command, Duration::from_secs(60)).await {
        Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Accepted => Ok(()),
        Ok(answer) => {
            let o = &answer.decided.outcome;
            bail!("refused {}: {}: expected {}, seen {}; {}", o.code, o.guard, o.expected, o.seen, o.helps)
        }
        Err(AskError::Pending) => {
            let stopped = journal.statuses().into_iter().map(|s| format!("partition {}: {:?}", s.partition, s.phase)).collect::<Vec<_>>();
            bail!("not decided within 60 s; {}", stopped.join("; "))
        }
        Err(e) => bail!("{e}"),
    }
}

/// The issuers that people log in with.
fn outside(configuration: &Configuration) -> anyhow::Result<Vec<Outside>> {
    let one = |issuer: &crate::configuration::hub::Issuer| {
        let grant =
            |g: &crate::configuration::hub::Grant| Grant { group: g.group.clone(), scopes: g.scopes.clone(), sites: g.sites.clone() };
        Ok(Outside {
            url: issuer.url.clone(),
            audience: issuer.audience.clone(),
            groups_claim: issuer.groups_claim.clone(),
            grants: issuer.grants.iter().map(grant).collect(),
            keys: Box::new(crate::jwks::Published::new(&issuer.jwks_url, issuer.ca_file.as_deref())?),
            held: Default::default(),
            fetching: Default::default(),
        })
    };
    configuration.issuers.iter().map(one).collect()
}

/// Runs until SIGINT or SIGTERM, or until any loop fails.
pub async fn run(file: &Path, roles: BTreeSet<Role>, metrics: Option<SocketAddr>) -> anyhow::Result<()> {
    let configuration = Configuration::read(file)?;
    let mut signals = process::Signals::take()?;
    let folder = Folder::hub(&configuration.data)?;
    process::metrics(metrics)?;
    let listener = TcpListener::bind(configuration.listen).with_context(|| format!("listen = {}", configuration.listen))?;
    let scheme = if configuration.tls.is_some() { "https" } else { "http" };
    let reached = format!("{scheme}://{}", listener.local_addr()?);
    let url = configuration.url.clone().unwrap_or(reached.clone());
    let read = |file: &std::path::PathBuf| std::fs::read_to_string(file).with_context(|| file.display().to_string());
    let issuer = match configuration.issuer_keys.as_slice() {
        [] => folder.issuer(&url)?,
        files => Issuer::new(&url, &files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?).map_err(anyhow::Error::msg)?,
    };
    let tls = match &configuration.tls {
        Some(tls) => Some(RustlsConfig::from_pem_file(&tls.cert_file, &tls.key_file).await.context("tls")?),
        None => None,
    };
    let limits = Limits::new(configuration.limits.per_second, configuration.limits.burst);
    let master_key = configuration.master_key.clone().unwrap_or_else(|| folder.master_key());
    let key = MasterKey::read_or_make(&master_key, &folder.vault())?;
    let vault = match &configuration.vault {
        Some(database) => Vault::open_shared(&database.config()?, key).await.with_context(|| format!("[vault] {}", database.url))?,
        None => Vault::open_file(&folder.vault(), key).await?,
    };
    if configuration.log.is_some() && configuration.vault.is_none() {
        tracing::warn!("no [vault]: it is a file of this hub, and what is sealed here no other hub that shares the log can read");
    }
    let face = Face {
        listener,
        url: url.clone(),
        issuer,
        clients: configuration.clients()?,
        outside: outside(&configuration)?,
        limits,
        vault,
        tls,
    };
    let ground = Ground::open(&configuration, &folder, roles).await?;
    let mut running = Running::start(ground, face).await?;
    let runs = async {
        running.register(configuration.commands()?).await?;
        folder.write_running(&crate::folder::Running { url: reached, issuer: url.clone() })?;
        crate::print::lines(&format!("hub runs: {url}"));
        running.ended().await
    };
    let outcome = tokio::select! {
        () = signals.come() => Ok(()),
        ended = runs => ended,
    };
    if tokio::time::timeout(process::STOP, running.stop()).await.is_err() {
        tracing::warn!("not everything stopped within {} s", process::STOP.as_secs());
    }
    outcome
}
