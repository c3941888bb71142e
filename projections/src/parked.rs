//! Feeds the table of parked inputs from its topic, position and rows in one transaction.

use crate::control::Control;
use crate::db::{Db, Error};
use crate::pauses::Pauses;
use crate::queries::ParkedRow;
use fleet_log::{AppendError, EventLog, Item, ReadError, ReadFault, Reader, Record, Stored, TopicPartition};
use fleet_schemas::{Closing, DecodeError, Parked, ParkedClosed, Record as _, SECOND, Timestamp, decode, encode, fingerprint_of, registry};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs until `cancel`. Where log or database are away it waits, and goes on from its position.
pub(crate) async fn feed(db: Db, log: Arc<dyn EventLog>, at: TopicPartition, cancel: CancellationToken) -> Result<(), Error> {
    let mut pauses = Pauses::new();
    let mut reader: Option<Box<dyn Reader>> = None;
    loop {
        let error = tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            fed = step(&db, &*log, &at, &mut reader) => match fed {
                Ok(true) => {
                    pauses = Pauses::new();
                    continue;
                }
                Ok(false) => {
                    cancel.cancelled().await;
                    return Ok(());
                }
                Err(error) => error,
            },
        };
        if !error.unavailable() && !matches!(error, Error::Log(_)) {
            return Err(error);
        }
        tracing::warn!(%error, "feeding parked inputs is tried again");
        reader = None;
        if !pauses.pause(&cancel).await {
            return Ok(());
        }
    }
}

/// Takes the next of them; false when no more can ever be read.
async fn step(db: &Db, log: &dyn EventLog, at: &TopicPartition, reader: &mut Option<Box<dyn Reader>>) -> Result<bool, Error> {
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(log.read(&[(at.clone(), position(db, at).await?)])),
    };
    match reader.next().await {
        Ok(Item::Record(stored)) => write(db, &stored).await?,
        Ok(Item::End { .. }) => {}
        Err(ReadError { fault: ReadFault::Io(why), .. }) => return Err(fleet_log::Error::Io(why).into()),
        // Those that the log let go of are in the table.
        Err(ReadError { fault: ReadFault::Gone { start, .. }, .. }) => *reader = log.read(&[(at.clone(), start)]),
        Err(error) => {
            tracing::error!(%error, "parked inputs can no longer be read");
            return Ok(false);
        }
    }
    Ok(true)
}

async fn position(db: &Db, at: &TopicPartition) -> Result<u64, Error> {
    let next = db.write.sql("SELECT next FROM parked_position WHERE partition = $1").with(at.partition);
    db.write.optional(next).await?.map_or(Ok(0), |row| row.number("next"))
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
    Control(#[from] Error),
}

/// One closes it, whoever else asks at the same time, and however late the read model shows it. Replaying comes first: a crash in between
/// replays once more, and the deciders know a repeat by its id.
pub(crate) async fn close(
    log: &dyn EventLog,
    control: &Control,
    parked: &TopicPartition,
    row: &ParkedRow,
    closed: &ParkedClosed,
) -> Result<(), CloseError> {
    if !control.take_closing(row, closed.closed_at, Timestamp(closed.closed_at.0 - CUT_OFF)).await? {
        return Err(CloseError::Taken);
    }
    let appended = append(log, parked, row, closed).await;
    if let Err(error) = control.end_closing(row, appended.is_ok()).await {
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

/// One row a parked input: parking it again (it is at least once) changes nothing. What cannot be decoded is passed over and logged. Of
/// several that feed one table each writes what the others do, and the position goes back for none.
async fn write(db: &Db, stored: &Stored) -> Result<(), Error> {
    let mut t = db.write.begin().await?;
    match read(&stored.record.value) {
        Ok(Told::Closed(c)) => {
            let close = "UPDATE parked SET closing = $4, closed_by = $5, closed_reason = $6, closed_at = $7 WHERE topic = $1 AND partition = $2 AND \"offset\" = $3";
            let close = t.sql(close).with(&c.topic).with(c.partition).with(c.offset).with(c.closing.as_str());
            t.run(close.with(&c.by).with(&c.reason).with(c.closed_at)).await?;
        }
        Ok(Told::Parked(p)) => {
            let insert = "INSERT INTO parked (topic, partition, \"offset\", key, value, parked_by, why, parked_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
            let insert = t.sql(insert).with(&p.topic).with(p.partition).with(p.offset).with(p.key.as_slice()).with(p.value.as_slice());
            t.run(insert.with(&p.parked_by).with(&p.why).with(p.parked_at)).await?;
        }
        Err(error) => tracing::error!(%error, offset = stored.offset, "a parked record cannot be decoded"),
    }
    let moved = "INSERT INTO parked_position (partition, next) VALUES ($1, $2)
         ON CONFLICT (partition) DO UPDATE SET next = excluded.next WHERE parked_position.next < excluded.next";
    t.run(t.sql(moved).with(stored.at.partition).with(stored.offset + 1)).await?;
    t.commit().await
}
