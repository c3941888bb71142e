//! Founding a journal: one Genesis per partition, all of one journal.

use crate::Topics;
use fleet_log::{EventLog, Item, ReadError, ReadFault, Record, TopicPartition};
use fleet_schemas::{Genesis, JournalId, JournalRecord, Timestamp, topics as names};
use std::time::Duration;
use uuid::Uuid;

/// How long a start waits for a log that does not answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes the Genesis of every partition that is empty. A half-founded journal is completed under the id it began with.
pub async fn found(log: &dyn EventLog, topics: &Topics, now: Timestamp) -> Result<JournalId, fleet_log::Error> {
    let mut journal = None;
    for partition in 0..topics.partitions {
        let at = topics.at(names::JOURNAL, partition);
        if let Some(found) = genesis_of(log, &at).await? {
            journal.get_or_insert(found);
        }
    }
    let journal = journal.unwrap_or(JournalId(Uuid::new_v4()));
    for partition in 0..topics.partitions {
        let at = topics.at(names::JOURNAL, partition);
        if log.bounds(at.clone()).await?.end == 0 {
            let record = JournalRecord::Genesis(Genesis { journal, partition, created_at: now, from: None });
            let record = Record { key: format!("genesis/{partition}").into(), value: record.encode().into() };
            let late = |_| {
                fleet_log::Error::Io(format!(
                    "the journal could not be founded: {at} did not take its first record within {} s",
                    PATIENCE.as_secs()
                ))
            };
            let appended = tokio::time::timeout(PATIENCE, log.append(at.clone(), vec![record])).await.map_err(late)?;
            appended.map_err(|e| fleet_log::Error::Io(format!("the journal could not be founded: {e}")))?;
        }
    }
    Ok(journal)
}

/// A log that has just lost a broker may not answer at once.
async fn first(log: &dyn EventLog, at: &TopicPartition) -> Result<Item, ReadError> {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        let mut reader = log.read(&[(at.clone(), 0)]);
        let Ok(read) = tokio::time::timeout_at(until, reader.next()).await else {
            let why = format!("its first record did not come within {} s: the log does not answer", PATIENCE.as_secs());
            return Err(ReadError { at: at.clone(), fault: ReadFault::Io(why) });
        };
        match read {
            Err(ReadError { fault: ReadFault::Io(why), .. }) if tokio::time::Instant::now() < until => {
                tracing::warn!(%at, why, "the first record of the journal is read again");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            read => return read,
        }
    }
}

async fn genesis_of(log: &dyn EventLog, at: &TopicPartition) -> Result<Option<JournalId>, fleet_log::Error> {
    if log.bounds(at.clone()).await?.end == 0 {
        return Ok(None);
    }
    match first(log, at).await {
        Ok(Item::Record(stored)) => match JournalRecord::decode(&stored.record.value) {
            Ok(JournalRecord::Genesis(genesis)) => Ok(Some(genesis.journal)),
            // Whatever else stands there stops that partition when it is read, with its own words.
            _ => Ok(None),
        },
        Ok(Item::End { .. }) => Ok(None),
        Err(e) => Err(fleet_log::Error::Io(e.to_string())),
    }
}

/// The journal that stands in the log, if it was founded whole.
pub async fn journal_of(log: &dyn EventLog, topics: &Topics) -> Result<Option<JournalId>, fleet_log::Error> {
    let mut found = None;
    for partition in 0..topics.partitions {
        match genesis_of(log, &topics.at(names::JOURNAL, partition)).await? {
            Some(journal) => found.get_or_insert(journal),
            None => return Ok(None),
        };
    }
    Ok(found)
}
