//! The embedded provider: one SQLite file for all topics, so that one write-ahead log orders a command before its decision.
//!
//! One writer thread with group commit ([`writer`]); readers are woken in process and read the recent past from memory
//! ([`lane`]), older records in transactions of at most 1,000 rows ([`reader`]).

mod lane;
mod reader;
mod store;
mod writer;

use crate::port::{AppendError, Error, EventLog, Fut, Offset, Reader, Record, TopicPartition, TopicSpec};
use lane::Lane;
use std::{collections::HashMap, fs::File, ops::Range, path::Path, path::PathBuf, sync::Arc, sync::Mutex, sync::RwLock};
use tokio::sync::oneshot;
use writer::Order;

pub use store::Limits;

type Lanes = Arc<RwLock<HashMap<TopicPartition, Arc<Lane>>>>;

/// A log in a folder. Cloning is not needed: share it as `Arc<dyn EventLog>`.
pub struct SqliteLog {
    lanes: Lanes,
    readers: Arc<reader::Connections>,
    orders: Mutex<Option<std::sync::mpsc::Sender<Order>>>,
    writer: Mutex<Option<std::thread::JoinHandle<()>>>,
    _lock: Option<File>,
}

impl SqliteLog {
    /// Opens, or creates, the log in `folder`, and locks the folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Self::open_with(folder, Limits::default())
    }

    /// The same with limits of the store, which tests use to fill it.
    pub fn open_with(folder: &Path, limits: Limits) -> Result<Self, Error> {
        std::fs::create_dir_all(folder).map_err(|e| Error::Io(format!("{}: {e}", folder.display())))?;
        let lock = store::lock(folder)?;
        let path = file(folder);
        let connection = store::open(&path, &limits)?;
        let lanes: Lanes = Arc::new(RwLock::new(store::lanes(&connection)?));
        let readers = Arc::new(reader::Connections::new(path));
        let (orders, inbox) = std::sync::mpsc::channel();
        let writer = writer::start(connection, lanes.clone(), inbox)?;
        Ok(Self { lanes, readers, orders: Mutex::new(Some(orders)), writer: Mutex::new(Some(writer)), _lock: Some(lock) })
    }

    /// Opens the log in `folder` for reading what is there now, also while another process has it. Appends are refused.
    pub fn open_read_only(folder: &Path) -> Result<Self, Error> {
        let path = file(folder);
        let connection = store::open_read_only(&path)?;
        let lanes = Arc::new(RwLock::new(store::lanes(&connection)?));
        let readers = Arc::new(reader::Connections::new(path));
        Ok(Self { lanes, readers, orders: Mutex::new(None), writer: Mutex::new(None), _lock: None })
    }

    fn lane(&self, at: &TopicPartition) -> Option<Arc<Lane>> {
        self.lanes.read().unwrap_or_else(|e| e.into_inner()).get(at).cloned()
    }

    fn order(&self, order: Order) -> Result<(), &'static str> {
        let orders = self.orders.lock().unwrap_or_else(|e| e.into_inner());
        orders.as_ref().ok_or("the log is open for reading only")?.send(order).map_err(|_| "the log is closed")
    }
}

impl EventLog for SqliteLog {
    fn ensure(&self, topics: &[TopicSpec]) -> Fut<'_, Result<(), Error>> {
        let (done, outcome) = oneshot::channel();
        let sent = self.order(Order::Ensure(topics.to_vec(), done));
        Box::pin(async move {
            sent.map_err(|e| Error::Io(e.into()))?;
            outcome.await.unwrap_or_else(|_| Err(Error::Io("the log is closed".into())))
        })
    }

    fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), AppendError>> {
        let not_stored = |why: String| -> Fut<'static, Result<(), AppendError>> { Box::pin(async { Err(AppendError::NotStored(why)) }) };
        if records.iter().any(|r| r.key.is_empty()) {
            return not_stored("a record has an empty key".into());
        }
        let Some(lane) = self.lane(&at) else { return not_stored(format!("no partition {at}")) };
        let (done, outcome) = oneshot::channel();
        if let Err(why) = self.order(Order::Append(lane, records, done)) {
            return not_stored(why.into());
        }
        Box::pin(async move { outcome.await.unwrap_or_else(|_| Err(AppendError::Unknown("the log closed meanwhile".into()))) })
    }

    fn read(&self, from: &[(TopicPartition, Offset)]) -> Box<dyn Reader> {
        Box::new(reader::SqliteReader::new(
            from.iter().map(|(at, offset)| (at.clone(), self.lane(at), *offset)).collect(),
            self.readers.clone(),
        ))
    }

    fn bounds(&self, at: TopicPartition) -> Fut<'_, Result<Range<Offset>, Error>> {
        let bounds = self.lane(&at).map(|l| l.bounds()).ok_or(Error::NoPartition(at));
        Box::pin(async move { bounds })
    }

    fn trim(&self, at: TopicPartition, before: Offset) -> Fut<'_, Result<(), Error>> {
        let sent = self.lane(&at).ok_or(Error::NoPartition(at)).and_then(|lane| {
            lane.ask_trim(before);
            self.order(Order::Nudge).map_err(|e| Error::Io(e.into()))
        });
        Box::pin(async move { sent })
    }
}

impl Drop for SqliteLog {
    fn drop(&mut self) {
        self.orders.lock().unwrap_or_else(|e| e.into_inner()).take();
        if let Some(writer) = self.writer.lock().unwrap_or_else(|e| e.into_inner()).take() {
            // A panicked writer was already seen by every caller as Unknown.
            let _ = writer.join();
        }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("log.sqlite")
}
