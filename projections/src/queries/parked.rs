//! Parked input: written by the feed in `parked.rs`, listed here.

use super::Reads;
use crate::db::Error;
use fleet_schemas::Timestamp;
use sqlx::Row;

/// One parked input.
#[derive(Clone, Debug, PartialEq)]
pub struct ParkedRow {
    /// Topic it stood in.
    pub topic: String,
    /// Partition there.
    pub partition: u32,
    /// Offset there.
    pub offset: u64,
    /// Its key.
    pub key: Vec<u8>,
    /// Its bytes.
    pub value: Vec<u8>,
    /// Who could not use it.
    pub parked_by: String,
    /// Why.
    pub why: String,
    /// When.
    pub parked_at: Timestamp,
}

impl Reads {
    /// The latest parked inputs, newest first.
    pub async fn parked(&self, limit: u32) -> Result<Vec<ParkedRow>, Error> {
        let rows = sqlx::query("SELECT * FROM parked ORDER BY parked_at DESC, topic, partition, offset LIMIT $1")
            .bind(limit)
            .fetch_all(&self.db.read)
            .await?;
        let row = |r: &sqlx::sqlite::SqliteRow| {
            Ok(ParkedRow {
                topic: r.try_get("topic")?,
                partition: r.try_get("partition")?,
                offset: r.try_get::<i64, _>("offset")? as u64,
                key: r.try_get("key")?,
                value: r.try_get("value")?,
                parked_by: r.try_get("parked_by")?,
                why: r.try_get("why")?,
                parked_at: Timestamp(r.try_get("parked_at")?),
            })
        };
        rows.iter().map(row).collect()
    }
}
