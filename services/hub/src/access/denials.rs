//! What was denied, to whom and why: counted, logged, and kept in `control` for auditors.

use fleet_projections::{Control, Denial};
use fleet_schemas::Timestamp;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Denials of one client and reason that are kept a minute; the rest are counted.
const A_MINUTE: u32 = 20;
/// Denials that wait to be written.
const WAITING: usize = 1000;
/// Characters of a path or a detail that are kept.
const LONGEST: usize = 300;

/// Client and reason.
type Kind = (String, &'static str);

/// Takes denials. Writing them is nobody's to wait for.
pub struct Denials {
    queue: mpsc::Sender<Denial>,
    lately: Mutex<HashMap<Kind, (Instant, u32)>>,
    control: Control,
}

impl Denials {
    /// Keeps them in `control`.
    pub fn new(control: Control) -> Self {
        let (queue, waiting) = mpsc::channel(WAITING);
        tokio::spawn(write(control.clone(), waiting));
        Self { queue, lately: Mutex::default(), control }
    }

    /// A request was denied.
    pub fn record(&self, client: &str, reason: &'static str, method: &str, path: &str, detail: &str) {
        metrics::counter!("fm_auth_denied_total", "reason" => reason).increment(1);
        let Some(unrecorded) = self.admit(client, reason) else { return };
        tracing::warn!(client, reason, method, path, detail, "denied");
        let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let at = Timestamp(i64::try_from(now.as_micros()).unwrap_or(i64::MAX));
        let denial = Denial {
            at,
            client: cut(client),
            reason: reason.into(),
            method: cut(method),
            path: cut(path),
            detail: cut(detail),
            unrecorded,
        };
        // A full queue means that the store is slower than whoever tries; the counter has them all.
        let _ = self.queue.try_send(denial);
    }

    /// Whether this one is kept; then how many alike were not, since the last that was.
    fn admit(&self, client: &str, reason: &'static str) -> Option<u32> {
        let mut lately = self.lately.lock().unwrap_or_else(|e| e.into_inner());
        if lately.len() > 10_000 {
            lately.retain(|_, (since, _)| since.elapsed() < Duration::from_secs(60));
        }
        let (since, count) = lately.entry((client.to_owned(), reason)).or_insert((Instant::now(), 0));
        if since.elapsed() > Duration::from_secs(60) {
            let dropped = count.saturating_sub(A_MINUTE);
            (*since, *count) = (Instant::now(), 1);
            return Some(dropped);
        }
        *count = count.saturating_add(1);
        (*count <= A_MINUTE).then_some(0)
    }

    /// The latest, newest first, those before row `before`; each with its row.
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Vec<(i64, Denial)>, fleet_projections::Error> {
        self.control.denials(before, limit).await
    }
}

async fn write(control: Control, mut waiting: mpsc::Receiver<Denial>) {
    while let Some(denial) = waiting.recv().await {
        if let Err(error) = control.keep_denial(&denial).await {
            tracing::error!(%error, "a denial could not be kept; the log and the counter have it");
        }
    }
}
