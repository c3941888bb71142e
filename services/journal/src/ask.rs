//! Waiting for the decision of a command.

use crate::ledger::Remembered;
use fleet_fence::Head;
use fleet_lifecycle::Entity;
use fleet_log::{AppendError, Fut};
use fleet_schemas::{Command, CommandId, Decision, Hash, OperationId, Outcome, StreamId};
use std::{collections::HashMap, sync::Arc, sync::Mutex, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// What became of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The decision and what it came to.
    pub decided: Remembered,
    /// Whether it had been decided before: this is the answer of then.
    pub repeated: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Determinate: the command was never put.
    #[error("the command could not be stored: {0}")]
    NotStored(String),
    /// It may be decided yet; asking again with the same id tells.
    #[error("the command is not decided yet")]
    Pending,
    /// The same id was used for another request.
    #[error("this id was used for another request")]
    IdReused,
}

type Waiter = (Hash, oneshot::Sender<Result<Answer, AskError>>);

/// Who waits for which command.
pub struct Outcomes {
    waiting: Mutex<HashMap<CommandId, Vec<Waiter>>>,
    /// What the loop of each partition is asked.
    asked: Vec<Asked>,
}

type Asked = (mpsc::Sender<Question>, Mutex<Option<mpsc::Receiver<Question>>>);

/// What the loop of a partition knows, and others ask.
pub(crate) enum Question {
    /// Somebody has begun to wait for this command. A repeat of one leaves no record when another hub leads.
    Command(CommandId, StreamId),
    /// How these streams stand, when the journal has been read up to this offset at least.
    States(States),
}

/// See [`Question::States`].
pub(crate) struct States {
    pub(crate) streams: Vec<StreamId>,
    pub(crate) read: u64,
    pub(crate) tell: oneshot::Sender<Vec<(Entity, Head)>>,
}

/// Questions that the loop of a partition has not looked at yet, the most: one that is not looked at is not answered, and asked again.
const UNSEEN: usize = 4096;

/// SHA-256 of what a command asks: everything but its id, its times and its trace.
pub(crate) fn hash(command: &Command) -> Hash {
    let mut asked = command.clone();
    asked.id = CommandId(uuid::Uuid::nil());
    (asked.issued_at, asked.not_after, asked.trace_id) = (fleet_schemas::Timestamp(0), fleet_schemas::Timestamp(0), String::new());
    Hash::of(&fleet_schemas::encode(&asked))
}

impl Outcomes {
    /// Of so many partitions.
    pub(crate) fn new(partitions: u32) -> Self {
        let asked = |_| {
            let (tell, told) = mpsc::channel(UNSEEN);
            (tell, Mutex::new(Some(told)))
        };
        Self { waiting: Mutex::default(), asked: (0..partitions).map(asked).collect() }
    }

    /// Waits for `command`; to be called before it is appended.
    pub(crate) fn wait(&self, command: &Command, partition: u32) -> oneshot::Receiver<Result<Answer, AskError>> {
        let (tell, told) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(|e| e.into_inner());
        let waiters = waiting.entry(command.id).or_default();
        waiters.retain(|(_, tell)| !tell.is_closed());
        waiters.push((hash(command), tell));
        drop(waiting);
        if let Some((asked, _)) = self.asked.get(partition as usize) {
            // Full: the loop is behind; the decision itself, or the next repeat, tells.
            let _ = asked.try_send(Question::Command(command.id, command.stream.clone()));
        }
        told
    }

    /// How streams of a partition stand; see [`Question::States`].
    pub(crate) async fn states(&self, partition: u32, streams: Vec<StreamId>, read: u64) -> Option<Vec<(Entity, Head)>> {
        let (tell, told) = oneshot::channel();
        self.asked.get(partition as usize)?.0.send(Question::States(States { streams, read, tell })).await.ok()?;
        told.await.ok()
    }

    /// What is asked of `partition`: for its loop alone.
    pub(crate) fn asked(&self, partition: u32) -> Option<mpsc::Receiver<Question>> {
        self.asked.get(partition as usize)?.1.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// A decision was read back, or found in memory.
    pub(crate) fn tell(&self, command: CommandId, decided: &Remembered, repeated: bool) {
        let waiters = self.waiting.lock().unwrap_or_else(|e| e.into_inner()).remove(&command);
        for (ask_hash, tell) in waiters.unwrap_or_default() {
            let same = ask_hash == decided.ask_hash;
            let answer = if same { Ok(Answer { decided: decided.clone(), repeated }) } else { Err(AskError::IdReused) };
            // Who waited may have left.
            let _ = tell.send(answer);
        }
    }

    /// The same for a decision that memory has no room for.
    pub(crate) fn tell_decision(&self, decision: &Decision, at: (u32, u64)) {
        if let (Some(command), Some(ask_hash)) = (decision.cause.command, decision.cause.ask_hash) {
            let operation = decision.events.iter().any(|e| e.r#type == "OperationStarted").then(|| OperationId::of(decision.id, 0));
            let outcome: Arc<Outcome> = Arc::new(decision.outcome.clone());
            let decided = Remembered { ask_hash, outcome, decision: decision.id, version: decision.version, operation, at };
            self.tell(command, &decided, false);
        }
    }

    /// Forgets waiters that left.
    pub(crate) fn sweep(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(|e| e.into_inner());
        waiting.retain(|_, waiters| {
            waiters.retain(|(_, tell)| !tell.is_closed());
            !waiters.is_empty()
        });
    }
}

pub(crate) async fn answer(
    told: oneshot::Receiver<Result<Answer, AskError>>,
    appended: Fut<'static, Result<(), AppendError>>,
    patience: Duration,
) -> Result<Answer, AskError> {
    let decided = async {
        match appended.await {
            Err(AppendError::NotStored(why)) => Err(AskError::NotStored(why)),
            // Unknown: it may be there all the same, so wait for its decision.
            Ok(()) | Err(AppendError::Unknown(_)) => told.await.unwrap_or(Err(AskError::Pending)),
        }
    };
    tokio::time::timeout(patience, decided).await.unwrap_or(Err(AskError::Pending))
}
