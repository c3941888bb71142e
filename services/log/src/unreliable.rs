//! A wrapper around any log that does to appends what networks and brokers do, from a seed.

use crate::port::{AppendError, Error, EventLog, Fut, Offset, Reader, Record, TopicPartition, TopicSpec};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::{ops::Range, sync::Arc, sync::Mutex, time::Duration};

/// How often what happens, in thousandths of all appends. The rest goes through unharmed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Refused, nothing stored.
    pub not_stored: u32,
    /// Stored, but the answer is lost.
    pub answer_lost: u32,
    /// Nothing stored, but nobody can say.
    pub lost: u32,
    /// Some of the records stored, any of them; nobody can say which.
    pub subset: u32,
    /// Stored twice; the answer is fine.
    pub twice: u32,
    /// Stored late, after appends that came later; nobody can say.
    pub late: u32,
}

impl Faults {
    /// A bad day: each kind in about one of twenty appends.
    pub fn storm() -> Self {
        Self { not_stored: 50, answer_lost: 50, lost: 50, subset: 50, twice: 50, late: 50 }
    }
}

/// See the module.
pub struct Unreliable {
    inner: Arc<dyn EventLog>,
    topic: Arc<str>,
    state: Mutex<(ChaCha8Rng, Faults)>,
}

enum Fate {
    Pass,
    NotStored,
    AnswerLost,
    Lost,
    Subset(Vec<Record>),
    Twice,
    Late(Duration),
}

impl Unreliable {
    /// Faults the appends to `topic` of `inner`.
    pub fn new(inner: Arc<dyn EventLog>, topic: &str, seed: u64, faults: Faults) -> Self {
        Self { inner, topic: topic.into(), state: Mutex::new((ChaCha8Rng::seed_from_u64(seed), faults)) }
    }

    /// From now on these faults.
    pub fn set(&self, faults: Faults) {
        self.state.lock().unwrap_or_else(|e| e.into_inner()).1 = faults;
    }

    fn fate(&self, at: &TopicPartition, records: &[Record]) -> Fate {
        if at.topic != self.topic {
            return Fate::Pass;
        }
        let mut state = self.state.lock().unwrap_or_else(|e| e.into_inner());
        let f = state.1;
        let rng = &mut state.0;
        let mut roll = rng.random_range(0..1000u32);
        let kinds = [f.not_stored, f.answer_lost, f.lost, f.subset, f.twice, f.late];
        let hit = kinds.iter().position(|share| {
            let hit = roll < *share;
            roll = roll.saturating_sub(*share);
            hit
        });
        match hit {
            Some(0) => Fate::NotStored,
            Some(1) => Fate::AnswerLost,
            Some(2) => Fate::Lost,
            Some(3) => Fate::Subset(records.iter().filter(|_| rng.random_bool(0.5)).cloned().collect()),
            Some(4) => Fate::Twice,
            Some(_) => Fate::Late(Duration::from_millis(rng.random_range(1..30))),
            None => Fate::Pass,
        }
    }
}

impl EventLog for Unreliable {
    fn ensure(&self, topics: &[TopicSpec]) -> Fut<'_, Result<(), Error>> {
        self.inner.ensure(topics)
    }

    fn append(&self, at: TopicPartition, records: Vec<Record>) -> Fut<'static, Result<(), AppendError>> {
        let unknown = |what: &'static str| Err(AppendError::Unknown(format!("injected: {what}")));
        match self.fate(&at, &records) {
            Fate::Pass => self.inner.append(at, records),
            Fate::NotStored => Box::pin(async { Err(AppendError::NotStored("injected".into())) }),
            Fate::Lost => Box::pin(async move { unknown("lost") }),
            Fate::AnswerLost => {
                let stored = self.inner.append(at, records);
                Box::pin(async move { stored.await.and_then(|()| unknown("answer lost")) })
            }
            Fate::Subset(some) => {
                let stored = self.inner.append(at, some);
                Box::pin(async move { stored.await.and_then(|()| unknown("subset")) })
            }
            Fate::Twice => {
                let (first, second) = (self.inner.append(at.clone(), records.clone()), self.inner.append(at, records));
                Box::pin(async move { first.await.and(second.await) })
            }
            Fate::Late(delay) => {
                let inner = self.inner.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    // What becomes of it is what the caller may not know.
                    let _ = inner.append(at, records).await;
                });
                Box::pin(async move { unknown("late") })
            }
        }
    }

    fn read(&self, from: &[(TopicPartition, Offset)]) -> Box<dyn Reader> {
        self.inner.read(from)
    }

    fn bounds(&self, at: TopicPartition) -> Fut<'_, Result<Range<Offset>, Error>> {
        self.inner.bounds(at)
    }

    fn trim(&self, at: TopicPartition, before: Offset) -> Fut<'_, Result<(), Error>> {
        self.inner.trim(at, before)
    }
}
