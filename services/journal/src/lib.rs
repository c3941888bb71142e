//! Runs the deciders on a log. The only crate that appends to the journal topic.
//!
//! [`Journal::start`] founds the journal where there is none, and runs one loop per partition ([`partition`]): claim, replay,
//! then for ever gather inputs, decide them over speculative state, append one batch, read it back, apply it through the same
//! [`Ledger`] as replay does, answer who waits. [`replay`] verifies a whole journal; [`Journal::ask`] puts a command and waits.

mod ask;
mod clock;
mod genesis;
mod leases;
mod ledger;
mod park;
mod partition;
mod reactor;
mod reference;
pub mod replay;
mod retention;
mod rules;
mod topics;
mod turn;

pub use ask::{Answer, AskError, Outcomes};
pub use clock::{Clock, ManualClock, SystemClock};
pub use genesis::{found, journal_of};
pub use leases::{Hubs, Turns};
pub use ledger::{Applied, Ledger, Remembered, Stream};
pub use partition::{Phase, Stats, Status};
pub use reactor::Positions;
pub use rules::Rules;
pub use topics::Topics;
pub use turn::in_turn;

use fleet_fence::Head;
use fleet_lifecycle::{Entity, Reference};
use fleet_log::{AppendError, EventLog, Fut, Record, TopicPartition};
use fleet_schemas::{BootId, Command, Micros, Observation, SECOND, StreamId, encode, topics as names};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// What a journal runs on.
#[derive(Clone)]
pub struct Config {
    /// The log; its topics exist.
    pub log: Arc<dyn EventLog>,
    /// Names and partition counts.
    pub topics: Topics,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// How long a batch may take to be read back before the leader steps down.
    pub read_back: Duration,
    /// The rules.
    pub rules: Rules,
    /// By how much the clock may run ahead of the machine's own count of time between two rounds of a loop. More means that the process
    /// was paused or the clock was set: the leader steps down and claims anew, since it may have been overtaken and knows of no silence.
    pub jump: Micros,
    /// This hub among others; absent where it is alone, and leads everything.
    pub hubs: Option<Hubs>,
}

impl Config {
    /// With the system's clock, the deciders' rules, and the usual patience.
    pub fn new(log: Arc<dyn EventLog>, topics: Topics) -> Self {
        let (clock, rules) = (Arc::new(SystemClock), Rules::default());
        Self { log, topics, clock, read_back: Duration::from_secs(10), rules, jump: 30 * SECOND, hubs: None }
    }

    /// Appends, and waits no longer than a read-back may take: then nobody can say whether it is stored.
    pub(crate) fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), AppendError>> {
        let (appended, patience) = (self.log.append(at, records), self.read_back);
        Box::pin(async move {
            let late = || AppendError::Unknown(format!("the log did not acknowledge within {} s", patience.as_secs()));
            tokio::time::timeout(patience, appended).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

/// A running journal.
pub struct Journal {
    config: Config,
    outcomes: Arc<Outcomes>,
    reference: watch::Receiver<Arc<Reference>>,
    statuses: Vec<watch::Receiver<Status>>,
    turns: watch::Receiver<Arc<Turns>>,
}

impl Journal {
    /// Founds the journal where there is none and we are alone with it, then follows and leads every partition until `cancel`. Its loops run in `tasks`; one
    /// that ends with an error or a panic must end the process, whose restart is the recovery.
    pub async fn start(
        config: Config,
        tasks: &mut JoinSet<Result<(), fleet_log::Error>>,
        cancel: CancellationToken,
    ) -> Result<Self, fleet_log::Error> {
        if config.hubs.is_none() {
            found(&*config.log, &config.topics, config.clock.now()).await?;
        }
        let outcomes = Arc::new(Outcomes::new(config.topics.partitions));
        let (publish, reference) = watch::channel(Arc::new(Reference::default()));
        tasks.spawn(reference::follow(config.clone(), publish, cancel.clone()));
        let (give, turns) = watch::channel(Arc::new(match config.hubs {
            Some(_) => Turns::default(),
            None => Turns::all(config.topics.partitions),
        }));
        let mut statuses = Vec::new();
        for partition in 0..config.topics.partitions {
            let (status, seen) = watch::channel(Status::new(partition));
            statuses.push(seen);
            let boot = BootId(uuid::Uuid::new_v4());
            let shared = partition::Shared { outcomes: outcomes.clone(), reference: reference.clone(), turns: turns.clone() };
            tasks.spawn(partition::run(config.clone(), partition, boot, shared, status, cancel.clone()));
        }
        if let Some(hub) = config.hubs.clone() {
            tasks.spawn(leases::Leases::new(config.clone(), hub, statuses.clone(), give).run(cancel));
        }
        Ok(Self { config, outcomes, reference, statuses, turns })
    }

    /// Puts a command and waits for its decision, at most `patience`. [`AskError::Pending`] says nothing about what became of it.
    pub fn ask(&self, command: &Command, patience: Duration) -> Fut<'static, Result<Answer, AskError>> {
        let waiter = self.outcomes.wait(command, command.stream.partition(self.config.topics.partitions));
        Box::pin(ask::answer(waiter, self.append(command), patience))
    }

    /// Puts a command for a decision that the caller does not wait for; an error says that the log does not have it.
    pub async fn put(&self, command: &Command, patience: Duration) -> Result<(), AskError> {
        match tokio::time::timeout(patience, self.append(command)).await {
            Ok(Err(AppendError::NotStored(why))) => Err(AskError::NotStored(why)),
            // Unknown, or late: it may be there all the same.
            Ok(Ok(()) | Err(AppendError::Unknown(_))) | Err(_) => Ok(()),
        }
    }

    fn append(&self, command: &Command) -> Fut<'static, Result<(), AppendError>> {
        let at = self.config.topics.at(names::COMMANDS, command.stream.partition(self.config.topics.partitions));
        let record = Record { key: command.stream.to_string().into(), value: encode(command).into() };
        self.config.append(at, vec![record])
    }

    /// Appends observations; acknowledged when the log has them all.
    pub async fn observe(&self, observations: &[Observation]) -> Result<(), AppendError> {
        let mut appends = Vec::new();
        for (partition, records) in self.config.topics.spread(observations) {
            appends.push(self.config.append(self.config.topics.at(names::OBSERVATIONS, partition), records));
        }
        for append in appends {
            append.await?;
        }
        Ok(())
    }

    /// Waits until every observation that the log has of this partition now is decided; gives the end of the journal by then.
    pub async fn observed(&self, partition: u32) -> Result<u64, fleet_log::Error> {
        let at = |topic| self.config.topics.at(topic, partition);
        let end = self.config.log.bounds(at(names::OBSERVATIONS)).await?.end;
        if let Some(status) = self.statuses.get(partition as usize) {
            let decided = |s: &Status| s.stats.observations >= end || matches!(s.phase, Phase::Stopped(_));
            let elsewhere = |t: &Arc<Turns>| t.decided.get(&partition).is_some_and(|d| d.observations >= end);
            let (mut here, mut there) = (status.clone(), self.turns.clone());
            // A closed channel means that the process is ending.
            tokio::select! {
                _ = here.wait_for(decided) => {}
                Ok(_) = there.wait_for(elsewhere) => {}
            }
        }
        Ok(self.config.log.bounds(at(names::JOURNAL)).await?.end)
    }

    /// How streams of `partition` stand, once its loop has read the journal up to offset `read`; none where that is not within `patience`.
    /// Streams that do not exist are left out.
    pub async fn states(&self, partition: u32, streams: Vec<StreamId>, read: u64, patience: Duration) -> Option<Vec<(Entity, Head)>> {
        tokio::time::timeout(patience, self.outcomes.states(partition, streams, read)).await.ok()?
    }

    /// What this hub is to lead, and how far others are.
    pub fn turns(&self) -> watch::Receiver<Arc<Turns>> {
        self.turns.clone()
    }

    /// The log it runs on.
    pub fn log(&self) -> &Arc<dyn EventLog> {
        &self.config.log
    }

    /// The reference streams as they are now.
    pub fn reference(&self) -> Arc<Reference> {
        self.reference.borrow().clone()
    }

    /// Changes of the reference.
    pub fn reference_changes(&self) -> watch::Receiver<Arc<Reference>> {
        self.reference.clone()
    }

    /// How each partition is.
    pub fn statuses(&self) -> Vec<Status> {
        self.statuses.iter().map(|s| s.borrow().clone()).collect()
    }

    /// Waits until every partition is led here or read along to its end, or has stopped.
    pub async fn settled(&self) {
        for partition in 0..self.config.topics.partitions {
            self.settled_at(partition).await;
        }
    }

    /// The same of one; then says which.
    pub async fn settled_at(&self, partition: u32) -> Option<Phase> {
        let mut status = self.statuses.get(partition as usize)?.clone();
        // A closed channel means that the loop is gone; the process is ending then.
        let settled = status.wait_for(|s| matches!(s.phase, Phase::Leading | Phase::Standby | Phase::Stopped(_))).await.ok()?;
        Some(settled.phase.clone())
    }

    /// The clock it runs on.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.config.clock
    }

    /// Its topics.
    pub fn topics(&self) -> &Topics {
        &self.config.topics
    }
}
