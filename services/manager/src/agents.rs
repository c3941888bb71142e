//! The agents in this process, as a configuration names them.

use crate::configuration::Configuration;
use crate::folder::Folder;
use anyhow::Context;
use fleet_satellite::{Outbox, Settings, Sink, SystemClock, drain, run};
use fleet_schemas::BootId;
use std::{sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Starts every agent, and what drains their outbox.
pub fn start(
    configuration: &Configuration,
    folder: &Folder,
    sink: Arc<dyn Sink>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    let path = folder.path.join("satellite").join("outbox.sqlite");
    let outbox = Outbox::open(&path, Duration::from_secs(configuration.resync_seconds)).with_context(|| path.display().to_string())?;
    let outbox = Arc::new(outbox);
    let clock = Arc::new(SystemClock);
    let settings = Settings { boot: BootId(uuid::Uuid::new_v4()), look_deadline: None };
    for netbox in &configuration.netbox {
        let running =
            run(netbox.agent()?, outbox.clone(), sink.clone(), clock.clone(), settings.clone(), Arc::new(Notify::new()), cancel.clone());
        tasks.spawn(async { Ok(running.await?) });
    }
    for site in &configuration.sites {
        if let Some(agent) = site.slurm_agent()? {
            let running =
                run(agent, outbox.clone(), sink.clone(), clock.clone(), settings.clone(), Arc::new(Notify::new()), cancel.clone());
            tasks.spawn(async { Ok(running.await?) });
        }
    }
    let draining = drain(outbox, sink, clock, cancel.clone());
    tasks.spawn(async { Ok(draining.await?) });
    Ok(())
}
