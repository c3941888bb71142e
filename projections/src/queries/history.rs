//! The decisions of one stream.

use super::{Reads, hash};
use crate::db::Error;
use fleet_schemas::{Decision, Hash, StreamId, decode};
use sqlx::Row;

/// One decision and where it stands.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// Partition of the journal.
    pub partition: u32,
    /// Offset there.
    pub offset: u64,
    /// SHA-256 of its wire bytes.
    pub hash: Hash,
    /// The decision.
    pub decision: Decision,
}

impl Reads {
    /// The latest decisions of a stream, newest first, those before offset `before`.
    pub async fn history(&self, stream: &StreamId, before: Option<u64>, limit: u32) -> Result<Vec<HistoryRow>, Error> {
        let before = before.and_then(|b| i64::try_from(b).ok()).unwrap_or(i64::MAX);
        let rows = sqlx::query(
            "SELECT partition, offset, hash, record FROM history WHERE stream = $1 AND offset < $2 ORDER BY offset DESC LIMIT $3",
        )
        .bind(stream.to_string())
        .bind(before)
        .bind(limit)
        .fetch_all(&self.db.read)
        .await?;
        let row = |r: &sqlx::sqlite::SqliteRow| {
            let record: Vec<u8> = r.try_get("record")?;
            Ok(HistoryRow {
                partition: r.try_get("partition")?,
                offset: r.try_get::<i64, _>("offset")? as u64,
                hash: hash(r.try_get("hash")?)?,
                decision: decode(&record).map_err(|e| Error::Corrupt(e.to_string()))?,
            })
        };
        rows.iter().map(row).collect()
    }
}
