//! `dev`: a hub and a satellite in one process on loopback, with sample users. What passes between the two goes over the wire, as it does
//! where they are two.

use crate::agents::{self, Spans};
use crate::args::DevArgs;
use crate::configuration::AgentClient;
use crate::configuration::dev::Configuration;
use crate::configuration::satellite::{self, Systems};
use crate::folder::{Folder, OPERATOR};
use crate::ground::Ground;
use crate::hub::{Face, Running};
use crate::{process, world};
use anyhow::Context;
use fleet_hub::access::{Client, Limits};
use fleet_hub::vault::{MasterKey, Vault};
use fleet_satellite::Sink;
use fleet_schemas::Source;
use std::{net::TcpListener, sync::Arc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Runs until SIGINT or SIGTERM, or until any loop fails.
pub async fn run(args: DevArgs) -> anyhow::Result<()> {
    // Whatever is wrong with the arguments is said before anything is made.
    let configured = args.config.as_deref().map(Configuration::read).transpose()?;
    let mut signals = process::Signals::take()?;
    let folder = Folder::dev(&args.data)?;
    let master_key = args.master_key.unwrap_or_else(|| folder.master_key());
    let vault = Vault::open_file(&folder.vault(), MasterKey::read_or_make(&master_key, &folder.vault())?).await?;
    process::metrics(args.metrics)?;
    let listener = TcpListener::bind(args.listen).with_context(|| format!("--listen {}", args.listen))?;
    let url = format!("http://{}", listener.local_addr()?);
    let (configuration, sim) = match configured {
        Some(configuration) => (configuration, None),
        None => {
            let sim = fleet_sim::start(args.sim.unwrap_or_default()).await.context("the simulated world did not start")?;
            (world::configuration(&sim, &folder)?, Some(sim))
        }
    };
    let systems = configuration.satellite();
    let clients = folder.users()?.into_iter().chain(agents_of(&folder, &systems)?).collect();
    let issuer = folder.issuer(&format!("{url}/dev"))?;
    let face = Face { listener, url: url.clone(), issuer, clients, outside: vec![], limits: Limits::default(), vault, tls: None };
    let mut hub = Running::start(Ground::embedded(&folder).await?, face).await?;
    hub.register(configuration.commands()?).await?;

    let (mut looking, end_looking) = (JoinSet::new(), CancellationToken::new());
    let outbox = folder.path.join("satellite").join("outbox.sqlite");
    let way = satellite::Hub { url: url.clone(), ca_file: None, issuer: None, deadline_seconds: 30 };
    let sink = |source, of: &str| {
        let client = client_of(source, of);
        let (what, key_file) = (client.clone(), folder.key_file(&client));
        let of = AgentClient { what, sites: &[], client: Some(&client), key_file: Some(&key_file), kid: None };
        let sink: Arc<dyn Sink> = Arc::new(way.client(&of)?);
        Ok(sink)
    };
    agents::start(&systems, &outbox, &Spans::default(), sink, &mut looking, &end_looking)?;
    if let Some(sim) = &sim {
        sim.follow_plans(Arc::new(world::OpenPlans { generations: hub.generations.clone() }));
    }
    greet(&folder, &url, sim.is_some())?;

    let outcome = tokio::select! {
        ended = process::until_ended(&mut signals, &mut looking) => ended,
        ended = hub.ended() => ended,
    };
    let stopped = tokio::time::timeout(process::STOP, async {
        // The agents first: what they hand over is read by leaders that still lead.
        end_looking.cancel();
        while looking.join_next().await.is_some() {}
        hub.stop().await;
    });
    if stopped.await.is_err() {
        tracing::warn!("not everything stopped within {} s", process::STOP.as_secs());
    }
    outcome
}

/// How the roster calls an agent.
fn client_of(source: Source, of: &str) -> String {
    let of: String = of.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{source}-agent-{of}")
}

/// What a roster would have.
fn agents_of(folder: &Folder, systems: &Systems) -> anyhow::Result<Vec<Client>> {
    let slurm = systems.slurm.iter().map(|s| {
        let (client, scopes) = (client_of(Source::Slurm, &s.site), ["device:update", "device-condition:create"]);
        folder.client(&client, &scopes, vec![s.site.clone()], Some(Source::Slurm), None)
    });
    let netbox = systems.netbox.iter().map(|n| {
        let client = client_of(Source::Netbox, &n.instance);
        folder.client(&client, &["observation:create"], n.sites.clone(), Some(Source::Netbox), Some(&n.instance))
    });
    slurm.chain(netbox).collect()
}

fn greet(folder: &Folder, url: &str, simulated: bool) -> anyhow::Result<()> {
    folder.write_running(&crate::folder::Running { url: url.into(), issuer: format!("{url}/dev") })?;
    let context = folder.write_contexts(url)?;
    let what =
        if simulated { "a simulated world with staff who type what is planned" } else { "the systems of your configuration, read only" };
    crate::print::lines(&format!(
        "fleet-manager runs: {url}\n  it looks at {what}\n  fmctl: export FM_CONTEXT={}   (client {OPERATOR})",
        context.display()
    ));
    Ok(())
}
