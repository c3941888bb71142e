//! What one place in a partition brings: a seat in a consumer, found anew where it was lost or does not deliver.

use super::consumers::{Consumers, Seat};
use crate::port::{Error, Offset, ReadFault, Record, Stored, TopicPartition};
use bytes::Bytes;
use rdkafka::Message;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, oneshot, oneshot::error::TryRecvError};
use tokio::time::Instant;

/// Records taken from the queue at once.
pub(super) const BATCH: usize = 500;
/// A partition that brings nothing for so long is asked about: consumers have been known to stall.
pub(super) const IDLE: Duration = Duration::from_secs(15);

/// Where a source is, by its name on the wire too.
#[derive(Clone)]
pub(super) struct Where {
    pub(super) at: TopicPartition,
    pub(super) topic: String,
    /// Whether a missing offset is a fault: of a compacted topic it is not.
    pub(super) dense: bool,
}

/// Who is woken when something comes.
#[derive(Clone, Default)]
pub(super) struct Wakers(Arc<Mutex<Vec<Arc<Notify>>>>);

impl Wakers {
    pub(super) fn add(&self, notify: &Arc<Notify>) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).push(notify.clone());
    }

    /// Takes one away; gives how many are left.
    pub(super) fn remove(&self, notify: &Arc<Notify>) -> usize {
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(at) = all.iter().position(|n| Arc::ptr_eq(n, notify)) {
            all.swap_remove(at);
        }
        all.len()
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).len()
    }

    pub(super) fn wake(&self) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).iter().for_each(|n| n.notify_one());
    }
}

/// See the module.
pub(super) struct Source {
    place: Where,
    /// What comes next.
    pub(super) next: Offset,
    /// Where the partition was last seen to end.
    pub(super) ended: Option<Offset>,
    pub(super) wakers: Wakers,
    seat: Place,
    /// When something last came, or was asked about.
    heard: Instant,
    /// It was found to lack something, and what it would read next then: a consumer whose broker has just come back is given time.
    suspect: Option<Offset>,
    /// The end of the partition, being asked for.
    asking: Option<oneshot::Receiver<Result<Range<Offset>, Error>>>,
}

enum Place {
    Finding(oneshot::Receiver<Result<Seat, ReadFault>>),
    Found(Seat),
    /// Between two.
    None,
}

impl Source {
    /// From `next` on; `notify` is woken.
    pub(super) fn new(consumers: &Arc<Consumers>, place: Where, next: Offset, notify: &Arc<Notify>) -> Self {
        let wakers = Wakers::default();
        wakers.add(notify);
        let mut source = Self { place, next, ended: None, wakers, seat: Place::None, heard: Instant::now(), suspect: None, asking: None };
        source.find(consumers);
        source
    }

    /// Takes what there is, some [`BATCH`] records at the most.
    pub(super) fn pump(&mut self, consumers: &Arc<Consumers>, mut take: impl FnMut(Stored)) -> Result<(), ReadFault> {
        if let Place::Finding(finding) = &mut self.seat {
            let found = match finding.try_recv() {
                Ok(found) => found?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Closed) => return Err(ReadFault::Io("looking for a place in the partition panicked".into())),
            };
            self.seat = Place::Found(found);
            self.heard = Instant::now();
        }
        if self.drain(&mut take)? {
            self.find(consumers);
        } else {
            self.watch(consumers);
        }
        Ok(())
    }

    /// Fetches nothing more.
    pub(super) fn let_go(&mut self) {
        self.seat = Place::None;
    }

    /// Up to an end, where it meets one, or to [`BATCH`] records. True = the place in the partition is no longer the consumer's, and is to be found again.
    fn drain(&mut self, take: &mut impl FnMut(Stored)) -> Result<bool, ReadFault> {
        let Place::Found(seat) = &self.seat else { return Ok(false) };
        let Some(queue) = seat.queue() else { return Ok(false) };
        let mut taken = 0;
        while taken < BATCH {
            match queue.poll(Duration::ZERO) {
                None => return Ok(false),
                Some(Ok(message)) => {
                    let offset = message.offset() as Offset;
                    // Of an assignment before this one.
                    if offset < self.next {
                        continue;
                    }
                    if offset > self.next && self.place.dense {
                        return Err(ReadFault::Gap { wanted: self.next, found: offset });
                    }
                    (self.next, self.heard, taken) = (offset + 1, Instant::now(), taken + 1);
                    take(stored(&self.place.at, &message));
                }
                Some(Err(KafkaError::PartitionEOF(_))) => {
                    (self.heard, self.ended) = (Instant::now(), Some(self.next));
                    // Said before what comes behind it; and a queue that is not empty calls nobody.
                    self.wakers.wake();
                    return Ok(false);
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
    fn watch(&mut self, consumers: &Arc<Consumers>) {
        let answer = self.asking.as_mut().map(oneshot::Receiver::try_recv);
        if let Some(Ok(_) | Err(TryRecvError::Closed)) = answer {
            self.asking = None;
            if self.heard.elapsed() >= IDLE
                && let Some(Ok(Ok(bounds))) = answer
                && bounds.end > self.next
                && self.suspect.replace(self.next) == Some(self.next)
            {
                self.suspect = None;
                tracing::warn!(at = %self.place.at, next = self.next, end = bounds.end, "a consumer stalled; another one takes its place");
                metrics::counter!("fm_log_stalls_total").increment(1);
                if let Place::Found(seat) = &self.seat {
                    seat.shun();
                }
                self.find(consumers);
            }
            self.heard = Instant::now();
        } else if self.asking.is_none() && self.heard.elapsed() >= IDLE {
            let (consumers, place, wakers) = (consumers.clone(), self.place.clone(), self.wakers.clone());
            self.asking = Some(aside(move || consumers.bounds(&place.topic, place.at.partition), wakers));
        }
    }

    /// Finds a place; what there was is given back first, since the same partition may be had of the same consumer again.
    fn find(&mut self, consumers: &Arc<Consumers>) {
        self.seat = Place::None;
        let (consumers, place, next, wakers) = (consumers.clone(), self.place.clone(), self.next, self.wakers.clone());
        let woken = wakers.clone();
        self.seat = Place::Finding(aside(move || find(&consumers, &wakers, &place, next), woken));
    }
}

/// Does what blocks elsewhere, and wakes whoever waits for it.
fn aside<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static, wakers: Wakers) -> oneshot::Receiver<T> {
    let (tell, told) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        // Where nobody waits any more, a seat is given back here.
        let _ = tell.send(what());
        wakers.wake();
    });
    told
}

/// The bounds say whether there is a place, since a consumer would only say that its offset is out of range.
fn find(consumers: &Consumers, wakers: &Wakers, place: &Where, next: Offset) -> Result<Seat, ReadFault> {
    let io = |e: Error| ReadFault::Io(e.to_string());
    let bounds = || consumers.bounds(&place.topic, place.at.partition).map_err(io);
    let mut there = bounds()?;
    if next > there.end {
        // A broker that has just become the leader may not know yet how far its followers are.
        std::thread::sleep(Duration::from_secs(1));
        there = bounds()?;
    }
    match () {
        () if next < there.start => Err(ReadFault::Gone { wanted: next, start: there.start }),
        () if next > there.end => Err(ReadFault::BeyondEnd { wanted: next, end: there.end }),
        () => consumers.seat(&place.at, &place.topic, next, wakers).map_err(io),
    }
}

fn stored(at: &TopicPartition, message: &BorrowedMessage<'_>) -> Stored {
    let bytes = |b: Option<&[u8]>| b.map_or_else(Bytes::new, Bytes::copy_from_slice);
    let record = Record { key: bytes(message.key()), value: bytes(message.payload()) };
    let appended_at = message.timestamp().to_millis().unwrap_or_default() * 1000;
    Stored { at: at.clone(), offset: message.offset() as Offset, appended_at, record }
}
