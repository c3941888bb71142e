//! What can be asked: one function a question, keyset pages, every question an index.

mod attention;
mod conditions;
mod configs;
mod devices;
pub mod filter;
mod history;
mod operations;
mod orphans;
mod page;
mod parked;
mod past;
#[cfg(test)]
mod plans;
mod sites;

pub use attention::{AttentionFilter, AttentionRow};
pub use conditions::{ConditionFilter, ConditionRow};
pub use configs::ConfigVersion;
pub use devices::{DeviceDoc, DeviceFilter, DeviceRow, ListCursor, Listed};
pub use history::HistoryRow;
pub use operations::{OperationFilter, OperationRow};
pub use orphans::{OrphanFilter, OrphanRow};
pub use page::{Key, Page, Sort};
pub use parked::ParkedRow;
pub use past::Point;

use crate::db::Db;
use crate::projector::{Progress, pace};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// One generation, for reading.
#[derive(Clone, Debug)]
pub struct Reads {
    db: Db,
    generation: i64,
    progress: watch::Receiver<Progress>,
}

impl Reads {
    pub(crate) fn new(db: Db, generation: i64, progress: watch::Receiver<Progress>) -> Self {
        Self { db, generation, progress }
    }

    /// Its number.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress.borrow().clone()
    }

    /// How old what it says may be.
    pub fn lag(&self) -> Duration {
        let progress = self.progress.borrow();
        match (progress.idle, progress.caught_up) {
            (true, _) => pace(self.db.read.dialect()),
            (false, Some(at)) => at.elapsed(),
            (false, None) => Duration::MAX,
        }
    }

    /// Waits until partition `partition` is read past `offset`; false when `patience` ends first.
    pub async fn reached(&self, partition: u32, offset: u64, patience: Duration) -> bool {
        let mut progress = self.progress.clone();
        let there = |p: &Progress| p.partitions.get(&partition).is_some_and(|s| s.next > offset);
        matches!(tokio::time::timeout(patience, progress.wait_for(there)).await, Ok(Ok(_)))
    }

    /// Waits until everything there is has been read once.
    pub async fn caught_up(&self, patience: Duration) -> bool {
        let mut progress = self.progress.clone();
        let since = Instant::now();
        // What waits for the next batch has begun to be read by then.
        tokio::time::sleep(pace(self.db.read.dialect())).await;
        let there = |p: &Progress| p.idle || p.caught_up.is_some_and(|at| at > since);
        matches!(tokio::time::timeout(patience, progress.wait_for(there)).await, Ok(Ok(_)))
    }
}
