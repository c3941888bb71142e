//! How fast one subject may ask: who asks too fast is held up, and nobody else.

use crate::Problem;
use axum::http::StatusCode;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

/// Buckets that are remembered; beyond that, the full ones are forgotten.
const MOST: usize = 10_000;

/// A bucket per subject: `per_second` requests flow in, `burst` fit.
#[derive(Debug)]
pub struct Limits {
    per_second: f64,
    burst: f64,
    buckets: Mutex<HashMap<String, (Instant, f64)>>,
}

impl Limits {
    /// Both at least 1.
    pub fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second: f64::from(per_second.max(1)), burst: f64::from(burst.max(1)), buckets: Mutex::default() }
    }

    /// Takes one request of `subject`, who proved to be that, or says when to come again.
    pub fn take(&self, subject: &str) -> Result<(), TooOften> {
        let mut buckets = self.buckets.lock().unwrap_or_else(|e| e.into_inner());
        let fills = |at: Instant, left: f64| (left + at.elapsed().as_secs_f64() * self.per_second).min(self.burst);
        if buckets.len() >= MOST {
            buckets.retain(|_, (at, left)| fills(*at, *left) < self.burst);
        }
        let (at, left) = buckets.entry(subject.to_owned()).or_insert((Instant::now(), self.burst));
        *left = fills(*at, *left);
        *at = Instant::now();
        if *left >= 1.0 {
            *left -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - *left) / self.per_second).ceil().max(1.0);
        Err(TooOften { detail: format!("{subject} asks more than {} times a second", self.per_second), wait })
    }
}

/// Somebody asks too often.
#[derive(Debug)]
pub struct TooOften {
    detail: String,
    wait: f64,
}

impl TooOften {
    /// In words.
    pub fn detail(&self) -> &str {
        &self.detail
    }
    /// When to come again, as `Retry-After` has it.
    pub fn seconds(&self) -> String {
        format!("{}", self.wait)
    }
}

impl From<TooOften> for Problem {
    fn from(too_often: TooOften) -> Self {
        let seconds = too_often.seconds();
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many-requests", too_often.detail).header("retry-after", &seconds)
    }
}

impl Default for Limits {
    /// A site's agent that sends one request for each of 2,000 devices is not held up.
    fn default() -> Self {
        Self::new(200, 2000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_too_fast_is_told_when_to_come_again_and_holds_up_no_other() {
        let limits = Limits::new(1, 3);
        for _ in 0..3 {
            assert!(limits.take("a").is_ok());
        }
        assert_eq!(limits.take("a").unwrap_err().seconds(), "1");
        assert!(limits.take("b").is_ok());
    }
}
