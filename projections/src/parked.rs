//! Feeds the table of parked inputs from its topic, position and rows in one transaction.

use crate::db::{Db, Error};
use fleet_log::{EventLog, Item, ReadError, ReadFault, Stored, TopicPartition};
use fleet_schemas::{Parked, decode};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

const AGAIN: Duration = Duration::from_secs(1);

/// Runs until `cancel`.
pub(crate) async fn feed(db: Db, log: Arc<dyn EventLog>, at: TopicPartition, cancel: CancellationToken) -> Result<(), Error> {
    let mut reader = log.read(&[(at.clone(), position(&db, &at).await?)]);
    loop {
        let item = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            item = reader.next() => item,
        };
        match item {
            Ok(Item::Record(stored)) => write(&db, &stored).await?,
            Ok(Item::End { .. }) => {}
            Err(error) if matches!(error.fault, ReadFault::Io(_)) => {
                tracing::warn!(%error, "reading parked inputs is tried again");
                tokio::time::sleep(AGAIN).await;
                reader = log.read(&[(at.clone(), position(&db, &at).await?)]);
            }
            // Those that the log let go of are in the table.
            Err(ReadError { fault: ReadFault::Gone { start, .. }, .. }) => reader = log.read(&[(at.clone(), start)]),
            Err(error) => {
                tracing::error!(%error, "parked inputs can no longer be read");
                cancel.cancelled().await;
                return Ok(());
            }
        }
    }
}

async fn position(db: &Db, at: &TopicPartition) -> Result<u64, Error> {
    let next = sqlx::query_scalar::<_, i64>("SELECT next FROM parked_position WHERE partition = $1").bind(at.partition);
    Ok(next.fetch_optional(&db.write).await?.unwrap_or(0) as u64)
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
