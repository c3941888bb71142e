//! Waiting for what must come to be: a condition is looked at again and again, and its last answer is told when the time is up.

use std::{fmt::Debug, future::Future, time::Duration};

/// How long a test waits for something that normally comes at once. Long, so that a busy machine decides no test.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// Waits until `look` gives a value.
pub async fn until<T, E: Debug, F: Future<Output = Result<T, E>>>(what: &str, look: impl FnMut() -> F) -> T {
    until_within(PATIENCE, what, look).await
}

/// The same within `patience`; panics with the last answer.
pub async fn until_within<T, E: Debug, F: Future<Output = Result<T, E>>>(patience: Duration, what: &str, mut look: impl FnMut() -> F) -> T {
    let started = tokio::time::Instant::now();
    loop {
        match look().await {
            Ok(value) => return value,
            Err(last) if started.elapsed() > patience => panic!("{what}: not within {patience:?}; last: {last:?}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}
