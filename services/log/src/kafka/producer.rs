//! Appending. A topic has a producer of its own: what ends idempotence for one topic is no trouble of another's. It is made when the
//! topic becomes known, since the first acknowledgement of a new one takes half a second.

use super::{context::Context, options::MAX_RECORD, options::Options};
use crate::port::{AppendError, Fut};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientContext, config::FromClientConfigAndContext, config::RDKafkaLogLevel};
use std::sync::{Arc, Mutex, RwLock};
use tokio::sync::oneshot;

type Client = ThreadedProducer<Deliveries>;

/// See the module.
pub(super) struct Producer {
    topic: String,
    options: Options,
    context: Context,
    client: RwLock<Arc<Client>>,
}

/// A record as it goes out.
pub(super) struct Outgoing<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a [(&'static str, String)],
}

impl Outgoing<'_> {
    fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.key.len() + self.value.map_or(0, <[u8]>::len) + headers
    }
}

/// An append whose records are on their way.
pub(super) struct Pending {
    state: Mutex<State>,
}

struct State {
    left: usize,
    /// How many of the records were refused for good.
    refused: usize,
    all: usize,
    why: Option<String>,
    tell: Option<oneshot::Sender<Result<(), AppendError>>>,
}

impl Pending {
    fn new(all: usize) -> (Arc<Self>, oneshot::Receiver<Result<(), AppendError>>) {
        let (tell, told) = oneshot::channel();
        let state = State { left: all, refused: 0, all, why: None, tell: Some(tell) };
        (Arc::new(Self { state: Mutex::new(state) }), told)
    }

    /// `count` records came to this; the last tells.
    fn came(&self, count: usize, outcome: Result<(), (bool, String)>) {
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        state.left = state.left.saturating_sub(count);
        if let Err((refused, why)) = outcome {
            state.refused += if refused { count } else { 0 };
            state.why.get_or_insert(why);
        }
        if state.left > 0 {
            return;
        }
        let result = match state.why.take() {
            None => Ok(()),
            Some(why) if state.refused == state.all => Err(AppendError::NotStored(why)),
            Some(why) => Err(AppendError::Unknown(why)),
        };
        if let Some(tell) = state.tell.take() {
            // Who appended may have left.
            let _ = tell.send(result);
        }
    }
}

/// Takes the deliveries of one producer.
pub(super) struct Deliveries(Context);

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        self.0.log(level, facility, text);
    }
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.note(&error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Arc<Pending>;

    fn delivery(&self, delivery: &DeliveryResult<'_>, pending: Self::DeliveryOpaque) {
        let words = |error: &KafkaError| self.0.trouble().map_or_else(|| error.to_string(), |trouble| format!("{error} ({trouble})"));
        pending.came(1, delivery.as_ref().map(|_| ()).map_err(|(error, _)| (never_stored(error), words(error))));
    }
}

/// Whether a failed delivery says that the record is not in the log, nor will be. Nearly none does: a record may have been stored by an
/// attempt before the one that failed. One that is too large was too large each time.
fn never_stored(error: &KafkaError) -> bool {
    matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize))
}

impl Producer {
    pub(super) fn new(topic: String, options: &Options, context: &Context) -> Result<Self, crate::Error> {
        let client = RwLock::new(Arc::new(make(options, context)?));
        Ok(Self { topic, options: options.clone(), context: context.clone(), client })
    }

    /// Enqueues in call order, and never waits.
    pub(super) fn append(&self, partition: u32, records: &[Outgoing<'_>]) -> Fut<'static, Result<(), AppendError>> {
        let not_stored = |why: String| -> Fut<'static, Result<(), AppendError>> { Box::pin(async { Err(AppendError::NotStored(why)) }) };
        if let Some(large) = records.iter().map(Outgoing::size).find(|size| *size > MAX_RECORD) {
            return not_stored(format!("a record has {large} bytes, more than {MAX_RECORD}"));
        }
        if records.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        let client = match self.client() {
            Ok(client) => client,
            Err(error) => return not_stored(error.to_string()),
        };
        let (pending, told) = Pending::new(records.len());
        for (nth, record) in records.iter().enumerate() {
            let mut sent = BaseRecord::with_opaque_to(&self.topic, pending.clone()).partition(partition as i32).key(record.key);
            sent.payload = record.value;
            if !record.headers.is_empty() {
                let headers = OwnedHeaders::new_with_capacity(record.headers.len());
                let add = |all: OwnedHeaders, (key, value): &(&'static str, String)| all.insert(Header { key, value: Some(value) });
                sent = sent.headers(record.headers.iter().fold(headers, add));
            }
            if let Err((error, _)) = client.send(sent) {
                // The queue is full, or the client is broken: none of what is left was taken. What was taken decides.
                pending.came(records.len() - nth, Err((true, self.words(&error))));
                break;
            }
        }
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(AppendError::Unknown("the log closed meanwhile".into()))) })
    }

    fn words(&self, error: &KafkaError) -> String {
        let trouble = self.context.trouble().map(|t| format!(" ({t})")).unwrap_or_default();
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::QueueFull) => format!("the brokers do not take what waits already{trouble}"),
            _ => format!("{error}{trouble}"),
        }
    }

    /// The client; another one where the last met a fatal error. What that one still had is unknown to whoever waits for it.
    fn client(&self) -> Result<Arc<Client>, crate::Error> {
        let client = self.client.read().unwrap_or_else(|e| e.into_inner()).clone();
        let Some((code, why)) = client.client().fatal_error() else { return Ok(client) };
        let mut place = self.client.write().unwrap_or_else(|e| e.into_inner());
        if Arc::ptr_eq(&place, &client) {
            tracing::error!(topic = self.topic, ?code, why, "the producer met a fatal error; another one takes its place");
            metrics::counter!("fm_log_producers_replaced_total").increment(1);
            bury(std::mem::replace(&mut *place, Arc::new(make(&self.options, &self.context)?)));
        }
        Ok(place.clone())
    }

    /// Gives up what is on its way; whoever waits is told that it is unknown.
    pub(super) fn close(&self) {
        let client = self.client.read().unwrap_or_else(|e| e.into_inner()).clone();
        client.purge(PurgeConfig::default().queue().inflight());
        bury(client);
    }
}

fn make(options: &Options, context: &Context) -> Result<Client, crate::Error> {
    ThreadedProducer::from_config_and_context(&options.producer(), Deliveries(context.clone()))
        .map_err(|e| crate::Error::Io(format!("no producer can be made: {e}")))
}

/// Dropping a client may wait for brokers that are away: never on a thread that others need.
fn bury(client: Arc<Client>) {
    let buried = std::thread::Builder::new().name("kafka-bury".into()).spawn(move || {
        client.purge(PurgeConfig::default().queue().inflight());
        drop(client);
    });
    if let Err(error) = buried {
        tracing::warn!(%error, "a producer is dropped in place");
    }
}
