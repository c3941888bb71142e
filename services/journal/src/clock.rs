//! Time enters here.

use fleet_log::Fut;
use fleet_schemas::{Micros, Timestamp};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// A clock.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Waits until `at`; returns at once where that is past. May return early.
    fn sleep_until(&self, at: Timestamp) -> Fut<'_, ()>;
}

/// The machine's clock.
pub struct SystemClock;

/// A sleep is cut here, so that a clock that was set is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64))
    }
    fn sleep_until(&self, at: Timestamp) -> Fut<'_, ()> {
        let span = Duration::from_micros(at.since(self.now()).max(0) as u64).min(LONGEST_SLEEP);
        Box::pin(tokio::time::sleep(span))
    }
}

/// A clock that a test moves.
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
    /// How often the clock is read until it leaps, and how far.
    leap: Mutex<Option<(u32, Micros)>>,
}

impl ManualClock {
    /// Stands at `now`.
    pub fn new(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now), leap: Mutex::default() }
    }
    /// Moves by a span, backwards too.
    pub fn advance(&self, span: Micros) {
        self.now.send_modify(|t| *t = t.plus(span));
    }
    /// Moves by a span right after it was read so many times.
    pub fn leap_after(&self, reads: u32, span: Micros) {
        *self.leap.lock().unwrap_or_else(|e| e.into_inner()) = Some((reads, span));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let mut leap = self.leap.lock().unwrap_or_else(|e| e.into_inner());
        let now = *self.now.borrow();
        *leap = match *leap {
            Some((1, span)) => {
                self.advance(span);
                None
            }
            other => other.map(|(reads, span)| (reads - 1, span)),
        };
        now
    }
    fn sleep_until(&self, at: Timestamp) -> Fut<'_, ()> {
        let mut seen = self.now.subscribe();
        Box::pin(async move {
            // The sender lives as long as `self`, so this ends only by reaching the time.
            let _ = seen.wait_for(|now| *now >= at).await;
        })
    }
}
