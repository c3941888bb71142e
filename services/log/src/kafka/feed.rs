//! What several readers of a partition share: those that have come to its end are brought each record once, and not each by a fetch of its
//! own. A reader that falls further behind than what is kept goes on alone until it is level again.

use super::consumers::Consumers;
use super::source::{Source, Wakers};
use crate::port::{Offset, ReadFault, Stored, TopicPartition};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::Notify;

/// Of each partition that several read, at the most: records, and bytes.
const KEPT: (usize, usize) = (2000, 1 << 20);

/// The partitions that are shared.
#[derive(Default)]
pub(super) struct Feeds(Mutex<HashMap<TopicPartition, Weak<Feed>>>);

/// A partition that is fetched for all who are level.
struct Feed(Mutex<Inner>);

struct Inner {
    source: Box<Source>,
    /// The last records, up to the source's next one.
    recent: VecDeque<Stored>,
    bytes: usize,
    /// It told somebody a fault: whoever else reads here asks for themselves.
    failed: bool,
}

/// One reader's part in a feed.
pub(super) struct Member {
    feed: Arc<Feed>,
    wakers: Wakers,
    notify: Arc<Notify>,
}

/// What a look at a feed came to.
pub(super) enum Looked {
    /// Everything that there is was given; where the partition ends, if that is where the reader is.
    Level(Option<Offset>),
    /// What comes next is no longer kept, or the feed failed: read on alone.
    Behind,
}

impl Feeds {
    /// A reader that stands at the end of its partition with a source of its own shares from now on: it joins who is there, or others join
    /// it. Who cannot keeps its source.
    pub(super) fn join(&self, at: &TopicPartition, source: Box<Source>, consumers: &Arc<Consumers>, notify: &Arc<Notify>) -> Joined {
        let mut feeds = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(feed) = feeds.get(at).and_then(Weak::upgrade)
            && !feed.lock().failed
        {
            return feed.admit(source, consumers, notify);
        }
        let (wakers, notify) = (source.wakers.clone(), notify.clone());
        let feed = Arc::new(Feed(Mutex::new(Inner { source, recent: VecDeque::new(), bytes: 0, failed: false })));
        feeds.retain(|_, feed| feed.strong_count() > 0);
        feeds.insert(at.clone(), Arc::downgrade(&feed));
        Joined::In(Member { feed, wakers, notify })
    }
}

/// Whether a reader shares now.
pub(super) enum Joined {
    In(Member),
    Alone(Box<Source>),
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn admit(self: Arc<Self>, source: Box<Source>, consumers: &Arc<Consumers>, notify: &Arc<Notify>) -> Joined {
        let mut inner = self.lock();
        let wakers = inner.source.wakers.clone();
        // Before the look: what comes after it wakes the new one too.
        wakers.add(notify);
        // Nobody there may have looked for a while. Where that fails, each of them finds out why.
        if inner.pump(consumers).is_err() || !inner.covers(source.next) {
            wakers.remove(notify);
            return Joined::Alone(source);
        }
        drop(inner);
        // What its own source would have woken it for may be there already.
        notify.notify_one();
        Joined::In(Member { feed: self, wakers, notify: notify.clone() })
    }
}

impl Inner {
    fn begin(&self) -> Offset {
        self.recent.front().map_or(self.source.next, |first| first.offset)
    }

    fn covers(&self, next: Offset) -> bool {
        (self.begin()..=self.source.next).contains(&next)
    }

    fn pump(&mut self, consumers: &Arc<Consumers>) -> Result<(), ReadFault> {
        let Self { source, recent, bytes, .. } = self;
        let pumped = source.pump(consumers, |stored| {
            *bytes += size(&stored);
            recent.push_back(stored);
        });
        if pumped.is_err() {
            self.failed = true;
            self.source.let_go();
            self.source.wakers.wake();
        }
        pumped
    }

    /// Lets go what is too much, or what nobody else can want.
    fn trim(&mut self, alone: bool) {
        while (alone && !self.recent.is_empty()) || self.recent.len() > KEPT.0 || self.bytes > KEPT.1 {
            let Some(first) = self.recent.pop_front() else { return };
            self.bytes -= size(&first);
        }
    }
}

fn size(stored: &Stored) -> usize {
    stored.record.key.len() + stored.record.value.len()
}

impl Member {
    /// Gives what there is from `next` on.
    pub(super) fn look(&self, consumers: &Arc<Consumers>, next: Offset, mut give: impl FnMut(Stored)) -> Result<Looked, ReadFault> {
        let mut inner = self.feed.lock();
        if inner.failed || !inner.covers(next) {
            return Ok(Looked::Behind);
        }
        let pumped = if next == inner.source.next { inner.pump(consumers) } else { Ok(()) };
        // What came before a fault comes before it here too.
        let from = inner.recent.partition_point(|stored| stored.offset < next);
        inner.recent.range(from..).for_each(|stored| give(stored.clone()));
        inner.trim(self.wakers.count() == 1 || pumped.is_err());
        pumped?;
        Ok(Looked::Level(inner.source.ended.filter(|ended| *ended == inner.source.next)))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.wakers.remove(&self.notify);
    }
}
