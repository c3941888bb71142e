//! Parked input: written by the feed in `parked.rs`, listed here.

use super::Reads;
use crate::db::Error;
use crate::sql::Line;
use fleet_schemas::Timestamp;

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
        let sql = format!("SELECT * FROM parked WHERE closing IS {which} ORDER BY parked_at DESC, topic, partition, \"offset\" LIMIT $1");
        self.db.read.all(self.db.read.sql(sql).with(limit)).await?.iter().map(row).collect()
    }

    /// One of them.
    pub async fn parked_one(&self, topic: &str, partition: u32, offset: u64) -> Result<Option<ParkedRow>, Error> {
        let sql = "SELECT * FROM parked WHERE topic = $1 AND partition = $2 AND \"offset\" = $3";
        let found = self.db.read.optional(self.db.read.sql(sql).with(topic).with(partition).with(offset)).await?;
        found.as_ref().map(row).transpose()
    }
}

fn row(r: &Line) -> Result<ParkedRow, Error> {
    let closed =
        r.opt_text("closing")?.map(|how| Ok::<_, Error>((how, r.text("closed_by")?, r.text("closed_reason")?, r.time("closed_at")?)));
    Ok(ParkedRow {
        topic: r.text("topic")?,
        partition: r.number("partition")?,
        offset: r.number("offset")?,
        key: r.bytes("key")?,
        value: r.bytes("value")?,
        parked_by: r.text("parked_by")?,
        why: r.text("why")?,
        parked_at: r.time("parked_at")?,
        closed: closed.transpose()?,
    })
}
