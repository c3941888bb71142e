//! The provider on Apache Kafka. No transactions, no consumer groups, no compaction of what must be dense: what a reader may believe is
//! the fence's to say, so the log has to keep order and keep what it acknowledged, and no more.
//!
//! A topic has a [`producer`] of its own; partitions are read through seats in shared [`consumers`], and by all who have come to the end
//! of one through the same [`feed`]; [`topics`] compares what is there with what must be. Clients are made when the log is opened, since each takes half a second until it serves.

mod consumers;
mod context;
mod feed;
mod options;
mod producer;
mod reader;
mod source;
mod topics;

use crate::port::{AppendError, Cleanup, Error, EventLog, Fut, Offset, Public, Publish, Reader, Record, TopicPartition, TopicSpec};
use consumers::Consumers;
use context::Context;
use producer::{Outgoing, Producer};
use rdkafka::admin::AdminOptions;
use rdkafka::{Offset as At, TopicPartitionList};
use std::{collections::HashMap, ops::Range, sync::Arc, sync::RwLock, time::Duration};

pub use options::{MAX_RECORD, Options, Sasl, Tls};
pub use topics::Change;

/// How long dropping the log waits for its clients; what they still do after that harms nobody.
const FAREWELL: Duration = Duration::from_secs(3);

/// How long it may take until all brokers know of a change of topics.
const ANNOUNCED: Duration = Duration::from_secs(30);

/// A log on a Kafka cluster.
pub struct KafkaLog {
    options: Options,
    context: Context,
    consumers: Arc<Consumers>,
    feeds: Arc<feed::Feeds>,
    topics: Arc<topics::Topics>,
    known: RwLock<HashMap<Arc<str>, Arc<Known>>>,
}

struct Known {
    /// Name on the wire.
    name: String,
    partitions: u32,
    dense: bool,
    producer: Option<Producer>,
}

impl KafkaLog {
    /// Opens it, and fails with a reason where no broker answers. No topic is known before [`EventLog::ensure`],
    /// [`KafkaLog::take_up`] or [`KafkaLog::look`].
    pub async fn open(options: Options) -> Result<Self, Error> {
        let context = Context::default();
        let topics = Arc::new(topics::Topics::new(&options, &context)?);
        // A consumer's trouble is heard, since a thread serves it: a wrong password is no broker that does not answer.
        let consumers = Arc::new(Consumers::new(&options, &context)?);
        let asked = consumers.clone();
        let brokers = tokio::task::spawn_blocking(move || asked.brokers()).await.map_err(|e| Error::Io(e.to_string()))??;
        tracing::info!(bootstrap = options.bootstrap, brokers, "kafka");
        Ok(Self { options, context, consumers, feeds: Arc::default(), topics, known: RwLock::default() })
    }

    /// What differs between the topics and `specs`.
    pub async fn plan(&self, specs: &[TopicSpec]) -> Result<Vec<Change>, Error> {
        self.topics.plan(specs).await
    }

    /// Does what a plan says, except what it refuses, and waits until every broker that is asked says so.
    pub async fn apply(&self, specs: &[TopicSpec], plan: &[Change]) -> Result<(), Error> {
        self.topics.apply(specs, plan).await?;
        let until = tokio::time::Instant::now() + ANNOUNCED;
        loop {
            let left = self.plan(specs).await?;
            let open = left.iter().find(|c| !matches!(c, Change::Refuse { .. }));
            match open {
                None => return Ok(()),
                Some(change) if tokio::time::Instant::now() > until => return Err(change.refusal()),
                Some(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// Knows the topics, which are as a plan would have them, for reading and writing.
    pub fn take_up(&self, specs: &[TopicSpec]) -> Result<(), Error> {
        self.know(specs, true)
    }

    /// Knows the topics for reading alone.
    pub fn look(&self, specs: &[TopicSpec]) -> Result<(), Error> {
        self.know(specs, false)
    }

    fn know(&self, specs: &[TopicSpec], write: bool) -> Result<(), Error> {
        let mut known = self.known.write().unwrap_or_else(|e| e.into_inner());
        for spec in specs {
            if known.get(&spec.name).is_some_and(|k| k.producer.is_some() || !write) {
                continue;
            }
            let name = self.topics.name(spec);
            let producer = write.then(|| Producer::new(name.clone(), &self.options, &self.context)).transpose()?;
            let dense = spec.cleanup == Cleanup::Delete;
            known.insert(spec.name.clone(), Arc::new(Known { name, partitions: spec.partitions, dense, producer }));
        }
        Ok(())
    }

    /// Places in partitions that are fetched from: those who have come to the end of a partition share one.
    pub fn places(&self) -> usize {
        self.consumers.places()
    }

    fn known(&self, at: &TopicPartition) -> Option<Arc<Known>> {
        let known = self.known.read().unwrap_or_else(|e| e.into_inner());
        known.get(&at.topic).filter(|k| at.partition < k.partitions).cloned()
    }
}

impl KafkaLog {
    fn put(&self, at: &TopicPartition, records: &[Outgoing<'_>]) -> Fut<'static, Result<(), AppendError>> {
        let not_stored = |why: String| -> Fut<'static, Result<(), AppendError>> { Box::pin(async { Err(AppendError::NotStored(why)) }) };
        if records.iter().any(|r| r.key.is_empty()) {
            return not_stored("a record has an empty key".into());
        }
        let Some(known) = self.known(at) else { return not_stored(format!("no partition {at}")) };
        match &known.producer {
            Some(producer) => producer.append(at.partition, records),
            None => not_stored("the log is open for reading only".into()),
        }
    }
}

impl Publish for KafkaLog {
    fn publish(&self, at: TopicPartition, records: Vec<Public>) -> Fut<'static, Result<(), AppendError>> {
        let outgoing = records.iter().map(|r| Outgoing { key: &r.key, value: r.value.as_deref(), headers: &r.headers });
        self.put(&at, &outgoing.collect::<Vec<_>>())
    }
}

impl EventLog for KafkaLog {
    fn ensure(&self, topics: &[TopicSpec]) -> Fut<'_, Result<(), Error>> {
        let topics = topics.to_vec();
        Box::pin(async move {
            let plan = self.plan(&topics).await?;
            if let Some(refused) = plan.iter().find(|c| matches!(c, Change::Refuse { .. } | Change::Set { .. })) {
                return Err(refused.refusal());
            }
            self.apply(&topics, &plan).await?;
            self.know(&topics, true)
        })
    }

    fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), AppendError>> {
        let outgoing = records.iter().map(|r| Outgoing { key: &r.key, value: Some(&r.value), headers: &[] });
        self.put(&at, &outgoing.collect::<Vec<_>>())
    }

    fn read(&self, from: &[(TopicPartition, Offset)]) -> Box<dyn Reader> {
        let lanes = from.iter().map(|(at, offset)| (at.clone(), self.known(at).map(|k| (k.name.clone(), k.dense)), *offset));
        Box::new(reader::KafkaReader::new(self.consumers.clone(), self.feeds.clone(), lanes.collect()))
    }

    fn bounds(&self, at: TopicPartition) -> Fut<'_, Result<Range<Offset>, Error>> {
        let (known, consumers) = (self.known(&at), self.consumers.clone());
        Box::pin(async move {
            let name = known.ok_or_else(|| Error::NoPartition(at.clone()))?.name.clone();
            let asked = tokio::task::spawn_blocking(move || consumers.bounds(&name, at.partition));
            asked.await.map_err(|e| Error::Io(e.to_string()))?
        })
    }

    fn trim(&self, at: TopicPartition, before: Offset) -> Fut<'_, Result<(), Error>> {
        let known = self.known(&at);
        Box::pin(async move {
            let known = known.ok_or_else(|| Error::NoPartition(at.clone()))?;
            let io = |e: &dyn std::fmt::Display| Error::Io(format!("{at}: {e}"));
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(&known.name, at.partition as i32, At::Offset(before as i64)).map_err(|e| io(&e))?;
            let options = AdminOptions::new().request_timeout(Some(consumers::ASK));
            let done = self.topics.admin().delete_records(&list, &options).await.map_err(|e| io(&e))?;
            done.elements().first().map_or(Ok(()), |e| e.error()).map_err(|e| io(&e))
        })
    }
}

impl Drop for KafkaLog {
    fn drop(&mut self) {
        let known = std::mem::take(&mut *self.known.write().unwrap_or_else(|e| e.into_inner()));
        // Whoever waits for an append is told now that it is unknown.
        known.values().filter_map(|k| k.producer.as_ref()).for_each(Producer::close);
        let consumers = self.consumers.close();
        let (gone, told) = std::sync::mpsc::channel::<()>();
        let farewell = move || {
            drop((known, consumers));
            drop(gone);
        };
        // Dropping clients may wait for brokers that are away: not on this thread, and not for ever.
        if std::thread::Builder::new().name("kafka-farewell".into()).spawn(farewell).is_ok() {
            // Closed = all are gone.
            let _ = told.recv_timeout(FAREWELL);
        }
    }
}
