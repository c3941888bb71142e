//! What was denied, for auditors.

use super::Control;
use crate::db::Error;
use fleet_schemas::Timestamp;

/// Denials that are kept at all; the oldest go.
const KEPT: i64 = 100_000;

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

impl Control {
    /// Keeps one, and lets the oldest go.
    pub async fn keep_denial(&self, d: &Denial) -> Result<(), Error> {
        let insert = "INSERT INTO denial (at, client, reason, method, path, detail, unrecorded) VALUES ($1, $2, $3, $4, $5, $6, $7)";
        let insert = self.pool.sql(insert).with(d.at).with(&d.client).with(&d.reason).with(&d.method).with(&d.path);
        self.pool.run(insert.with(&d.detail).with(d.unrecorded)).await?;
        let trim = "DELETE FROM denial WHERE id <= (SELECT max(id) FROM denial) - $1";
        self.pool.run(self.pool.sql(trim).with(KEPT)).await?;
        Ok(())
    }

    /// The latest, newest first, those before row `before`; each with its row.
    pub async fn denials(&self, before: Option<i64>, limit: u32) -> Result<Vec<(i64, Denial)>, Error> {
        let query = "SELECT id, at, client, reason, method, path, detail, unrecorded FROM denial WHERE id < $1 ORDER BY id DESC LIMIT $2";
        let rows = self.pool.all(self.pool.sql(query).with(before.unwrap_or(i64::MAX)).with(limit)).await?;
        let denial = |r: &crate::sql::Line| {
            let denial = Denial {
                at: r.time("at")?,
                client: r.text("client")?,
                reason: r.text("reason")?,
                method: r.text("method")?,
                path: r.text("path")?,
                detail: r.text("detail")?,
                unrecorded: r.number("unrecorded")?,
            };
            Ok((r.int("id")?, denial))
        };
        rows.iter().map(denial).collect()
    }
}
