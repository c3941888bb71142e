//! One batch in flight: append it, and read it back. Only then is anybody told.

use super::{Desk, End, jitter, tail::Tail};
use fleet_log::{AppendError, Record};
use fleet_schemas::topics as names;
use std::time::{Duration, Instant};

/// Returns when every record stands accepted in the journal.
pub(super) async fn commit(desk: &Desk, tail: &mut Tail, term: u64, records: &[Record]) -> Result<(), End> {
    let started = Instant::now();
    let deadline = tokio::time::Instant::now() + desk.config.read_back;
    let until = tail.standing(desk, term)? + records.len() as u64;
    let mut pause = Duration::from_millis(20);
    let at = desk.config.topics.at(names::JOURNAL, desk.partition);
    loop {
        match tokio::time::timeout_at(deadline, desk.config.log.append(at.clone(), records.to_vec())).await {
            Ok(Ok(())) => break,
            Ok(Err(AppendError::Unknown(why))) => return Err(End::SteppedDown(why)),
            Err(_) => return Err(End::SteppedDown("the log did not acknowledge in time".into())),
            Ok(Err(AppendError::NotStored(why))) => {
                if desk.cancel.is_cancelled() || tokio::time::Instant::now() > deadline {
                    return Err(End::SteppedDown(why));
                }
                tracing::warn!(partition = desk.partition, why, "a batch is tried again");
                tokio::time::sleep(jitter(pause)).await;
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        }
    }
    while tail.standing(desk, term)? < until {
        tokio::time::timeout_at(deadline, tail.step(desk))
            .await
            .map_err(|_| End::SteppedDown("what was appended was not read back in time".into()))??;
    }
    metrics::histogram!("fm_journal_append_seconds").record(started.elapsed().as_secs_f64());
    Ok(())
}
