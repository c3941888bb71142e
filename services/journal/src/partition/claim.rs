//! Claiming: append a claim, and lead when it has been read back as the first of its term.

use super::{Desk, End, Phase, tail::Tail};
use fleet_log::{AppendError, Record};
use fleet_schemas::{Claim, JournalRecord, Timestamp, topics as names};
use std::time::{Duration, Instant};

/// Catching up makes progress, or the process fails loudly.
const NO_PROGRESS: Duration = Duration::from_secs(30);

/// A term that is ours.
pub(crate) struct Claimed {
    pub(crate) term: u64,
    /// When it was claimed, by the clock and by the machine's own count of time.
    pub(crate) at: (Timestamp, Instant),
}

/// Reads to the end, claims, and reads until the claim is met. Catching up means having read one's own claim, never "position = end".
pub(crate) async fn claim(desk: &Desk, tail: &mut Tail) -> Result<Claimed, End> {
    let mut moved = catch_up(desk, tail).await?;
    let term = tail.ledger.position.term + 1;
    desk.status.send_modify(|s| s.phase = Phase::Claiming);
    let at = (desk.config.clock.now(), Instant::now());
    put(desk, Claim { term, leader: Some(desk.boot), recorded_at: at.0 }).await?;
    loop {
        let standing = tail.ledger.position.term;
        if standing == term && tail.ledger.position.claimant == Some(desk.boot) {
            metrics::counter!("fm_leader_claims_total", "result" => "won").increment(1);
            return Ok(Claimed { term, at });
        }
        if standing >= term {
            metrics::counter!("fm_leader_claims_total", "result" => "lost").increment(1);
            return Err(End::SteppedDown(format!("term {standing} went to another")));
        }
        step(desk, tail, &mut moved).await?;
    }
}

/// Reads up to the end that there is now.
pub(crate) async fn catch_up(desk: &Desk, tail: &mut Tail) -> Result<Moved, End> {
    desk.status.send_modify(|s| s.phase = Phase::Following);
    let end = end(desk).await?;
    let mut moved = Moved::new(tail);
    while tail.ledger.position.next < end {
        step(desk, tail, &mut moved).await?;
    }
    Ok(moved)
}

async fn end(desk: &Desk) -> Result<u64, End> {
    let until = tokio::time::Instant::now() + NO_PROGRESS;
    let mut pause = Duration::from_millis(100);
    loop {
        let bounds = desk.config.log.bounds(desk.config.topics.at(names::JOURNAL, desk.partition));
        let bounds = tokio::select! {
            () = desk.cancel.cancelled() => return Err(End::Cancelled),
            bounds = tokio::time::timeout_at(until, bounds) => bounds,
        };
        match bounds {
            Ok(Ok(bounds)) => return Ok(bounds.end),
            Ok(Err(error)) if tokio::time::Instant::now() > until => return Err(End::Fatal(error.to_string())),
            Ok(Err(error)) => {
                tracing::warn!(partition = desk.partition, %error, "where the journal ends is asked again");
                desk.rest(&mut pause).await?;
            }
            Err(_) => return Err(End::Fatal("the log does not say where the journal ends".into())),
        }
    }
}

async fn put(desk: &Desk, claim: Claim) -> Result<(), End> {
    let value = JournalRecord::Claim(claim).encode().into();
    let record = Record { key: format!("claim/{}", desk.partition).into(), value };
    let at = desk.config.topics.at(names::JOURNAL, desk.partition);
    let mut pause = Duration::from_millis(50);
    loop {
        match desk.config.append(at.clone(), vec![record.clone()]).await {
            Ok(()) => return Ok(()),
            // It may stand there all the same; a second one of the same term would only be dropped.
            Err(AppendError::Unknown(why)) => return Err(End::SteppedDown(format!("the claim may be lost: {why}"))),
            Err(AppendError::NotStored(why)) => {
                tracing::warn!(partition = desk.partition, why, "the claim is tried again");
                desk.rest(&mut pause).await?;
            }
        }
    }
}

/// When reading last came further.
pub(crate) struct Moved {
    next: u64,
    at: Instant,
}

impl Moved {
    fn new(tail: &Tail) -> Self {
        Self { next: tail.ledger.position.next, at: Instant::now() }
    }
}

async fn step(desk: &Desk, tail: &mut Tail, moved: &mut Moved) -> Result<(), End> {
    desk.beat();
    let left = NO_PROGRESS.saturating_sub(moved.at.elapsed());
    tokio::select! {
        biased;
        () = desk.cancel.cancelled() => return Err(End::Cancelled),
        met = tail.step(desk) => { met?; }
        () = tokio::time::sleep(left) => {}
    }
    if tail.ledger.position.next > moved.next {
        *moved = Moved::new(tail);
    } else if moved.at.elapsed() >= NO_PROGRESS {
        let why = format!("catching up with the journal made no progress for {} s: the log does not answer", NO_PROGRESS.as_secs());
        return Err(End::Fatal(why));
    }
    Ok(())
}
