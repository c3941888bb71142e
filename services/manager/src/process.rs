//! What every long-running command does: metrics, waiting for its end, a clean stop.

use anyhow::Context;
use std::{net::SocketAddr, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a clean stop may take.
pub const STOP: Duration = Duration::from_secs(10);

/// Serves `/metrics`, where an address is given.
pub fn metrics(listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let Some(listen) = listen else { return Ok(()) };
    metrics_exporter_prometheus::PrometheusBuilder::new().with_http_listener(listen).install().context("--metrics")
}

/// SIGINT and SIGTERM, from the moment that this is made: a stop that comes while something still starts is a stop.
pub struct Signals(Signal, Signal);

impl Signals {
    /// Takes them over.
    pub fn take() -> anyhow::Result<Self> {
        Ok(Self(signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?))
    }

    /// Until one comes.
    pub async fn come(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// Until a signal, or until any loop ends by itself: restart is the recovery path.
pub async fn until_ended(signals: &mut Signals, tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        () = signals.come() => Ok(()),
        Some(ended) = tasks.join_next() => ended.context("a loop panicked")?.context("a loop failed"),
    }
}

/// Ends loops, and waits for them as long as a stop may take.
pub async fn stop(cancel: CancellationToken, tasks: &mut JoinSet<anyhow::Result<()>>) {
    cancel.cancel();
    let ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(STOP, ended).await.is_err() {
        tracing::warn!("not everything stopped within {} s", STOP.as_secs());
    }
}
