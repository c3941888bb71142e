//! What the log holds afterwards, against what was acknowledged.

use crate::harm::Harm;
use fleet_journal::{Applied, Ledger, Rules, Topics, replay};
use fleet_log::{EventLog, Item};
use fleet_schemas::{topics as names, *};
use fleet_tests::{Done, Fleet, redecide};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// What a partition's records add up to.
#[derive(Default)]
struct Found {
    decisions: BTreeSet<String>,
    by_command: HashMap<CommandId, u32>,
    dropped: u64,
    /// Claims that stood: when the log took them, and of which partition.
    claims: Vec<(i64, u32)>,
    again: u64,
    silent: u64,
}

/// `during` observations were acknowledged in `span`, while something was always harmed.
pub async fn count(fleet: &Fleet, harms: &[Harm], done: &Done, (span, during): (Duration, usize)) {
    let (log, topics) = fleet.log_of_hubs().await.unwrap();
    let (log, mut found) = (&*log, Found::default());
    let references = redecide::references(log, &topics).await.unwrap();
    for partition in 0..topics.partitions {
        one(log, &topics, partition, &references, &mut found).await;
    }
    let lost: Vec<_> = done.decisions.iter().filter(|(_, d)| !found.decisions.contains(*d)).collect();
    assert!(lost.is_empty(), "told, and not in the journal: {lost:?}");
    let twice: Vec<_> = found.by_command.iter().filter(|(_, n)| **n != 1).collect();
    assert!(twice.is_empty(), "decided more than once: {twice:?}");
    let stored = marks(log, &topics).await;
    let missing: Vec<_> = done.observed.difference(&stored).collect();
    assert!(missing.is_empty(), "acknowledged, and not in the log: {missing:?}");
    // The read model is one, whoever fed it.
    let text = fleet.manager(0, &["projections", "rebuild", "--config", "hub.toml"]).unwrap();
    assert!(text.contains("row for row the same"), "{text}");
    told(harms, done, &found, (span, during));
}

async fn one(log: &dyn EventLog, topics: &Topics, partition: u32, references: &redecide::References, found: &mut Found) {
    let (ledger, replayed) = replay::partition(log, topics, partition).await;
    assert!(replayed.sound(), "{replayed:?}");
    found.dropped += replayed.dropped;
    for (topic, accepted) in [(names::COMMANDS, ledger.inputs.commands), (names::OBSERVATIONS, ledger.inputs.observations)] {
        let end = log.bounds(topics.at(topic, partition)).await.unwrap().end;
        assert_eq!(accepted, end, "{topic}/{partition}: every input lies below the accepted position");
    }
    let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
    let mut audit = Ledger::new(partition, Rules::default());
    while let Item::Record(stored) = reader.next().await.unwrap() {
        let term = audit.position.term;
        let applied = audit.apply(&stored).unwrap();
        if let Applied::Decision(d) = applied {
            found.decisions.insert(d.id.to_string());
            if let Some(command) = d.cause.command {
                *found.by_command.entry(command).or_default() += 1;
            }
        }
        if audit.position.term > term {
            found.claims.push((stored.appended_at, partition));
        }
    }
    let checked = redecide::partition(log, topics, partition, references).await.unwrap();
    (found.again, found.silent) = (found.again + checked.decisions, found.silent + checked.silent);
}

/// The marks of the observations in the log.
async fn marks(log: &dyn EventLog, topics: &Topics) -> BTreeSet<String> {
    let mut marks = BTreeSet::new();
    for partition in 0..topics.partitions {
        let mut reader = log.read(&[(topics.at(names::OBSERVATIONS, partition), 0)]);
        while let Item::Record(stored) = reader.next().await.unwrap() {
            let observation = decode::<Observation>(&stored.record.value).unwrap();
            if let Ok(Fact::ConditionsSeen(seen)) = Fact::decode(&observation.fact) {
                marks.extend(seen.conditions.into_iter().map(|c| c.message));
            }
        }
    }
    marks
}

/// The figures of the run.
fn told(harms: &[Harm], done: &Done, found: &Found, (span, during): (Duration, usize)) {
    let mut takeovers: Vec<f64> = Vec::new();
    for harm in harms.iter().filter(|h| matches!(h.what, "kill hub" | "pause hub")) {
        // The first claim of each partition within a lease's time and the next harm.
        let mut first: HashMap<u32, i64> = HashMap::new();
        for (at, partition) in found.claims.iter().filter(|(at, _)| (harm.at..harm.at + 9_000_000).contains(at)) {
            let earliest = first.entry(*partition).or_insert(*at);
            *earliest = (*earliest).min(*at);
        }
        takeovers.extend(first.values().map(|at| (at - harm.at) as f64 / 1e6));
    }
    takeovers.sort_by(f64::total_cmp);
    let at = |share: f64| takeovers.get(((takeovers.len().max(1) - 1) as f64 * share) as usize).copied().unwrap_or_default();
    println!(
        "{} harms in {:.0} s; {} commands answered ({} refused, {} unknown at first and resolved), {} observations acknowledged ({:.0}/s over all the harms, {:.0}/s for the best 20 s; {} requests sent again)",
        harms.len(),
        span.as_secs_f64(),
        done.decisions.len(),
        done.refused,
        done.unknown,
        done.observed.len(),
        during as f64 / span.as_secs_f64(),
        done.sustained,
        done.resent,
    );
    println!(
        "longest time without an answered command {:.1} s; taken over after a kill or a pause: p50 {:.1} s, max {:.1} s ({} partitions); {} records dropped by the fence; {} decisions made again the same, {} silent inputs rightly so",
        done.longest.as_secs_f64(),
        at(0.5),
        at(1.0),
        takeovers.len(),
        found.dropped,
        found.again,
        found.silent,
    );
}
