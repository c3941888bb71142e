//! One partition: follow, claim, lead ([`lead`]), and again when overtaken.
//!
//! [`batch`] holds what is decided and not read back yet, [`judge`] turns one input into at most one decision, [`timers`] knows
//! which stream waits until when.

mod batch;
mod claim;
mod commit;
mod deadlines;
mod judge;
mod lead;
mod looks;
mod react;
mod stand_by;
mod tail;
mod timers;

use crate::{Config, Ledger, Outcomes, Turns};
use fleet_lifecycle::Reference;
use fleet_log::{AppendError, Fut, Reader};
use fleet_schemas::{BootId, Inputs, topics as names};
use std::{sync::Arc, time::Duration, time::Instant};
use tail::Tail;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How a partition is, as people and health checks see it.
#[derive(Clone, Debug)]
pub struct Status {
    /// The partition.
    pub partition: u32,
    /// What it is doing.
    pub phase: Phase,
    /// The standing term.
    pub term: u64,
    /// When its loop last went round.
    pub beat: Instant,
    /// When it last came further: read on, stood by, or led. A loop that asks the same again and again goes round, and does not.
    pub progress: Instant,
    /// Counters.
    pub stats: Stats,
}

/// What a partition is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reading up to the end.
    Following,
    /// Reading along; another hub leads.
    Standby,
    /// Waiting to read its own claim.
    Claiming,
    /// Deciding.
    Leading,
    /// Stopped for good; the text says why and what a person can do. The others go on.
    Stopped(String),
}

impl Phase {
    pub(crate) fn leads(&self) -> bool {
        matches!(self, Self::Leading)
    }
    /// On its way to lead.
    pub(crate) fn strives(&self) -> bool {
        matches!(self, Self::Following | Self::Claiming)
    }
}

/// Counters of a partition.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Decisions accepted, also those of the past.
    pub decisions: u64,
    /// Next command; whatever came of those before is decided.
    pub commands: u64,
    /// Next observation, likewise.
    pub observations: u64,
    /// Records dropped by the fence.
    pub fenced: u64,
    /// Streams.
    pub streams: usize,
    /// Claims that this loop won.
    pub claims: u64,
}

/// How long a leader waits for the reference that its partition's decisions rest on.
const PATIENCE: Duration = Duration::from_secs(30);
/// A loop goes round at least this often, so that health checks see it live.
pub(crate) const BEAT: Duration = Duration::from_secs(5);
/// Who led for so long, or decided anything, may claim at once again. Claims stand in the journal for ever.
const SETTLED: Duration = Duration::from_secs(10);

impl Status {
    pub(crate) fn new(partition: u32) -> Self {
        let now = Instant::now();
        Self { partition, phase: Phase::Following, term: 0, beat: now, progress: now, stats: Stats::default() }
    }
}

/// What ends a time of following or leading.
pub(crate) enum End {
    /// The process stops.
    Cancelled,
    /// Another hub is to lead it.
    GivenBack,
    /// Overtaken, or unsure of what was stored: drop what is speculative and claim again.
    SteppedDown(String),
    /// Nothing further of this partition may be believed.
    Stopped(String),
    /// The log does not answer: fail loudly, restart is the recovery.
    Fatal(String),
}

/// Everything that the loop of one partition has.
pub(crate) struct Desk {
    pub(crate) config: Config,
    pub(crate) partition: u32,
    pub(crate) boot: BootId,
    pub(crate) outcomes: Arc<Outcomes>,
    pub(crate) reference: watch::Receiver<Arc<Reference>>,
    pub(crate) turns: watch::Receiver<Arc<Turns>>,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) cancel: CancellationToken,
}

impl Desk {
    /// The loop lives, whatever it waits for.
    pub(crate) fn beat(&self) {
        self.status.send_modify(|s| s.beat = Instant::now());
    }

    /// The loop came further.
    pub(crate) fn progress(&self) {
        self.status.send_modify(|s| (s.beat, s.progress) = (Instant::now(), Instant::now()));
    }

    /// Whether it is this hub's turn to lead the partition.
    pub(crate) fn mine(&self) -> bool {
        self.turns.borrow().mine.contains(&self.partition)
    }

    /// Reads the inputs from where they were passed.
    fn inputs(&self, passed: &Inputs) -> Box<dyn Reader> {
        let at = |topic| self.config.topics.at(topic, self.partition);
        self.config.log.read(&[(at(names::COMMANDS), passed.commands), (at(names::OBSERVATIONS), passed.observations)])
    }

    /// The reference, at or past the highest position that accepted decisions of this partition rest on, or all that can be read of it.
    async fn reference(&self, needs: u64) -> Result<Arc<Reference>, End> {
        let (mut changes, begun) = (self.reference.clone(), Instant::now());
        loop {
            if !self.mine() {
                return Err(End::GivenBack);
            }
            if begun.elapsed() > PATIENCE {
                return Err(End::SteppedDown(format!("the reference did not come to offset {needs} within {} s", PATIENCE.as_secs())));
            }
            tokio::select! {
                () = self.cancel.cancelled() => return Err(End::Cancelled),
                found = changes.wait_for(|r| r.next >= needs || r.broken) => return found.map(|r| r.clone()).map_err(|_| End::Cancelled),
                () = tokio::time::sleep(BEAT) => self.progress(),
            }
        }
    }

    /// Waits before something is tried again, longer each time.
    pub(crate) async fn rest(&self, pause: &mut Duration) -> Result<(), End> {
        self.beat();
        tokio::select! {
            () = self.cancel.cancelled() => return Err(End::Cancelled),
            () = tokio::time::sleep(jitter(*pause)) => {}
        }
        *pause = (*pause * 2).min(BEAT);
        Ok(())
    }
}

/// What all partitions have in common.
pub(crate) struct Shared {
    pub(crate) outcomes: Arc<Outcomes>,
    pub(crate) reference: watch::Receiver<Arc<Reference>>,
    pub(crate) turns: watch::Receiver<Arc<Turns>>,
}

/// Follows and leads `partition` until `cancel`.
pub(crate) async fn run(
    config: Config,
    partition: u32,
    boot: BootId,
    Shared { outcomes, reference, turns }: Shared,
    status: watch::Sender<Status>,
    cancel: CancellationToken,
) -> Result<(), fleet_log::Error> {
    let desk = Desk { config, partition, boot, outcomes, reference, turns, status, cancel };
    let mut tail = Tail::new(&desk, Ledger::new(partition, desk.config.rules));
    let mut pause = Duration::from_millis(20);
    loop {
        let (begun, decisions) = (Instant::now(), tail.ledger.decisions);
        let end = match turn(&desk, &mut tail).await {
            Ok(end) | Err(end) => end,
        };
        if tail.ledger.decisions > decisions || begun.elapsed() > SETTLED {
            pause = Duration::from_millis(20);
        }
        match end {
            End::Cancelled => return Ok(()),
            End::GivenBack => {
                tracing::info!(partition, "another hub is to lead this partition");
                desk.status.send_modify(|s| s.phase = Phase::Following);
            }
            End::Fatal(why) => return Err(fleet_log::Error::Io(format!("partition {partition}: {why}"))),
            End::Stopped(why) => {
                tracing::error!(partition, why, "partition stopped; a person must look");
                metrics::gauge!("fm_partition_stopped", "partition" => partition.to_string()).set(1.0);
                desk.status.send_modify(|s| s.phase = Phase::Stopped(why));
                desk.cancel.cancelled().await;
                return Ok(());
            }
            End::SteppedDown(why) => {
                tracing::warn!(partition, why, "stepped down; claiming again");
                desk.status.send_modify(|s| s.phase = Phase::Following);
                tokio::time::sleep(jitter(pause)).await;
                pause = (pause * 2).min(BEAT);
            }
        }
    }
}

/// Stands by until it is our turn, claims, and leads.
async fn turn(desk: &Desk, tail: &mut Tail) -> Result<End, End> {
    stand_by::stand_by(desk, tail).await?;
    let claimed = claim::claim(desk, tail).await?;
    Ok(lead::lead(desk, tail, claimed).await)
}

/// Repeats a determinate failure in place, with growing pauses, for as long as it takes. What may have been stored is stored again:
/// only for records that bear repeating.
pub(crate) async fn retry(desk: &Desk, mut append: impl FnMut() -> Fut<'static, Result<(), AppendError>>) -> Result<(), End> {
    let mut pause = Duration::from_millis(50);
    while let Err(error) = append().await {
        tracing::warn!(%error, "an append is tried again");
        // What is kept for later is not stuck: it goes out when the log takes it.
        desk.progress();
        desk.rest(&mut pause).await?;
    }
    Ok(())
}

/// Between half and all of `pause`.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(rand::random_range(0.5..1.0))
}
