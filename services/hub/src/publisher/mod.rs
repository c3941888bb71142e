//! The publisher: what the journal says, as the public topics for other teams. It follows each partition that this hub is to lead through
//! the fence, makes public records of accepted decisions, appends them, and writes its position when the log has them.
//!
//! What is published twice, after a crash or because another hub took over, has the same `fleet_seq`: readers drop what they have, and see
//! what they lack. `fleet_seq` counts from 1 without a hole for each (topic, subject) and is a fold of the journal, so nothing has to be
//! remembered that could be lost. Of the state topic it is the version of the device: of several changes only the last may be told.

mod asyncapi;
mod fold;
mod follow;
mod records;

use fleet_journal::{Journal, Positions, in_turn};
use fleet_log::{Error, Publish};
use fleet_schemas::topics;
use std::sync::Arc;
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use asyncapi::{Contract, asyncapi_text, contracts};
pub use records::{Frame, published};

/// See the module.
#[derive(Clone)]
pub struct Publisher {
    /// The log, whose public topics exist.
    pub log: Arc<dyn Publish>,
    /// The journal that is followed.
    pub journal: Arc<Journal>,
    /// How far: outside every generation of the read model.
    pub positions: Arc<dyn Positions>,
    /// How records are framed; nothing is published before that is known.
    pub framing: watch::Receiver<Option<Frame>>,
}

impl Publisher {
    /// Starts it. Its loops run in `tasks` until `cancel`; one that ends with an error must end the process.
    pub fn start(self, tasks: &mut JoinSet<Result<(), Error>>, cancel: &CancellationToken) {
        for partition in 0..self.journal.topics().partitions {
            let publisher = self.clone();
            let follow = move |turn| follow::run(publisher.clone(), partition, turn);
            tasks.spawn(in_turn(self.journal.turns(), partition, cancel.clone(), follow));
        }
    }
}

/// Partitions of a public topic.
fn partitions(topic: &str) -> u32 {
    topics::declared().topic.get(topic).map_or(1, |t| t.partitions)
}
