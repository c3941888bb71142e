//! The agents of a satellite, each with a lane and a client of its own.

use crate::configuration::satellite::Systems;
use anyhow::Context;
use fleet_satellite::{Agent, LaneSpec, Outbox, Settings, Sink, SystemClock, drain, run};
use fleet_schemas::{BootId, Source, Timestamp};
use std::collections::BTreeMap;
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How often the outbox is measured.
const MEASURED_EVERY: Duration = Duration::from_secs(5);

/// What agents share.
pub struct Spans {
    /// Age at which the device list is asked for again.
    pub list_every: Duration,
    /// How long what the hub does not take is kept.
    pub keep: Duration,
}

impl Default for Spans {
    fn default() -> Self {
        Self { list_every: Duration::from_secs(300), keep: Duration::from_secs(7 * 24 * 3600) }
    }
}

/// The agents that run, for whoever wants one to look at once.
#[derive(Default)]
pub struct Pokes(BTreeMap<String, Arc<Notify>>);

impl Pokes {
    /// Of the agent of this NetBox instance.
    pub fn netbox(&self, instance: &str) -> Option<&Arc<Notify>> {
        self.0.get(&format!("netbox/{instance}"))
    }
}

/// Starts every agent, and what drains their outbox. `sink` makes the way to the hub: for SLURM of a site, or a NetBox instance.
pub fn start(
    systems: &Systems,
    outbox: &Path,
    spans: &Spans,
    sink: impl Fn(Source, &str) -> anyhow::Result<Arc<dyn Sink>>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cancel: &CancellationToken,
) -> anyhow::Result<Pokes> {
    let resync = Duration::from_secs(systems.resync_seconds);
    let opened = Outbox::open(outbox, resync, spans.keep).with_context(|| outbox.display().to_string())?;
    let settings = Settings { list_every: spans.list_every, ..Settings::new(BootId(uuid::Uuid::new_v4())) };
    let mut crew = Crew { outbox: Arc::new(opened), settings, lanes: vec![], tasks, cancel };
    let mut pokes = Pokes::default();
    for netbox in &systems.netbox {
        let poke = crew.add(netbox.agent()?, sink(Source::Netbox, &netbox.instance)?);
        pokes.0.insert(format!("netbox/{}", netbox.instance), poke);
    }
    for slurm in &systems.slurm {
        let poke = crew.add(slurm.agent()?, sink(Source::Slurm, &slurm.site)?);
        pokes.0.insert(format!("slurm/{}", slurm.site), poke);
    }
    crew.drain();
    Ok(pokes)
}

struct Crew<'a> {
    outbox: Arc<Outbox>,
    settings: Settings,
    lanes: Vec<LaneSpec>,
    tasks: &'a mut JoinSet<anyhow::Result<()>>,
    cancel: &'a CancellationToken,
}

impl Crew<'_> {
    fn add<A: Agent>(&mut self, agent: A, sink: Arc<dyn Sink>) -> Arc<Notify> {
        let poke = Arc::new(Notify::new());
        self.lanes.push(LaneSpec { source: A::SOURCE, sites: agent.sites().to_vec(), sink: sink.clone() });
        let (outbox, settings, cancel) = (self.outbox.clone(), self.settings.clone(), self.cancel.clone());
        let running = run(agent, outbox, sink, Arc::new(SystemClock), settings, poke.clone(), cancel);
        self.tasks.spawn(async { Ok(running.await?) });
        poke
    }

    fn drain(self) {
        let draining = drain(self.outbox.clone(), self.lanes, Arc::new(SystemClock), self.cancel.clone());
        self.tasks.spawn(async { Ok(draining.await?) });
        self.tasks.spawn(measure(self.outbox, self.cancel.clone()));
    }
}

/// What waits, and for how long, as metrics.
async fn measure(outbox: Arc<Outbox>, cancel: CancellationToken) -> anyhow::Result<()> {
    use fleet_satellite::Clock;
    let mut known: Vec<(String, String)> = Vec::new();
    loop {
        let read = outbox.clone();
        let depth = tokio::task::spawn_blocking(move || read.depth()).await??;
        let now = SystemClock.now();
        let mut told = Vec::new();
        for (source, site, count, oldest) in depth {
            gauges(&source, &site, count, now.since(oldest));
            told.push((source, site));
        }
        for (source, site) in known.iter().filter(|k| !told.contains(k)) {
            gauges(source, site, 0, 0);
        }
        known = told;
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(MEASURED_EVERY) => {}
        }
    }
}

fn gauges(source: &str, site: &str, count: u64, age: fleet_schemas::Micros) {
    let labels = [("site", site.to_owned()), ("source", source.to_owned())];
    metrics::gauge!("fm_outbox_depth", &labels).set(count as f64);
    metrics::gauge!("fm_outbox_oldest_seconds", &labels).set(Timestamp(age).0 as f64 / 1e6);
}
