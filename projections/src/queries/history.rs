//! The decisions of one stream.

use super::Reads;
use crate::db::Error;
use crate::sql::Line;
use fleet_schemas::{Decision, Hash, StreamId, decode};

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
        let sql = "SELECT partition, \"offset\", hash, record FROM history WHERE stream = $1 AND \"offset\" < $2 ORDER BY \"offset\" DESC LIMIT $3";
        let rows = self.db.read.all(self.db.read.sql(sql).with(stream.to_string()).with(before).with(limit)).await?;
        let row = |r: &Line| {
            Ok(HistoryRow {
                partition: r.number("partition")?,
                offset: r.number("offset")?,
                hash: r.hash("hash")?,
                decision: decode(&r.bytes("record")?).map_err(|e| Error::Corrupt(e.to_string()))?,
            })
        };
        rows.iter().map(row).collect()
    }
}
