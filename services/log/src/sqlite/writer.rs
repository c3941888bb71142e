//! The writer thread: takes what has gathered while the last commit ran, and commits it as one group.

use super::{Lanes, lane::Lane, store};
use crate::port::{AppendError, Durability, Error, Offset, Record, Stored, TopicSpec};
use rusqlite::Connection;
use std::{collections::HashMap, ops::Range, sync::Arc, sync::mpsc, time::SystemTime};
use tokio::sync::oneshot;

/// Appends that one group may hold.
const GROUP_APPENDS: usize = 4096;
/// Bytes after which a group is closed.
const GROUP_BYTES: usize = 8 << 20;
/// Rows let go between two commits.
const TRIM_ROWS: u64 = 1000;

type Done<E> = oneshot::Sender<Result<(), E>>;
/// What a group stores, by table.
type Group = HashMap<String, (Arc<Lane>, Vec<Stored>)>;

pub(super) enum Order {
    Append(Arc<Lane>, Vec<Record>, Done<AppendError>),
    Ensure(Vec<TopicSpec>, Done<Error>),
    Nudge,
}

pub(super) fn start(connection: Connection, lanes: Lanes, inbox: mpsc::Receiver<Order>) -> Result<std::thread::JoinHandle<()>, Error> {
    let writer = Writer { connection, lanes, synchronous: Durability::Full };
    std::thread::Builder::new().name("fleet-log".into()).spawn(move || writer.run(inbox)).map_err(|e| Error::Io(e.to_string()))
}

struct Writer {
    connection: Connection,
    lanes: Lanes,
    synchronous: Durability,
}

struct Append {
    lane: Arc<Lane>,
    records: Vec<Record>,
    done: Done<AppendError>,
}

impl Writer {
    fn run(mut self, inbox: mpsc::Receiver<Order>) {
        let mut trimming = false;
        loop {
            let first = if trimming { inbox.try_recv().ok() } else { inbox.recv().ok() };
            match first {
                Some(order) => self.serve(order, &inbox),
                None if !trimming => return,
                None => {}
            }
            trimming = self.trim_some();
        }
    }

    fn serve(&mut self, first: Order, inbox: &mpsc::Receiver<Order>) {
        let (mut group, mut bytes) = (Vec::new(), 0);
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Append(lane, records, done) => {
                    bytes += records.iter().map(|r| r.value.len() + r.key.len()).sum::<usize>();
                    group.push(Append { lane, records, done });
                }
                Order::Ensure(topics, done) => {
                    self.commit(std::mem::take(&mut group));
                    let _ = done.send(self.ensure(&topics));
                }
                Order::Nudge => {}
            }
            next = if group.len() < GROUP_APPENDS && bytes < GROUP_BYTES { inbox.try_recv().ok() } else { None };
        }
        self.commit(group);
    }

    fn ensure(&mut self, topics: &[TopicSpec]) -> Result<(), Error> {
        store::ensure(&mut self.connection, topics)?;
        let found = store::lanes(&self.connection)?;
        let mut lanes = self.lanes.write().unwrap_or_else(|e| e.into_inner());
        for (at, lane) in found {
            lanes.entry(at).or_insert(lane);
        }
        Ok(())
    }

    /// One transaction for the whole group. It is rolled back whole when an insert fails (not stored); when the commit itself
    /// fails, nobody can say.
    fn commit(&mut self, group: Vec<Append>) {
        if group.is_empty() {
            return;
        }
        let durability = if group.iter().any(|a| a.lane.durability == Durability::Full) { Durability::Full } else { Durability::Awaited };
        let outcome = match self.insert(&group, durability) {
            Ok(stored) => match self.connection.execute_batch("COMMIT") {
                Ok(()) => Ok(stored),
                Err(e) => Err(AppendError::Unknown(e.to_string())),
            },
            Err(e) => Err(AppendError::NotStored(e.to_string())),
        };
        match outcome {
            Ok(stored) => {
                for (lane, records) in stored.into_values() {
                    lane.publish(records);
                }
                for append in group {
                    let _ = append.done.send(Ok(()));
                }
            }
            Err(error) => {
                tracing::error!(%error, appends = group.len(), "the log could not commit");
                if !self.connection.is_autocommit() {
                    let _ = self.connection.execute_batch("ROLLBACK");
                }
                self.look_again(&group);
                for append in group {
                    let _ = append.done.send(Err(error.clone()));
                }
            }
        }
    }

    /// After a failed commit the file alone knows where its partitions end.
    fn look_again(&self, group: &[Append]) {
        for append in group {
            match store::end(&self.connection, &append.lane.table) {
                Ok(end) => append.lane.resume_at(end),
                Err(error) => tracing::error!(%error, partition = %append.lane.at, "the log cannot be read after a failed commit"),
            }
        }
    }

    fn insert(&mut self, group: &[Append], durability: Durability) -> rusqlite::Result<Group> {
        if self.synchronous != durability {
            self.connection.pragma_update(None, "synchronous", if durability == Durability::Full { "full" } else { "normal" })?;
            self.synchronous = durability;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64);
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut stored = Group::new();
        for append in group {
            let (lane, out) = stored.entry(append.lane.table.clone()).or_insert_with(|| (append.lane.clone(), Vec::new()));
            let sql = format!("INSERT INTO {} (offset, appended_at, key, value) VALUES (?1, ?2, ?3, ?4)", lane.table);
            let mut statement = self.connection.prepare_cached(&sql)?;
            for record in &append.records {
                let offset: Offset = out.last().map_or_else(|| lane.bounds().end, |s| s.offset + 1);
                statement.execute((offset as i64, now, &record.key[..], &record.value[..]))?;
                out.push(Stored { at: lane.at.clone(), offset, appended_at: now, record: record.clone() });
            }
        }
        Ok(stored)
    }

    /// Lets go of some old rows; true when more wait.
    fn trim_some(&mut self) -> bool {
        let lanes: Vec<_> = self.lanes.read().unwrap_or_else(|e| e.into_inner()).values().cloned().collect();
        for lane in lanes {
            if let Some(step) = lane.trim_step(TRIM_ROWS) {
                if let Err(error) = self.trim(&lane, &step) {
                    tracing::warn!(%error, partition = %lane.at, "could not let go of old records; tried again with the next append");
                    return false;
                }
                lane.trimmed(step.end);
                return true;
            }
        }
        false
    }

    fn trim(&mut self, lane: &Lane, step: &Range<Offset>) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction()?;
        transaction.execute(&format!("DELETE FROM {} WHERE offset < ?1", lane.table), [step.end as i64])?;
        transaction.execute(
            "UPDATE lane SET start = ?1 WHERE topic = ?2 AND partition = ?3",
            (step.end as i64, &*lane.at.topic, lane.at.partition),
        )?;
        transaction.commit()
    }
}
