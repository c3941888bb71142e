//! What every long-running command does: metrics, waiting for its end, a clean stop.

use anyhow::Context;
use std::{net::SocketAddr, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a clean stop may take.
pub const STOP: Duration = Duration::from_secs(10);

/// Serves `/metrics`, where an address is given.
pub fn metrics(listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let Some(listen) = listen else { return Ok(()) };
    metrics_exporter_prometheus::PrometheusBuilder::new().with_http_listener(listen).install().context("--metrics")
}

/// Until SIGINT or SIGTERM.
pub async fn signalled() -> anyhow::Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

/// Until a signal, or until any loop ends by itself: restart is the recovery path.
pub async fn until_ended(tasks: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::select! {
        signalled = signalled() => signalled,
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
