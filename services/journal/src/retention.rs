//! What may be let go of the topics that are not the journal: what was decided, and is older or more than the topic keeps.

use crate::{Config, Topics};
use fleet_log::{Error, EventLog, Item, Offset, TopicPartition};
use fleet_schemas::{Inputs, Micros, Timestamp, topics as names};

/// Records that are looked at to find where the old ones end: what is let go is exact to this share of what there is.
const SAMPLES: u64 = 32;

/// Lets go of the inputs of a partition, never past what is accepted; the leader of partition 0 does the same for what was parked.
pub(crate) async fn trim(config: &Config, partition: u32, accepted: &Inputs, now: Timestamp) {
    let mut topics = vec![(names::COMMANDS, accepted.commands), (names::OBSERVATIONS, accepted.observations)];
    if partition == 0 {
        topics.push((names::PARKED, u64::MAX));
    }
    for (topic, upto) in topics {
        let (at, keeps) = (config.topics.at(topic, partition), Topics::retention(topic));
        if let Err(error) = one(&*config.log, at, upto, keeps, now).await {
            tracing::warn!(%error, topic, partition, "old inputs could not be let go");
        }
    }
}

async fn one(
    log: &dyn EventLog,
    at: TopicPartition,
    upto: Offset,
    keeps: (Option<Micros>, Option<u64>),
    now: Timestamp,
) -> Result<(), Error> {
    let bounds = log.bounds(at.clone()).await?;
    let there = bounds.start..bounds.end.min(upto);
    let mut samples = Vec::new();
    for offset in sampled(&there) {
        if let Ok(Item::Record(stored)) = log.read(&[(at.clone(), offset)]).next().await {
            samples.push((stored.offset, Timestamp(stored.appended_at), stored.record.value.len() as u64));
        }
    }
    let before = expired(&samples, there.end, keeps, now);
    if before > there.start { log.trim(at, before).await } else { Ok(()) }
}

fn sampled(there: &std::ops::Range<Offset>) -> impl Iterator<Item = Offset> + use<> {
    let step = (there.end.saturating_sub(there.start) / SAMPLES).max(1) as usize;
    there.clone().step_by(step)
}

/// The offset before which all may go, by samples of (offset, appended at, bytes) in their order.
fn expired(samples: &[(Offset, Timestamp, u64)], end: Offset, (age, bytes): (Option<Micros>, Option<u64>), now: Timestamp) -> Offset {
    let too_old = age.and_then(|age| samples.iter().take_while(|(_, at, _)| now.since(*at) > age).last());
    let mean = samples.iter().map(|(.., bytes)| bytes).sum::<u64>() / (samples.len() as u64).max(1);
    let too_much = bytes.map_or(0, |most| end.saturating_sub(most / mean.max(1)));
    too_old.map_or(0, |(offset, ..)| *offset).max(too_much)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_schemas::{HOUR, MINUTE};

    #[test]
    fn what_is_old_or_too_much_goes_and_nothing_else() {
        let samples: Vec<_> = (0..10).map(|i| (i * 10, Timestamp(i as i64 * 10 * MINUTE), 10)).collect();
        let now = Timestamp(100 * MINUTE);
        assert_eq!(expired(&samples, 100, (Some(HOUR), None), now), 30, "the sample of 40 minutes is not older than an hour");
        assert_eq!(expired(&samples, 100, (Some(3 * HOUR), None), now), 0);
        assert_eq!(expired(&samples, 100, (None, Some(300)), now), 70);
        assert_eq!(expired(&samples, 100, (Some(HOUR), Some(900)), now), 30);
        assert_eq!(expired(&[], 0, (Some(HOUR), Some(900)), now), 0);
    }
}
