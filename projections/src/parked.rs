//! Feeds the table of parked inputs from its topic, position and rows in one transaction.

use crate::db::{Db, Error};
use fleet_log::{EventLog, Item, Stored, TopicPartition};
use fleet_schemas::{Parked, decode};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs until `cancel`.
pub(crate) async fn feed(db: Db, log: Arc<dyn EventLog>, at: TopicPartition, cancel: CancellationToken) -> Result<(), Error> {
    let next: Option<i64> =
        sqlx::query_scalar("SELECT next FROM parked_position WHERE partition = $1").bind(at.partition).fetch_optional(&db.write).await?;
    let mut reader = log.read(&[(at, next.unwrap_or(0) as u64)]);
    loop {
        let item = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            item = reader.next() => item,
        };
        match item {
            Ok(Item::Record(stored)) => write(&db, &stored).await?,
            Ok(Item::End { .. }) => {}
            Err(error) => {
                tracing::error!(%error, "parked inputs can no longer be read");
                cancel.cancelled().await;
                return Ok(());
            }
        }
    }
}

/// One row a parked input: parking it again (it is at least once) changes nothing. What cannot be decoded is passed over and logged.
async fn write(db: &Db, stored: &Stored) -> Result<(), Error> {
    let mut transaction = db.write.begin_with("BEGIN IMMEDIATE").await?;
    match decode::<Parked>(&stored.record.value) {
        Ok(p) => {
            sqlx::query("INSERT INTO parked VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING")
                .bind(&p.topic)
                .bind(p.partition)
                .bind(p.offset as i64)
                .bind(p.key.as_slice())
                .bind(p.value.as_slice())
                .bind(&p.parked_by)
                .bind(&p.why)
                .bind(p.parked_at.0)
                .execute(&mut *transaction)
                .await?;
        }
        Err(error) => tracing::error!(%error, offset = stored.offset, "a parked record cannot be decoded"),
    }
    sqlx::query("INSERT INTO parked_position VALUES ($1, $2) ON CONFLICT (partition) DO UPDATE SET next = excluded.next")
        .bind(stored.at.partition)
        .bind(stored.offset as i64 + 1)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}
