//! `dev`: everything in one process on loopback.

use crate::args::DevArgs;
use crate::configuration::Configuration;
use crate::folder::{Folder, OPERATOR};
use crate::sink::LocalSink;
use crate::{agents, embedded, world};
use anyhow::{Context, bail};
use fleet_hub::Hub;
use fleet_hub::vault::{MasterKey, Vault};
use fleet_journal::{AskError, Journal, Phase};
use fleet_schemas::{Actor, Ask, Command, CommandId, MINUTE, OutcomeKind, SiteId, StreamId};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How long a request waits for its decision.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a clean stop may take.
const STOP: Duration = Duration::from_secs(10);

/// Runs until SIGINT or SIGTERM, or until any loop fails.
pub async fn run(args: DevArgs) -> anyhow::Result<()> {
    // Whatever is wrong with the arguments is said before anything is made.
    let configured = args.config.as_deref().map(Configuration::read).transpose()?;
    let folder = Folder::open(&args.data)?;
    let master_key = args.master_key.unwrap_or_else(|| folder.master_key());
    let vault = Vault::open_file(&folder.vault(), MasterKey::read_or_make(&master_key, &folder.vault())?).await?;
    let cancel = CancellationToken::new();
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    metrics(args.metrics)?;

    let log = embedded::open_log(&folder).await?;
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("--listen {}", args.listen))?;
    let url = format!("http://{}", listener.local_addr()?);
    let mut loops = JoinSet::new();
    let journal = embedded::start_journal(log.clone(), &mut loops, &cancel).await?;
    let generations = embedded::open_generations(&folder, log).await?;
    generations.feed().await?;
    let hub = Hub {
        vault,
        journal: journal.clone(),
        generations: generations.clone(),
        issuer: folder.issuer(&url)?,
        clients: folder.clients()?,
        url: url.clone(),
        patience: PATIENCE,
    };
    serve(listener, hub, &mut tasks, &cancel);
    let watching = (generations.clone(), cancel.clone());
    tasks.spawn(async move { Ok(watching.0.watch(watching.1).await?) });

    let (configuration, sim) = match configured {
        Some(configuration) => (configuration, None),
        None => {
            let sim = fleet_sim::start(args.sim.unwrap_or_default()).await.context("the simulated world did not start")?;
            (world::configuration(&sim, &folder)?, Some(sim))
        }
    };
    register(&journal, &configuration).await?;
    let sink = Arc::new(LocalSink { journal: journal.clone(), generations: generations.clone() });
    let (mut looking, end_looking) = (JoinSet::new(), cancel.child_token());
    agents::start(&configuration, &folder, sink, &mut looking, &end_looking)?;
    if let Some(sim) = &sim {
        sim.follow_plans(Arc::new(world::OpenPlans { generations: generations.clone() }));
    }
    greet(&folder, &url, sim.is_some())?;

    let outcome = wait(&mut tasks, &mut looking, &mut loops).await;
    let stopped = tokio::time::timeout(STOP, async {
        // The agents first: what they hand over is read by leaders that still lead.
        end_looking.cancel();
        while looking.join_next().await.is_some() {}
        cancel.cancel();
        while tasks.join_next().await.is_some() {}
        while loops.join_next().await.is_some() {}
    });
    if stopped.await.is_err() {
        cancel.cancel();
        tracing::warn!("not everything stopped within {} s", STOP.as_secs());
    }
    outcome
}

fn metrics(listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let Some(listen) = listen else { return Ok(()) };
    metrics_exporter_prometheus::PrometheusBuilder::new().with_http_listener(listen).install().context("--metrics")
}

fn serve(listener: TcpListener, hub: Hub, tasks: &mut JoinSet<anyhow::Result<()>>, cancel: &CancellationToken) {
    let (router, stop) = (fleet_hub::router(Arc::new(hub)), cancel.clone());
    tasks.spawn(async move {
        let listener = axum::serve::ListenerExt::tap_io(listener, |tcp| {
            // Small answers go out at once; where that cannot be set they go out a little later.
            let _ = tcp.set_nodelay(true);
        });
        Ok(axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await?)
    });
}

/// Makes the site streams say what the configuration says.
async fn register(journal: &Journal, configuration: &Configuration) -> anyhow::Result<()> {
    if let Some(Phase::Stopped(why)) = journal.settled_at(0).await {
        tracing::error!(why, "the sites are in a partition that has stopped: they stay as they are, and what still works goes on");
        return Ok(());
    }
    for (site, register, profiles) in configuration.commands()? {
        ask(journal, &site, register.into()).await.with_context(|| format!("site {site}"))?;
        for profile in profiles {
            let role = profile.role.clone();
            ask(journal, &site, profile.into()).await.with_context(|| format!("site {site}, role {role}"))?;
        }
    }
    Ok(())
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

fn greet(folder: &Folder, url: &str, simulated: bool) -> anyhow::Result<()> {
    let context = folder.write_context(url)?;
    let what =
        if simulated { "a simulated world with staff who type what is planned" } else { "the systems of your configuration, read only" };
    crate::print::lines(&format!(
        "fleet-manager runs: {url}\n  it looks at {what}\n  fmctl: export FM_CONTEXT={}   (client {OPERATOR})",
        context.display()
    ));
    Ok(())
}

/// Until a signal, or until any loop ends by itself: restart is the recovery path.
async fn wait(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    looking: &mut JoinSet<anyhow::Result<()>>,
    loops: &mut JoinSet<Result<(), fleet_log::Error>>,
) -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            Some(ended) = tasks.join_next() => ended.context("a loop panicked")?.context("a loop failed")?,
            Some(ended) = looking.join_next() => ended.context("an agent panicked")?.context("an agent failed")?,
            Some(ended) = loops.join_next() => ended.context("a loop of the journal panicked")?.context("the journal failed")?,
        }
    }
}
