//! Reading: the recent past from memory, the rest from the file in short transactions.

use super::{lane::Lane, store};
use crate::port::{Fut, Item, Offset, ReadError, ReadFault, Reader, Record, Stored, TopicPartition};
use rusqlite::Connection;
use std::{collections::VecDeque, path::PathBuf, sync::Arc, sync::Mutex};
use tokio::sync::Notify;

/// Rows that one read transaction covers.
const BATCH: usize = 1000;

/// Idle read connections.
pub(super) struct Connections {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Connections {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, idle: Mutex::new(Vec::new()) }
    }

    fn batch(&self, lane: &Lane, from: Offset) -> Result<Vec<Stored>, ReadFault> {
        let io = |e: &dyn std::fmt::Display| ReadFault::Io(e.to_string());
        let idle = self.idle.lock().unwrap_or_else(|e| e.into_inner()).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => store::open_read_only(&self.path).map_err(|e| io(&e))?,
        };
        let rows = rows(&connection, lane, from).map_err(|e| io(&e))?;
        self.idle.lock().unwrap_or_else(|e| e.into_inner()).push(connection);
        Ok(rows)
    }
}

fn rows(connection: &Connection, lane: &Lane, from: Offset) -> rusqlite::Result<Vec<Stored>> {
    let sql = format!("SELECT offset, appended_at, key, value FROM {} WHERE offset >= ?1 ORDER BY offset LIMIT {BATCH}", lane.table);
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = statement.query_map([from as i64], |r| {
        let (key, value): (Vec<u8>, Vec<u8>) = (r.get(2)?, r.get(3)?);
        let record = Record { key: key.into(), value: value.into() };
        Ok(Stored { at: lane.at.clone(), offset: r.get::<_, i64>(0)? as u64, appended_at: r.get(1)?, record })
    })?;
    rows.collect()
}

struct Cursor {
    lane: Arc<Lane>,
    next: Offset,
    told_end: bool,
    failed: bool,
}

pub(super) struct SqliteReader {
    cursors: Vec<Cursor>,
    turn: usize,
    ready: VecDeque<Result<Item, ReadError>>,
    connections: Arc<Connections>,
    notify: Arc<Notify>,
}

impl SqliteReader {
    pub(super) fn new(from: Vec<(TopicPartition, Option<Arc<Lane>>, Offset)>, connections: Arc<Connections>) -> Self {
        let notify = Arc::new(Notify::new());
        let mut ready = VecDeque::new();
        let mut cursors = Vec::new();
        for (at, lane, next) in from {
            match lane {
                Some(lane) => {
                    lane.wake(&notify);
                    cursors.push(Cursor { lane, next, told_end: false, failed: false });
                }
                None => ready.push_back(Err(ReadError { at, fault: ReadFault::Io("no such partition".into()) })),
            }
        }
        Self { cursors, turn: 0, ready, connections, notify }
    }

    /// One look at each partition, beginning with another one each time, until something is ready.
    async fn look(&mut self) {
        for _ in 0..self.cursors.len() {
            self.turn = (self.turn + 1) % self.cursors.len();
            let connections = self.connections.clone();
            let cursor = &mut self.cursors[self.turn];
            if cursor.failed {
                continue;
            }
            match cursor.advance(connections).await {
                Ok(items) => self.ready.extend(items.into_iter().map(Ok)),
                Err(fault) => {
                    cursor.failed = true;
                    self.ready.push_back(Err(ReadError { at: cursor.lane.at.clone(), fault }));
                }
            }
            if !self.ready.is_empty() {
                return;
            }
        }
    }
}

impl Cursor {
    async fn advance(&mut self, connections: Arc<Connections>) -> Result<Vec<Item>, ReadFault> {
        let bounds = self.lane.bounds();
        if self.next < bounds.start {
            return Err(ReadFault::Gone { wanted: self.next, start: bounds.start });
        }
        if self.next > bounds.end {
            return Err(ReadFault::BeyondEnd { wanted: self.next, end: bounds.end });
        }
        if self.next == bounds.end {
            let end = Item::End { at: self.lane.at.clone(), next: self.next };
            return Ok(if std::mem::replace(&mut self.told_end, true) { vec![] } else { vec![end] });
        }
        let rows = match self.lane.recent(self.next, BATCH) {
            Some(rows) => rows,
            None => {
                let (lane, from) = (self.lane.clone(), self.next);
                tokio::task::spawn_blocking(move || connections.batch(&lane, from)).await.map_err(|e| ReadFault::Io(e.to_string()))??
            }
        };
        self.take(rows, bounds.end)
    }

    /// Rows committed but not yet published (another thread is between the two) wait for their publication.
    fn take(&mut self, rows: Vec<Stored>, end: Offset) -> Result<Vec<Item>, ReadFault> {
        let mut items = Vec::with_capacity(rows.len());
        for row in rows.into_iter().take_while(|r| r.offset < end) {
            if row.offset != self.next {
                return if items.is_empty() { Err(self.missing(row.offset)) } else { Ok(items) };
            }
            self.next += 1;
            items.push(Item::Record(row));
        }
        if items.is_empty() {
            return Err(self.missing(end));
        }
        self.told_end = false;
        Ok(items)
    }

    fn missing(&self, found: Offset) -> ReadFault {
        let (wanted, start) = (self.next, self.lane.bounds().start);
        if start > wanted { ReadFault::Gone { wanted, start } } else { ReadFault::Gap { wanted, found } }
    }
}

impl Reader for SqliteReader {
    fn next(&mut self) -> Fut<'_, Result<Item, ReadError>> {
        Box::pin(async move {
            loop {
                if let Some(item) = self.ready.pop_front() {
                    return item;
                }
                self.look().await;
                if self.ready.is_empty() {
                    self.notify.notified().await;
                }
            }
        })
    }
}
