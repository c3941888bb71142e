//! Claiming: append a claim, and lead when it has been read back as the first of its term.

use super::{Desk, End, Phase, tail::Tail};
use fleet_log::{AppendError, Record};
use fleet_schemas::{Claim, JournalRecord, Timestamp, topics as names};
use std::time::{Duration, Instant};

/// A log that says nothing for so long while it is caught up with, neither a record nor what it lacks, hangs: the process fails loudly.
const SILENCE: Duration = Duration::from_secs(30);

/// A term that is ours.
pub(crate) struct Claimed {
    pub(crate) term: u64,
    /// When it was claimed, by the clock and by the machine's own count of time.
    pub(crate) at: (Timestamp, Instant),
}

/// Reads to the end, claims, and reads until the claim is met. Catching up means having read one's own claim, never "position = end".
pub(crate) async fn claim(desk: &Desk, tail: &mut Tail) -> Result<Claimed, End> {
    catch_up(desk, tail).await?;
    if !desk.mine() {
        return Err(End::GivenBack);
    }
    let term = tail.ledger.position.term + 1;
    desk.status.send_modify(|s| s.phase = Phase::Claiming);
    let at = (desk.config.clock.now(), Instant::now());
    put(desk, Claim { term, leader: Some(desk.boot), recorded_at: at.0 }).await?;
    let sent = Instant::now();
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
        step(desk, tail, sent).await?;
    }
}

/// Reads up to the end that there is now.
pub(crate) async fn catch_up(desk: &Desk, tail: &mut Tail) -> Result<(), End> {
    desk.status.send_modify(|s| s.phase = Phase::Following);
    let (end, begun) = (end(desk).await?, Instant::now());
    while tail.ledger.position.next < end {
        step(desk, tail, begun).await?;
    }
    Ok(())
}

/// Asked for as long as the log answers that it cannot tell: a broker that is away comes back. One that says nothing at all is another
/// matter.
async fn end(desk: &Desk) -> Result<u64, End> {
    let mut pause = Duration::from_millis(100);
    loop {
        let bounds = desk.config.log.bounds(desk.config.topics.at(names::JOURNAL, desk.partition));
        match desk.cancel.run_until_cancelled(tokio::time::timeout(SILENCE, bounds)).await {
            None => return Err(End::Cancelled),
            Some(Ok(Ok(bounds))) => return Ok(bounds.end),
            Some(Ok(Err(error))) => {
                tracing::warn!(partition = desk.partition, %error, "where the journal ends is asked again");
                desk.rest(&mut pause).await?;
            }
            Some(Err(_)) => return Err(End::Fatal("the log does not say where the journal ends".into())),
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

/// Reads on. Whatever the log says is an answer, also that it cannot be read just now: it is asked again. But only what is read is
/// progress: a hub that has none for a while does not say that it leads.
async fn step(desk: &Desk, tail: &mut Tail, begun: Instant) -> Result<(), End> {
    desk.beat();
    let left = SILENCE.saturating_sub(tail.heard.max(begun).elapsed());
    let before = tail.ledger.position.next;
    tokio::select! {
        biased;
        () = desk.cancel.cancelled() => return Err(End::Cancelled),
        met = tail.step(desk) => met?,
        // After a pause of the whole process there is something to be heard first.
        () = tokio::time::sleep(left.max(Duration::from_secs(1))) => {
            let why = format!("catching up with the journal made no progress for {} s: the log does not answer", SILENCE.as_secs());
            return Err(End::Fatal(why));
        }
    }
    if tail.ledger.position.next > before {
        desk.progress();
    }
    Ok(())
}
