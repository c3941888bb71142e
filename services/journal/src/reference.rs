//! Follows partition 0 of the journal and shows the sites and bootstrap configurations as confirmed.

use crate::{Config, Ledger};
use fleet_lifecycle::Reference;
use fleet_log::{Item, ReadError, ReadFault, Reader};
use fleet_schemas::{Micros, SECOND, Timestamp, topics as names};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Behind the end for longer than this, the reference counts as stale.
const PATIENCE: Micros = 5 * SECOND;
/// How often the end is looked at, and a failed reading begun anew.
const TICK: Duration = Duration::from_secs(1);

/// Runs until `cancel`. A broken partition 0 leaves the last reference standing, marked stale and broken; the others go on with safer
/// edges.
pub(crate) async fn follow(
    config: Config,
    publish: watch::Sender<Arc<Reference>>,
    cancel: CancellationToken,
) -> Result<(), fleet_log::Error> {
    let mut ledger = Ledger::new(0, config.rules);
    let at = config.topics.at(names::JOURNAL, 0);
    let mut behind_since: Option<Timestamp> = None;
    let mut reader = config.log.read(&[(at.clone(), 0)]);
    let mut broken = false;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            read = read_some(reader.as_mut(), &mut ledger), if !broken => match read {
                Ok(at_end) => {
                    if at_end {
                        behind_since = None;
                        show(&publish, &ledger, false, false);
                    }
                }
                Err(Trouble::Passing(why)) => {
                    tracing::warn!(why, "reading the reference is tried again");
                    tokio::time::sleep(TICK).await;
                    reader = config.log.read(&[(at.clone(), ledger.position.next)]);
                }
                Err(Trouble::Lasting(why)) => {
                    tracing::error!(why, "the reference can no longer be read");
                    broken = true;
                    show(&publish, &ledger, true, broken);
                }
            },
            () = tokio::time::sleep(TICK) => {
                // Where the end cannot be told, nobody knows that we are at it.
                let bounds = tokio::select! {
                    () = cancel.cancelled() => return Ok(()),
                    bounds = config.log.bounds(at.clone()) => bounds,
                };
                let behind = bounds.map_or(true, |b| b.end > ledger.position.next);
                let now = config.clock.now();
                behind_since = behind.then(|| behind_since.unwrap_or(now));
                if behind_since.is_some_and(|since| now.since(since) > PATIENCE) {
                    show(&publish, &ledger, true, broken);
                }
            }
        }
    }
}

enum Trouble {
    /// The store failed; it may come back.
    Passing(String),
    /// Nothing further may be believed.
    Lasting(String),
}

/// Reads what is there; true when the end was met. Cancel safe: a record is applied in the same step that takes it.
async fn read_some(reader: &mut dyn Reader, ledger: &mut Ledger) -> Result<bool, Trouble> {
    match reader.next().await {
        Ok(Item::Record(stored)) => ledger.apply(&stored).map(|_| false).map_err(Trouble::Lasting),
        Ok(Item::End { .. }) => Ok(true),
        Err(ReadError { fault: ReadFault::Io(why), .. }) => Err(Trouble::Passing(why)),
        Err(e) => Err(Trouble::Lasting(e.to_string())),
    }
}

/// Shows what guards may know; only at the end of what is there, so that a start does not show every step of the past.
fn show(publish: &watch::Sender<Arc<Reference>>, ledger: &Ledger, stale: bool, broken: bool) {
    let believed = ledger.streams.values().filter(|s| s.stopped.is_none()).map(|s| &s.entity);
    let now = Reference { next: ledger.position.next, stale, broken, claimed_at: ledger.claimed_at, ..Reference::of(believed) };
    publish.send_if_modified(|shown| {
        let differs = **shown != now;
        if differs {
            *shown = Arc::new(now);
        }
        differs
    });
}
