//! Reading: each partition from a source of its own until its end is reached, and from then on with whoever else reads it.

use super::consumers::Consumers;
use super::feed::{Feeds, Joined, Looked, Member};
use super::source::{IDLE, Source, Where};
use crate::port::{Fut, Item, Offset, ReadError, ReadFault, Reader, Stored, TopicPartition};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) struct KafkaReader {
    consumers: Arc<Consumers>,
    feeds: Arc<Feeds>,
    lanes: Vec<Lane>,
    turn: usize,
    ready: VecDeque<Result<Item, ReadError>>,
    notify: Arc<Notify>,
}

/// A partition, its topic's name on the wire and whether it is dense, where it is known; and where to begin.
pub(super) type From = (TopicPartition, Option<(String, bool)>, Offset);

struct Lane {
    place: Where,
    next: Offset,
    told_end: bool,
    by: By,
}

/// How a partition is read.
enum By {
    Own(Box<Source>),
    Shared(Member),
    /// A fault was told; nothing more of this partition.
    Failed,
}

impl KafkaReader {
    pub(super) fn new(consumers: Arc<Consumers>, feeds: Arc<Feeds>, from: Vec<From>) -> Self {
        let (notify, mut ready) = (Arc::new(Notify::new()), VecDeque::new());
        let mut lanes = Vec::new();
        for (at, known, next) in from {
            let Some((topic, dense)) = known else {
                ready.push_back(Err(ReadError { at, fault: ReadFault::Io("no such partition".into()) }));
                continue;
            };
            let place = Where { at, topic, dense };
            let by = By::Own(Box::new(Source::new(&consumers, place.clone(), next, &notify)));
            lanes.push(Lane { place, next, told_end: false, by });
        }
        Self { consumers, feeds, lanes, turn: 0, ready, notify }
    }

    /// One look at each partition, beginning with another one each time, until something is ready.
    fn look(&mut self) {
        for _ in 0..self.lanes.len() {
            self.turn = (self.turn + 1) % self.lanes.len();
            let lane = &mut self.lanes[self.turn];
            if let Err(fault) = lane.look(&self.consumers, &self.feeds, &self.notify, &mut self.ready) {
                lane.by = By::Failed;
                self.ready.push_back(Err(ReadError { at: lane.place.at.clone(), fault }));
            }
            if !self.ready.is_empty() {
                return;
            }
        }
    }
}

impl Lane {
    fn look(
        &mut self,
        consumers: &Arc<Consumers>,
        feeds: &Feeds,
        notify: &Arc<Notify>,
        ready: &mut VecDeque<Result<Item, ReadError>>,
    ) -> Result<(), ReadFault> {
        let (from, next, told_end) = (self.next, &mut self.next, &mut self.told_end);
        let give = |stored: Stored| {
            (*next, *told_end) = (stored.offset + 1, false);
            ready.push_back(Ok(Item::Record(stored)));
        };
        let ended = match &mut self.by {
            By::Own(source) => {
                source.pump(consumers, give)?;
                source.ended.filter(|ended| *ended == source.next)
            }
            By::Shared(member) => match member.look(consumers, from, give)? {
                Looked::Level(ended) => ended,
                Looked::Behind => {
                    self.by = By::Own(Box::new(Source::new(consumers, self.place.clone(), self.next, notify)));
                    return Ok(());
                }
            },
            By::Failed => return Ok(()),
        };
        if ended.is_some() && !std::mem::replace(&mut self.told_end, true) {
            ready.push_back(Ok(Item::End { at: self.place.at.clone(), next: self.next }));
        }
        if ended.is_some() {
            self.share(consumers, feeds, notify);
        }
        Ok(())
    }

    /// One that has come to the end reads with the others.
    fn share(&mut self, consumers: &Arc<Consumers>, feeds: &Feeds, notify: &Arc<Notify>) {
        self.by = match std::mem::replace(&mut self.by, By::Failed) {
            By::Own(source) => match feeds.join(&self.place.at, source, consumers, notify) {
                Joined::In(member) => By::Shared(member),
                Joined::Alone(source) => By::Own(source),
            },
            by => by,
        };
    }
}

impl Reader for KafkaReader {
    fn next(&mut self) -> Fut<'_, Result<Item, ReadError>> {
        Box::pin(async move {
            loop {
                if let Some(item) = self.ready.pop_front() {
                    return item;
                }
                self.look();
                if self.ready.is_empty() {
                    let notify = self.notify.clone();
                    // The time is up when a silent partition is to be asked about.
                    let _ = tokio::time::timeout(IDLE, notify.notified()).await;
                }
            }
        })
    }
}
