//! `satellite`: the agents of a site, and nothing of the hub.

use crate::agents::{self, Spans};
use crate::configuration::satellite::Configuration;
use crate::process;
use anyhow::Context;
use fleet_satellite::Sink;
use fleet_schemas::Source;
use std::os::unix::fs::DirBuilderExt;
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Runs until SIGINT or SIGTERM, or until any loop fails: another satellite of this site took over, or the outbox cannot be written.
pub async fn run(file: &Path, metrics: Option<SocketAddr>) -> anyhow::Result<()> {
    let configuration = Configuration::read(file)?;
    configuration.ways()?;
    let mut signals = process::Signals::take()?;
    process::metrics(metrics)?;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&configuration.data).context("data")?;
    let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
    let day = Duration::from_secs(24 * 3600);
    let spans = Spans {
        list_every: Duration::from_secs(configuration.list_seconds),
        keep: day * u32::try_from(configuration.keep_days).unwrap_or(u32::MAX),
    };
    let outbox = configuration.data.join("outbox.sqlite");
    let sink = |source, of: &str| sink(&configuration, source, of);
    let pokes = agents::start(&configuration.systems(), &outbox, &spans, sink, &mut tasks, &cancel)?;
    if let Some(listen) = configuration.webhooks_listen {
        crate::webhooks::start(listen, &configuration.netbox, &pokes, &mut tasks, &cancel)?;
    }
    crate::print::lines(&format!("satellite runs: it looks, and hands over to {}", configuration.hub.url));
    let outcome = process::until_ended(&mut signals, &mut tasks).await;
    process::stop(cancel, &mut tasks).await;
    outcome
}

/// The way to the hub of one agent.
pub fn sink(configuration: &Configuration, source: Source, of: &str) -> anyhow::Result<Arc<dyn Sink>> {
    let client = match source {
        Source::Slurm => configuration.slurm.iter().find(|s| s.site == of).context("no such site")?.agent_client(),
        Source::Netbox => configuration.netbox.iter().find(|n| n.instance == of).context("no such instance")?.agent_client(),
    };
    Ok(Arc::new(configuration.hub.client(&client)?))
}
