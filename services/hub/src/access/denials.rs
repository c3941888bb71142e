//! What was denied, to whom and why: counted, logged, and kept in `control` for auditors.

use fleet_schemas::Timestamp;
use sqlx::{Row, sqlite::SqlitePool};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Denials of one client and reason that are kept a minute; the rest are counted.
const A_MINUTE: u32 = 20;
/// Denials that are kept at all; the oldest go.
const KEPT: i64 = 100_000;
/// Denials that wait to be written.
const WAITING: usize = 1000;
/// Characters of a path or a detail that are kept.
const LONGEST: usize = 300;

/// One denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// When.
    pub at: Timestamp,
    /// Who, as far as that was proven; else empty.
    pub client: String,
    /// `no-token`, `bad-token`, `assertion`, `scope`, `reach`, `field`, `type`, `epoch`.
    pub reason: String,
    /// Method of the request.
    pub method: String,
    /// Its path.
    pub path: String,
    /// In words.
    pub detail: String,
    /// How many alike were not kept one by one before this one.
    pub unrecorded: u32,
}

/// Takes denials. Writing them is nobody's to wait for.
pub struct Denials {
    queue: mpsc::Sender<Denial>,
    lately: Mutex<HashMap<(String, &'static str), (Instant, u32)>>,
    control: SqlitePool,
}

impl Denials {
    /// Keeps them in `control`.
    pub fn new(control: SqlitePool) -> Self {
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
    pub async fn list(&self, before: Option<i64>, limit: u32) -> Result<Vec<(i64, Denial)>, sqlx::Error> {
        let query = "SELECT id, at, client, reason, method, path, detail, unrecorded FROM denial WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let rows = sqlx::query(query).bind(before.unwrap_or(i64::MAX)).bind(limit).fetch_all(&self.control).await?;
        let denial = |r: &sqlx::sqlite::SqliteRow| {
            let denial = Denial {
                at: Timestamp(r.try_get("at")?),
                client: r.try_get("client")?,
                reason: r.try_get("reason")?,
                method: r.try_get("method")?,
                path: r.try_get("path")?,
                detail: r.try_get("detail")?,
                unrecorded: r.try_get("unrecorded")?,
            };
            Ok((r.try_get("id")?, denial))
        };
        rows.iter().map(denial).collect()
    }
}

async fn write(control: SqlitePool, mut waiting: mpsc::Receiver<Denial>) {
    while let Some(d) = waiting.recv().await {
        let insert =
            sqlx::query("INSERT INTO denial (at, client, reason, method, path, detail, unrecorded) VALUES ($1, $2, $3, $4, $5, $6, $7)");
        let insert = insert.bind(d.at.0).bind(d.client).bind(d.reason).bind(d.method).bind(d.path).bind(d.detail).bind(d.unrecorded);
        let written = insert.execute(&control).await;
        let trim = "DELETE FROM denial WHERE id <= (SELECT max(id) FROM denial) - $1";
        let trimmed = async {
            written.map(|_| ())?;
            sqlx::query(trim).bind(KEPT).execute(&control).await.map(|_| ())
        };
        if let Err(error) = trimmed.await {
            tracing::error!(%error, "a denial could not be kept; the log and the counter have it");
        }
    }
}
