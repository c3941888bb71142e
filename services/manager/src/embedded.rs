//! Log, journal and read models in one process, as files in a folder.

use crate::folder::Folder;
use anyhow::Context;
use fleet_journal::{Config, Journal, Topics};
use fleet_log::{EventLog, TopicPartition, sqlite::SqliteLog};
use fleet_projections::{Generations, Store};
use fleet_schemas::topics;
use std::{path::Path, sync::Arc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The partitions of the journal, for projectors.
pub fn journal_partitions(topics: &Topics) -> Vec<TopicPartition> {
    (0..topics.partitions).map(|p| topics.at(topics::JOURNAL, p)).collect()
}

/// Opens the log of a folder, with its topics made or verified.
pub async fn open_log(folder: &Folder) -> anyhow::Result<Arc<dyn EventLog>> {
    let log = SqliteLog::open(&folder.log())?;
    log.ensure(&Topics::specs_embedded()).await?;
    Ok(Arc::new(log))
}

/// Opens the log in a folder for reading beside whoever has it.
pub fn open_log_read_only(path: &Path) -> anyhow::Result<Arc<dyn EventLog>> {
    Ok(Arc::new(SqliteLog::open_read_only(&path.join("log"))?))
}

/// The read models of a folder.
pub async fn open_generations(folder: &Folder, log: Arc<dyn EventLog>) -> anyhow::Result<Arc<Generations>> {
    let topics = Topics::embedded();
    let parked = topics.at(topics::PARKED, 0);
    Ok(Arc::new(Generations::open(Store::Folder(folder.read()), log, journal_partitions(&topics), parked).await?))
}

/// Starts the journal.
pub async fn start_journal(
    log: Arc<dyn EventLog>,
    tasks: &mut JoinSet<Result<(), fleet_log::Error>>,
    cancel: &CancellationToken,
) -> anyhow::Result<Arc<Journal>> {
    let config = Config::new(log, Topics::embedded());
    Ok(Arc::new(Journal::start(config, tasks, cancel.clone()).await.context("the journal did not start")?))
}
