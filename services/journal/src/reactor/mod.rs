//! The reactor: what a decision of one stream means for others. It follows every partition of the journal through the fence, as every
//! reader does, draws the reactions of each accepted decision, and appends them to the commands of the streams that they are for.
//!
//! A reaction's id is uuid5 of its decision and its index, and its record carries its place in the order of the stream that it follows
//! from; the ledger of the stream it is for keeps the highest place handled. So a repeat takes no effect, whoever appends it and however
//! late: a position may be written after what it stands for, be lost, or be another reactor's. That is why a missing position means to
//! begin at the first record, and one that does not fit this journal any more (a restored backup) means the same.

mod follow;

use crate::{Config, Journal, in_turn};
use fleet_fence::Position;
use fleet_log::{Error, Fut};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Where the reactor keeps how far it is: outside every generation of the read model.
pub trait Positions: Send + Sync + 'static {
    /// The position in each partition that has one.
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>>;
    /// Replaces the position of a partition, if it still stands at `before` (0 where there is none). False = another reactor moved it on.
    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>>;
}

impl Journal {
    /// Starts the reactor, of the partitions that this hub is to lead. Its loops run in `tasks` until `cancel`; one that ends with an
    /// error must end the process.
    pub fn react(&self, positions: Arc<dyn Positions>, tasks: &mut JoinSet<Result<(), Error>>, cancel: CancellationToken) {
        for partition in 0..self.config.topics.partitions {
            let (config, positions) = (self.config.clone(), positions.clone());
            let follow = move |turn| from_there(config.clone(), partition, positions.clone(), turn);
            tasks.spawn(in_turn(self.turns.clone(), partition, cancel.clone(), follow));
        }
    }
}

/// Between two questions for a position.
const AGAIN: Duration = Duration::from_secs(1);

/// Follows a partition from where the last one wrote that it was.
async fn from_there(config: Config, partition: u32, positions: Arc<dyn Positions>, cancel: CancellationToken) -> Result<(), Error> {
    let position = loop {
        match positions.load().await {
            Ok(mut all) => break all.remove(&partition),
            Err(error) => tracing::warn!(partition, %error, "the reactor's position is asked for again"),
        }
        if cancel.run_until_cancelled(tokio::time::sleep(AGAIN)).await.is_none() {
            return Ok(());
        }
    };
    follow::run(config, partition, position, positions, cancel).await
}
