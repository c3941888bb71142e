//! Feeds the table of parked inputs from its topic, position and rows in one transaction.

use crate::db::{Db, Error};
use crate::queries::ParkedRow;
use fleet_log::{AppendError, EventLog, Item, ReadError, ReadFault, Record, Stored, TopicPartition};
use fleet_schemas::{Closing, DecodeError, Parked, ParkedClosed, Record as _, SECOND, decode, encode, fingerprint_of, registry};
use sqlx::sqlite::SqlitePool;
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

/// What the topic holds.
enum Told {
    Parked(Parked),
    Closed(ParkedClosed),
}

fn read(bytes: &[u8]) -> Result<Told, DecodeError> {
    let closed = fingerprint_of(bytes).ok().and_then(registry::published).is_some_and(|p| p.name == ParkedClosed::NAME);
    if closed { decode(bytes).map(Told::Closed) } else { decode(bytes).map(Told::Parked) }
}

/// A closing that was begun so long ago, and never ended, was cut off with its process.
const CUT_OFF: i64 = 60 * SECOND;

/// Why a parked input was not closed.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// Somebody else closes it, or has.
    #[error("it is closed already, or being closed")]
    Taken,
    /// The log failed.
    #[error(transparent)]
    Log(#[from] AppendError),
    /// The store of claims failed; nothing was done.
    #[error("control: {0}")]
    Control(#[from] sqlx::Error),
}

/// One closes it, whoever else asks at the same time, and however late the read model shows it. Replaying comes first: a crash in between
/// replays once more, and the deciders know a repeat by its id.
pub(crate) async fn close(
    log: &dyn EventLog,
    control: &SqlitePool,
    parked: &TopicPartition,
    row: &ParkedRow,
    closed: &ParkedClosed,
) -> Result<(), CloseError> {
    let claim = sqlx::query(
        "INSERT INTO parked_closing (topic, partition, offset, at, done) VALUES ($1, $2, $3, $4, 0)
         ON CONFLICT (topic, partition, offset) DO UPDATE SET at = excluded.at WHERE done = 0 AND at < $5",
    );
    let claim = claim.bind(&row.topic).bind(row.partition).bind(row.offset as i64).bind(closed.closed_at.0);
    if claim.bind(closed.closed_at.0 - CUT_OFF).execute(control).await?.rows_affected() == 0 {
        return Err(CloseError::Taken);
    }
    let appended = append(log, parked, row, closed).await;
    // What failed may be tried again at once; what is done is so for ever.
    let end = match &appended {
        Ok(()) => "UPDATE parked_closing SET done = 1 WHERE topic = $1 AND partition = $2 AND offset = $3",
        Err(_) => "DELETE FROM parked_closing WHERE topic = $1 AND partition = $2 AND offset = $3",
    };
    let ended = sqlx::query(end).bind(&row.topic).bind(row.partition).bind(row.offset as i64).execute(control).await;
    if let Err(error) = ended {
        tracing::warn!(%error, "the end of a parked input's closing could not be noted; another try is refused for a minute");
    }
    Ok(appended?)
}

async fn append(log: &dyn EventLog, parked: &TopicPartition, row: &ParkedRow, closed: &ParkedClosed) -> Result<(), AppendError> {
    if closed.closing == Closing::Replayed {
        let at = TopicPartition { topic: row.topic.as_str().into(), partition: row.partition };
        log.append(at, vec![Record { key: row.key.clone().into(), value: row.value.clone().into() }]).await?;
    }
    let record = Record { key: row.key.clone().into(), value: encode(closed).into() };
    log.append(parked.clone(), vec![record]).await
}

/// One row a parked input: parking it again (it is at least once) changes nothing. What cannot be decoded is passed over and logged.
async fn write(db: &Db, stored: &Stored) -> Result<(), Error> {
    let mut transaction = db.write.begin_with("BEGIN IMMEDIATE").await?;
    match read(&stored.record.value) {
        Ok(Told::Closed(c)) => {
            sqlx::query("UPDATE parked SET closing = $4, closed_by = $5, closed_reason = $6, closed_at = $7 WHERE topic = $1 AND partition = $2 AND offset = $3")
                .bind(&c.topic)
                .bind(c.partition)
                .bind(c.offset as i64)
                .bind(c.closing.as_str())
                .bind(&c.by)
                .bind(&c.reason)
                .bind(c.closed_at.0)
                .execute(&mut *transaction)
                .await?;
        }
        Ok(Told::Parked(p)) => {
            sqlx::query(
                "INSERT INTO parked (topic, partition, offset, key, value, parked_by, why, parked_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
            )
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
