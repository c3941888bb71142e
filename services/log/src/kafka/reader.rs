//! Reading: a seat in a consumer for each partition, and what its queue holds.

use super::consumers::{Consumers, Seat};
use crate::port::{Error, Fut, Item, Offset, ReadError, ReadFault, Reader, Record, Stored, TopicPartition};
use bytes::Bytes;
use rdkafka::Message;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot, oneshot::error::TryRecvError};
use tokio::time::Instant;

/// Records taken from one queue before the next one is looked at.
const BATCH: usize = 500;
/// A partition that brings nothing for so long is asked about: consumers have been known to stall.
const IDLE: Duration = Duration::from_secs(15);

pub(super) struct KafkaReader {
    consumers: Arc<Consumers>,
    lanes: Vec<Lane>,
    turn: usize,
    ready: VecDeque<Result<Item, ReadError>>,
    notify: Arc<Notify>,
}

/// A partition, its topic's name on the wire and whether it is dense, where it is known; and where to begin.
pub(super) type From = (TopicPartition, Option<(String, bool)>, Offset);

struct Lane {
    at: TopicPartition,
    /// Name on the wire.
    topic: String,
    /// Whether a missing offset is a fault: of a compacted topic it is not.
    dense: bool,
    next: Offset,
    told_end: bool,
    seat: Place,
    /// When something last came, or was asked about.
    heard: Instant,
    /// It was found to lack something, and what it would read next then: a consumer whose broker has just come back is given time.
    suspect: Option<Offset>,
    /// The end of the partition, being asked for.
    asking: Option<oneshot::Receiver<Result<std::ops::Range<Offset>, Error>>>,
}

enum Place {
    Finding(oneshot::Receiver<Result<Seat, ReadFault>>),
    Found(Seat),
    /// A fault was told; nothing more of this partition.
    Failed,
}

impl KafkaReader {
    pub(super) fn new(consumers: Arc<Consumers>, from: Vec<From>) -> Self {
        let (notify, mut ready) = (Arc::new(Notify::new()), VecDeque::new());
        let mut lanes = Vec::new();
        for (at, known, next) in from {
            let Some((topic, dense)) = known else {
                ready.push_back(Err(ReadError { at, fault: ReadFault::Io("no such partition".into()) }));
                continue;
            };
            let seat = find(&consumers, &notify, &at, &topic, next);
            lanes.push(Lane { at, topic, dense, next, told_end: false, seat, heard: Instant::now(), suspect: None, asking: None });
        }
        Self { consumers, lanes, turn: 0, ready, notify }
    }

    /// One look at each partition, beginning with another one each time, until something is ready.
    fn look(&mut self) {
        for _ in 0..self.lanes.len() {
            self.turn = (self.turn + 1) % self.lanes.len();
            let lane = &mut self.lanes[self.turn];
            if let Err(fault) = lane.look(&self.consumers, &self.notify, &mut self.ready) {
                lane.seat = Place::Failed;
                self.ready.push_back(Err(ReadError { at: lane.at.clone(), fault }));
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
        notify: &Arc<Notify>,
        ready: &mut VecDeque<Result<Item, ReadError>>,
    ) -> Result<(), ReadFault> {
        if let Place::Finding(finding) = &mut self.seat {
            let found = match finding.try_recv() {
                Ok(found) => found?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Closed) => return Err(ReadFault::Io("looking for a place in the partition panicked".into())),
            };
            self.seat = Place::Found(found);
            self.heard = Instant::now();
        }
        if !matches!(self.seat, Place::Found(_)) {
            return Ok(());
        }
        let again = self.drain(ready)?;
        if again {
            self.find_anew(consumers, notify);
            return Ok(());
        }
        self.watch(consumers, notify);
        Ok(())
    }

    /// The seat is given back first: the same partition may be had of the same consumer again.
    fn find_anew(&mut self, consumers: &Arc<Consumers>, notify: &Arc<Notify>) {
        self.seat = Place::Failed;
        self.seat = find(consumers, notify, &self.at, &self.topic, self.next);
    }

    /// Takes what the queue has. True = the place in the partition is no longer the consumer's, and is to be found again.
    fn drain(&mut self, ready: &mut VecDeque<Result<Item, ReadError>>) -> Result<bool, ReadFault> {
        let Place::Found(seat) = &self.seat else { return Ok(false) };
        let Some(queue) = seat.queue() else { return Ok(false) };
        let until = ready.len() + BATCH;
        while ready.len() < until {
            match queue.poll(Duration::ZERO) {
                None => return Ok(false),
                Some(Ok(message)) => {
                    let offset = message.offset() as Offset;
                    // Of an assignment before this one.
                    if offset < self.next {
                        continue;
                    }
                    if offset > self.next && self.dense {
                        return Err(ReadFault::Gap { wanted: self.next, found: offset });
                    }
                    (self.next, self.told_end, self.heard) = (offset + 1, false, Instant::now());
                    ready.push_back(Ok(Item::Record(stored(&self.at, &message))));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    self.heard = Instant::now();
                    if !std::mem::replace(&mut self.told_end, true) {
                        ready.push_back(Ok(Item::End { at: self.at.clone(), next: self.next }));
                    }
                }
                Some(Err(error)) => match error.rdkafka_error_code() {
                    // Said once, then nothing more: ask where the partition begins and ends, and begin anew.
                    Some(RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange) => return Ok(true),
                    Some(RDKafkaErrorCode::BadMessage | RDKafkaErrorCode::BadCompression) => {
                        return Err(ReadFault::Corrupt(error.to_string()));
                    }
                    _ => return Err(ReadFault::Io(error.to_string())),
                },
            }
        }
        Ok(false)
    }

    /// A partition that is silent: is there something that the consumer does not bring?
    fn watch(&mut self, consumers: &Arc<Consumers>, notify: &Arc<Notify>) {
        let answer = self.asking.as_mut().map(oneshot::Receiver::try_recv);
        if let Some(Ok(_) | Err(TryRecvError::Closed)) = answer {
            self.asking = None;
            if self.heard.elapsed() >= IDLE
                && let Some(Ok(Ok(bounds))) = answer
                && bounds.end > self.next
                && self.suspect.replace(self.next) == Some(self.next)
            {
                self.suspect = None;
                tracing::warn!(at = %self.at, next = self.next, end = bounds.end, "a consumer stalled; another one takes its place");
                metrics::counter!("fm_log_stalls_total").increment(1);
                if let Place::Found(seat) = &self.seat {
                    seat.shun();
                }
                self.find_anew(consumers, notify);
            }
            self.heard = Instant::now();
        } else if self.asking.is_none() && self.heard.elapsed() >= IDLE {
            let (consumers, topic, partition, wake) = (consumers.clone(), self.topic.clone(), self.at.partition, notify.clone());
            let (tell, told) = oneshot::channel();
            tokio::task::spawn_blocking(move || {
                // The reader may be gone.
                let _ = tell.send(consumers.bounds(&topic, partition));
                wake.notify_one();
            });
            self.asking = Some(told);
        }
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

/// Finds a place: the bounds say whether there is one, since a consumer would only say that its offset is out of range.
fn find(consumers: &Arc<Consumers>, notify: &Arc<Notify>, at: &TopicPartition, topic: &str, next: Offset) -> Place {
    let (consumers, notify, at, topic) = (consumers.clone(), notify.clone(), at.clone(), topic.to_owned());
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Where the reader is gone the seat is given back here.
        let _ = tell.send(place(&consumers, &notify, &at, &topic, next));
        notify.notify_one();
    });
    Place::Finding(told)
}

fn place(consumers: &Consumers, notify: &Arc<Notify>, at: &TopicPartition, topic: &str, next: Offset) -> Result<Seat, ReadFault> {
    let io = |e: Error| ReadFault::Io(e.to_string());
    let mut bounds = consumers.bounds(topic, at.partition).map_err(io)?;
    if next > bounds.end {
        // A broker that has just become the leader may not know yet how far its followers are.
        std::thread::sleep(Duration::from_secs(1));
        bounds = consumers.bounds(topic, at.partition).map_err(io)?;
    }
    match () {
        () if next < bounds.start => Err(ReadFault::Gone { wanted: next, start: bounds.start }),
        () if next > bounds.end => Err(ReadFault::BeyondEnd { wanted: next, end: bounds.end }),
        () => consumers.seat(at, topic, next, notify).map_err(io),
    }
}

fn stored(at: &TopicPartition, message: &BorrowedMessage<'_>) -> Stored {
    let bytes = |b: Option<&[u8]>| b.map_or_else(Bytes::new, Bytes::copy_from_slice);
    let record = Record { key: bytes(message.key()), value: bytes(message.payload()) };
    let appended_at = message.timestamp().to_millis().unwrap_or_default() * 1000;
    Stored { at: at.clone(), offset: message.offset() as Offset, appended_at, record }
}
