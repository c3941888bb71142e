//! What may be let go of the input topics: what was decided, and is older or more than the topic keeps.

use crate::{Config, Topics};
use fleet_schemas::{Inputs, MINUTE, Micros, Timestamp, topics as names};
use std::collections::VecDeque;

/// A mark is set at most this often.
const STEP: Micros = MINUTE;

/// Marks in one input partition: at this time, the next offset was this, and so many bytes had been read.
#[derive(Default)]
pub(crate) struct Marks {
    marks: VecDeque<(Timestamp, u64, u64)>,
    bytes: u64,
}

impl Marks {
    /// An input was passed.
    pub(crate) fn passed(&mut self, at: Timestamp, next: u64, bytes: usize) {
        self.bytes += bytes as u64;
        if self.marks.back().is_none_or(|(last, ..)| at.since(*last) >= STEP) {
            self.marks.push_back((at, next, self.bytes));
        }
    }

    /// The offset before which all may go; forgets the marks behind it.
    pub(crate) fn expired(&mut self, now: Timestamp, age: Option<Micros>, bytes: Option<u64>) -> Option<u64> {
        let mut before = None;
        while let Some((at, next, read)) = self.marks.front().copied() {
            let too_old = age.is_some_and(|a| now.since(at) > a);
            let too_much = bytes.is_some_and(|b| self.bytes - read >= b);
            if !too_old && !too_much {
                break;
            }
            before = Some(next);
            self.marks.pop_front();
        }
        before
    }
}

/// Lets go of the inputs of a partition that are older or more than their topics keep; never past what is accepted.
pub(crate) async fn trim(config: &Config, partition: u32, marks: &mut [Marks; 2], accepted: &Inputs, now: Timestamp) {
    let topics = [(names::COMMANDS, accepted.commands), (names::OBSERVATIONS, accepted.observations)];
    for (marks, (topic, accepted)) in marks.iter_mut().zip(topics) {
        let (age, bytes) = Topics::retention(topic);
        if let Some(before) = marks.expired(now, age, bytes)
            && let Err(error) = config.log.trim(config.topics.at(topic, partition), before.min(accepted)).await
        {
            tracing::warn!(%error, topic, "old inputs could not be let go");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_schemas::HOUR;

    #[test]
    fn what_is_old_or_too_much_goes_and_nothing_else() {
        let mut marks = Marks::default();
        for i in 0..100 {
            marks.passed(Timestamp(i * MINUTE), i as u64 + 1, 10);
        }
        assert_eq!(marks.expired(Timestamp(100 * MINUTE), Some(HOUR), None), Some(40));
        assert_eq!(marks.expired(Timestamp(100 * MINUTE), Some(HOUR), None), None);
        assert_eq!(marks.expired(Timestamp(100 * MINUTE), None, Some(300)), Some(70));
    }
}
