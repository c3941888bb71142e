//! Reads a whole journal from its first record and verifies it: every chain, every number, every schema, every fold.

use crate::{Ledger, Rules, Topics, ledger::Applied};
use fleet_log::{EventLog, Item};
use fleet_schemas::topics as names;

/// What a replay found in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The partition.
    pub partition: u32,
    /// Records read.
    pub records: u64,
    /// Decisions accepted.
    pub decisions: u64,
    /// Records that the fence dropped.
    pub dropped: u64,
    /// Streams.
    pub streams: usize,
    /// Streams that forked, with the reason.
    pub forked: Vec<String>,
    /// Why the partition could not be read to its end.
    pub broken: Option<String>,
}

impl Found {
    /// Whether everything that was read may be believed.
    pub fn sound(&self) -> bool {
        self.forked.is_empty() && self.broken.is_none()
    }
}

/// Replays one partition up to the end that it has now.
pub async fn partition(log: &dyn EventLog, topics: &Topics, partition: u32) -> (Ledger, Found) {
    let mut ledger = Ledger::new(partition, Rules::default());
    let mut found = Found { partition, records: 0, decisions: 0, dropped: 0, streams: 0, forked: vec![], broken: None };
    let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
    loop {
        match reader.next().await {
            Ok(Item::End { .. }) => break,
            Err(e) => {
                found.broken = Some(e.to_string());
                break;
            }
            Ok(Item::Record(stored)) => {
                found.records += 1;
                match ledger.apply(&stored) {
                    Ok(Applied::Dropped) => found.dropped += 1,
                    Ok(Applied::Decision(_) | Applied::Other | Applied::Stopped(_)) => {}
                    Err(why) => {
                        found.broken = Some(why);
                        break;
                    }
                }
            }
        }
    }
    (found.decisions, found.streams) = (ledger.decisions, ledger.streams.len());
    found.forked = ledger.streams.iter().filter_map(|(id, s)| s.stopped.as_ref().map(|why| format!("{id}: {why}"))).collect();
    found.forked.sort();
    (ledger, found)
}
