//! Pauses between tries: growing, capped, and never the same for two who wait for one thing.

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// See the module.
pub(crate) struct Pauses(ExponentialBackoff);

impl Pauses {
    pub(crate) fn new() -> Self {
        let pauses = ExponentialBuilder::default().with_min_delay(FIRST).with_max_delay(LONGEST).with_factor(2.0).without_max_times();
        Self(pauses.with_jitter().build())
    }

    /// Waits for the next try; false when `cancel` came first.
    pub(crate) async fn pause(&mut self, cancel: &CancellationToken) -> bool {
        let pause = self.0.next().unwrap_or(LONGEST);
        tokio::select! {
            () = cancel.cancelled() => false,
            () = tokio::time::sleep(pause) => true,
        }
    }
}
