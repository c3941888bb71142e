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
    /// What became of it: how, who said so, why, when.
    pub closed: Option<(String, String, String, Timestamp)>,
}

impl Reads {
    /// The latest parked inputs, newest first: those that wait, or those that are closed.
    pub async fn parked(&self, closed: bool, limit: u32) -> Result<Vec<ParkedRow>, Error> {
        let which = if closed { "NOT NULL" } else { "NULL" };
        let sql = format!("SELECT * FROM parked WHERE closing IS {which} ORDER BY parked_at DESC, topic, partition, offset LIMIT $1");
        sqlx::query(sqlx::AssertSqlSafe(sql)).bind(limit).fetch_all(&self.db.read).await?.iter().map(row).collect()
    }

    /// One of them.
    pub async fn parked_one(&self, topic: &str, partition: u32, offset: u64) -> Result<Option<ParkedRow>, Error> {
        let found = sqlx::query("SELECT * FROM parked WHERE topic = $1 AND partition = $2 AND offset = $3")
            .bind(topic)
            .bind(partition)
            .bind(i64::try_from(offset).unwrap_or(i64::MAX))
            .fetch_optional(&self.db.read)
            .await?;
        found.as_ref().map(row).transpose()
    }
}

fn row(r: &sqlx::sqlite::SqliteRow) -> Result<ParkedRow, Error> {
    let closing: Option<String> = r.try_get("closing")?;
    let closed =
        closing.map(|how| Ok::<_, Error>((how, r.try_get("closed_by")?, r.try_get("closed_reason")?, Timestamp(r.try_get("closed_at")?))));
    Ok(ParkedRow {
        topic: r.try_get("topic")?,
        partition: r.try_get("partition")?,
        offset: r.try_get::<i64, _>("offset")? as u64,
        key: r.try_get("key")?,
        value: r.try_get("value")?,
        parked_by: r.try_get("parked_by")?,
        why: r.try_get("why")?,
        parked_at: Timestamp(r.try_get("parked_at")?),
        closed: closed.transpose()?,
    })
}
