//! One partition in memory: its bounds, its recent records, and who waits for more.

use crate::port::{Durability, Offset, Stored, TopicPartition};
use std::{collections::VecDeque, ops::Range, sync::Arc, sync::Mutex, sync::MutexGuard, sync::Weak};
use tokio::sync::Notify;

/// Records kept in memory per partition, so that a reader at the end never touches the file.
const TAIL_RECORDS: usize = 4096;
/// Bytes kept in memory per partition.
const TAIL_BYTES: usize = 4 << 20;

pub(super) struct Lane {
    pub(super) at: TopicPartition,
    pub(super) table: String,
    pub(super) durability: Durability,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    bounds: Range<Offset>,
    trim_before: Offset,
    tail: VecDeque<Stored>,
    tail_bytes: usize,
    waiting: Vec<Weak<Notify>>,
}

impl Lane {
    pub(super) fn new(at: TopicPartition, id: i64, durability: Durability, bounds: Range<Offset>) -> Self {
        let inner = Inner { bounds, ..Inner::default() };
        Self { at, table: format!("records_{id}"), durability, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(super) fn bounds(&self) -> Range<Offset> {
        self.inner().bounds.clone()
    }

    /// Records are committed: show them, wake who waits.
    pub(super) fn publish(&self, records: Vec<Stored>) {
        let mut inner = self.inner();
        for stored in records {
            inner.bounds.end = stored.offset + 1;
            inner.tail_bytes += stored.record.value.len();
            inner.tail.push_back(stored);
        }
        while inner.tail.len() > TAIL_RECORDS || inner.tail_bytes > TAIL_BYTES {
            let Some(old) = inner.tail.pop_front() else { break };
            inner.tail_bytes -= old.record.value.len();
        }
        inner.waiting.retain(|w| w.upgrade().inspect(|n| n.notify_one()).is_some());
    }

    /// The file ends at `end`, whatever memory thought. (A trimmed, empty table says 0; its start is the better answer.)
    pub(super) fn resume_at(&self, end: Offset) {
        let mut inner = self.inner();
        let end = end.max(inner.bounds.start);
        if end != inner.bounds.end {
            inner.bounds.end = end;
            inner.tail.clear();
            inner.tail_bytes = 0;
        }
        inner.waiting.retain(|w| w.upgrade().inspect(|n| n.notify_one()).is_some());
    }

    /// Up to `limit` records from `from` on, if memory still has them.
    pub(super) fn recent(&self, from: Offset, limit: usize) -> Option<Vec<Stored>> {
        let inner = self.inner();
        let first = inner.tail.front()?.offset;
        let skip = usize::try_from(from.checked_sub(first)?).ok()?;
        (skip < inner.tail.len()).then(|| inner.tail.iter().skip(skip).take(limit).cloned().collect())
    }

    pub(super) fn wake(&self, notify: &Arc<Notify>) {
        self.inner().waiting.push(Arc::downgrade(notify));
    }

    pub(super) fn ask_trim(&self, before: Offset) {
        let mut inner = self.inner();
        inner.trim_before = inner.trim_before.max(before.min(inner.bounds.end));
    }

    /// The next offsets to let go, at most `limit` of them.
    pub(super) fn trim_step(&self, limit: u64) -> Option<Range<Offset>> {
        let inner = self.inner();
        let end = inner.trim_before.min(inner.bounds.start + limit);
        (end > inner.bounds.start).then_some(inner.bounds.start..end)
    }

    pub(super) fn trimmed(&self, start: Offset) {
        let mut inner = self.inner();
        inner.bounds.start = start;
        while inner.tail.front().is_some_and(|s| s.offset < start) {
            if let Some(old) = inner.tail.pop_front() {
                inner.tail_bytes -= old.record.value.len();
            }
        }
    }
}
