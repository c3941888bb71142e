//! The consumers of a process. One consumer fetches many partitions over one connection to each broker; two readers of the same partition
//! have two consumers, since each has one place in it. What a partition's fetches bring goes into a queue of its own, so that no
//! partition waits for another, and each is fetched ahead only so far.

use super::{context::Context, options::Options, source::Wakers};
use crate::port::{Error, Offset, TopicPartition};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, base_consumer::PartitionQueue};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset as At, TopicPartitionList};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a question to the brokers may take.
pub(super) const ASK: Duration = Duration::from_secs(10);

/// See the module.
pub(super) struct Consumers {
    options: Options,
    context: Context,
    all: Mutex<Vec<Arc<One>>>,
}

/// One consumer, its thread, and the partitions it has.
pub(super) struct One {
    client: Arc<BaseConsumer<Context>>,
    taken: Mutex<HashSet<TopicPartition>>,
    /// It did not deliver what there was: no further partition is given to it.
    shunned: AtomicBool,
    stop: Arc<AtomicBool>,
}

/// A partition that a consumer fetches. Dropping it gives it back.
pub(super) struct Seat {
    at: TopicPartition,
    topic: String,
    one: Arc<One>,
    queue: Option<PartitionQueue<Context>>,
}

impl Consumers {
    pub(super) fn new(options: &Options, context: &Context) -> Result<Self, Error> {
        let consumers = Self { options: options.clone(), context: context.clone(), all: Mutex::default() };
        // Made now: a new one takes half a second until it knows the brokers.
        let first = consumers.make()?;
        consumers.all.lock().unwrap_or_else(|e| e.into_inner()).push(first);
        Ok(consumers)
    }

    fn make(&self) -> Result<Arc<One>, Error> {
        let failed = |e: &dyn std::fmt::Display| Error::Io(format!("no consumer can be made: {e}"));
        let client = BaseConsumer::from_config_and_context(&self.options.consumer(), self.context.clone()).map_err(|e| failed(&e))?;
        let (client, stop) = (Arc::new(client), Arc::new(AtomicBool::new(false)));
        let (polled, ended) = (Arc::downgrade(&client), stop.clone());
        let serve = move || {
            // Events alone: records go to the queues of their partitions. Errors were told to the context.
            while !ended.load(Ordering::Relaxed)
                && let Some(client) = polled.upgrade()
            {
                client.poll(Duration::from_millis(100));
            }
        };
        std::thread::Builder::new().name("kafka-consumer".into()).spawn(serve).map_err(|e| failed(&e))?;
        Ok(Arc::new(One { client, taken: Mutex::default(), shunned: AtomicBool::new(false), stop }))
    }

    /// Places in partitions that are taken.
    pub(super) fn places(&self) -> usize {
        let all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        all.iter().map(|one| one.taken.lock().unwrap_or_else(|e| e.into_inner()).len()).sum()
    }

    /// A client to ask about bounds and topics.
    pub(super) fn any(&self) -> Result<Arc<BaseConsumer<Context>>, Error> {
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(one) = all.iter().find(|one| !one.shunned.load(Ordering::Relaxed)) {
            return Ok(one.client.clone());
        }
        let one = self.make()?;
        all.push(one.clone());
        Ok(one.client.clone())
    }

    /// How many brokers there are; fails with a reason within some seconds where none answers. Blocks.
    pub(super) fn brokers(&self) -> Result<usize, Error> {
        match self.any()?.fetch_metadata(None, ASK) {
            Ok(metadata) => Ok(metadata.brokers().len()),
            Err(error) => {
                let hint = if self.options.tls.is_none() { "; where they speak TLS: log.tls = true" } else { "" };
                Err(Error::Io(self.words(&format!("no broker of {} answers: {error}{hint}", self.options.bootstrap))))
            }
        }
    }

    /// First offset and end of a partition; blocks. A leader that is being looked for is waited for.
    pub(super) fn bounds(&self, topic: &str, partition: u32) -> Result<Range<Offset>, Error> {
        let until = Instant::now() + ASK;
        loop {
            match self.any()?.fetch_watermarks(topic, partition as i32, ASK) {
                Ok((low, high)) => return Ok(low.max(0) as u64..high.max(0) as u64),
                Err(error) if moving(&error) && Instant::now() < until => std::thread::sleep(Duration::from_millis(100)),
                Err(error) => return Err(Error::Io(self.words(&format!("{topic}/{partition}: {error}")))),
            }
        }
    }

    pub(super) fn words(&self, what: &str) -> String {
        self.context.trouble().map_or_else(|| what.to_owned(), |trouble| format!("{what} ({trouble})"))
    }

    /// Lets a consumer fetch a partition from `from` on, and wakes `wakers` when something comes; blocks for some milliseconds.
    pub(super) fn seat(&self, at: &TopicPartition, topic: &str, from: Offset, wakers: &Wakers) -> Result<Seat, Error> {
        let one = self.place(at)?;
        let mut seat = Seat { at: at.clone(), topic: topic.to_owned(), one, queue: None };
        // Split first: what a partition brings goes to the queue that it has by then.
        let split = seat.one.client.split_partition_queue(topic, at.partition as i32);
        let mut queue = split.ok_or_else(|| Error::NoPartition(at.clone()))?;
        let wakers = wakers.clone();
        queue.set_nonempty_callback(move || wakers.wake());
        seat.queue = Some(queue);
        let list = list(topic, at.partition, At::Offset(from as i64)).map_err(|e| Error::Io(e.to_string()))?;
        seat.one.client.incremental_assign(&list).map_err(|e| Error::Io(format!("{at}: {e}")))?;
        Ok(seat)
    }

    /// A consumer that does not have this partition yet.
    fn place(&self, at: &TopicPartition) -> Result<Arc<One>, Error> {
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        // One that stalled, and that nobody reads from any more, goes.
        let idle =
            |one: &mut Arc<One>| one.shunned.load(Ordering::Relaxed) && one.taken.lock().unwrap_or_else(|e| e.into_inner()).is_empty();
        let gone: Vec<_> = all.extract_if(.., idle).collect();
        if !gone.is_empty() {
            // Dropping one that stalled may take its time.
            let _ = std::thread::Builder::new().name("kafka-bury".into()).spawn(move || drop(gone));
        }
        for one in all.iter().filter(|one| !one.shunned.load(Ordering::Relaxed)) {
            if one.taken.lock().unwrap_or_else(|e| e.into_inner()).insert(at.clone()) {
                return Ok(one.clone());
            }
        }
        let one = self.make()?;
        one.taken.lock().unwrap_or_else(|e| e.into_inner()).insert(at.clone());
        all.push(one.clone());
        Ok(one)
    }

    /// Takes all consumers away; they are dropped by whoever has a partition of them last.
    pub(super) fn close(&self) -> Vec<Arc<One>> {
        std::mem::take(&mut *self.all.lock().unwrap_or_else(|e| e.into_inner()))
    }
}

impl Seat {
    pub(super) fn queue(&self) -> Option<&PartitionQueue<Context>> {
        self.queue.as_ref()
    }

    /// The consumer of this partition did not deliver: the next one goes elsewhere.
    pub(super) fn shun(&self) {
        self.one.shunned.store(true, Ordering::Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let (queue, one, at, topic) = (self.queue.take(), self.one.clone(), self.at.clone(), std::mem::take(&mut self.topic));
        let give_back = move || {
            // The queue's callback goes before another reader may set one on the same queue.
            drop(queue);
            if let Ok(list) = list(&topic, at.partition, At::Invalid)
                && let Err(error) = one.client.incremental_unassign(&list)
            {
                tracing::debug!(%at, %error, "a partition was not let go");
            }
            one.taken.lock().unwrap_or_else(|e| e.into_inner()).remove(&at);
        };
        // The client answers within milliseconds, if it is well: no thread that others need waits for that.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(give_back)),
            Err(_) => give_back(),
        }
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Whether it says no more than that the partition's leader is not known just now.
fn moving(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{LeaderNotAvailable, NotLeaderForPartition};
    matches!(error.rdkafka_error_code(), Some(NotLeaderForPartition | LeaderNotAvailable))
}

fn list(topic: &str, partition: u32, offset: At) -> rdkafka::error::KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition as i32, offset)?;
    Ok(list)
}
