//! Log, journal and read models in one process, as files in a folder.

use crate::folder::Folder;
use fleet_journal::Topics;
use fleet_log::{EventLog, TopicPartition, sqlite::SqliteLog};
use fleet_projections::{Generations, Store};
use fleet_schemas::topics as names;
use std::sync::Arc;

/// The partitions of the journal, for projectors.
pub fn journal_partitions(topics: &Topics) -> Vec<TopicPartition> {
    (0..topics.partitions).map(|p| topics.at(names::JOURNAL, p)).collect()
}

/// Opens the log of a folder, with its topics made or verified.
pub async fn open_log(folder: &Folder) -> anyhow::Result<Arc<dyn EventLog>> {
    let log = SqliteLog::open(&folder.log())?;
    log.ensure(&Topics::specs_embedded()).await?;
    Ok(Arc::new(log))
}

/// The read models of a store.
pub async fn open_generations(store: Store, log: Arc<dyn EventLog>, topics: &Topics) -> anyhow::Result<Arc<Generations>> {
    let parked = topics.at(names::PARKED, 0);
    Ok(Arc::new(Generations::open(store, log, journal_partitions(topics), parked).await?))
}
