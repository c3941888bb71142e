//! Which hub leads what, where several share the work. Every hub beats in a topic of its own and reads what all beat; from that each
//! works out alone which partitions it is to claim, keep and give back. A wrong answer costs a term, never safety: that is the fence's.
//!
//! The preferred leader of a partition is its rendezvous hash over the hubs whose beats were unbroken for a minute (over all that live,
//! where none is so old). It claims what nobody lists; another hub claims that only when the preferred one is late. A leader that is no
//! longer preferred gives back. Nobody accuses others while its own beat does not come back: then the log is away, not the others.

mod view;

use crate::{Config, Phase, Status, partition::jitter};
use fleet_log::{AppendError, Error, EventLog, Fut, Item, Reader, Record, TopicPartition};
use fleet_schemas::{BootId, Inputs, Lease, Led, SECOND, Timestamp, decode, encode, topics as names};
use std::collections::{BTreeMap, BTreeSet};
use std::{sync::Arc, time::Duration, time::Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::View;

/// How often a hub says that it lives.
const BEAT: Duration = Duration::from_millis(250);
/// Unheard for so long, a hub counts as dead.
pub(crate) const DEAD: Duration = Duration::from_secs(2);
/// A leader whose loop did not go round for so long no longer lists its partition.
const STUCK: Duration = Duration::from_secs(10);
/// By how much the clock may differ from the log's.
const CLOCK: i64 = 2 * SECOND;

/// What this hub is to lead, and how far the others have decided what they lead.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Turns {
    /// Partitions to claim and keep.
    pub mine: BTreeSet<u32>,
    /// Of partitions that others lead: how far the inputs are decided there.
    pub decided: BTreeMap<u32, Inputs>,
}

impl Turns {
    /// Of the only hub there is.
    pub(crate) fn all(partitions: u32) -> Self {
        Self { mine: (0..partitions).collect(), decided: BTreeMap::new() }
    }
}

/// A hub among others.
#[derive(Clone, Debug)]
pub struct Hubs {
    /// Its name, the same after a restart: what it led before falls to it again.
    pub name: String,
    /// Whether it leads anything; one that does not follows, and serves.
    pub leads: bool,
}

pub(crate) struct Leases {
    config: Config,
    hub: Hubs,
    boot: BootId,
    statuses: Vec<watch::Receiver<Status>>,
    turns: watch::Sender<Arc<Turns>>,
    view: View,
    beat: u64,
    /// The beat that is on its way, and since when.
    sent: Option<(Instant, Fut<'static, Result<(), AppendError>>)>,
    clock_is_off: bool,
}

impl Leases {
    pub(crate) fn new(config: Config, hub: Hubs, statuses: Vec<watch::Receiver<Status>>, turns: watch::Sender<Arc<Turns>>) -> Self {
        let boot = BootId(uuid::Uuid::new_v4());
        let view = View::new(boot, hub.name.clone(), Instant::now());
        Self { config, hub, boot, statuses, turns, view, beat: 0, sent: None, clock_is_off: false }
    }

    /// Beats and reads until `cancel`; then says bye, when nothing is led any more.
    pub(crate) async fn run(mut self, cancel: CancellationToken) -> Result<(), Error> {
        let at = self.config.topics.at(names::LEASES, 0);
        let mut next = self.config.log.bounds(at.clone()).await?.end;
        let mut reader = self.config.log.read(&[(at.clone(), next)]);
        let mut tick = tokio::time::interval(BEAT);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return self.bye().await,
                _ = tick.tick() => self.beat(false),
                read = reader.next() => match read {
                    Ok(Item::Record(stored)) => {
                        next = stored.offset + 1;
                        self.heard(&stored);
                    }
                    Ok(Item::End { .. }) => {}
                    Err(error) => {
                        tracing::warn!(%error, "reading the leases is tried again");
                        tokio::time::sleep(jitter(DEAD / 2)).await;
                        reader = reread(&*self.config.log.clone(), &at, &mut next).await;
                    }
                },
                () = landed(&mut self.sent) => self.sent = None,
            }
            self.decide();
        }
    }

    fn beat(&mut self, bye: bool) {
        // One that does not land for so long may never: the client may have met what it does not get over.
        let under_way = self.sent.as_ref().is_some_and(|(since, _)| since.elapsed() < DEAD);
        if !self.hub.leads || (under_way && !bye) {
            return;
        }
        self.beat += 1;
        let mine = self.turns.borrow().mine.clone();
        let led = |status: &watch::Receiver<Status>| {
            let status = status.borrow();
            let lists = status.phase.leads() || (mine.contains(&status.partition) && status.phase.strives());
            let decided = Inputs { commands: status.stats.commands, observations: status.stats.observations };
            (lists && status.progress.elapsed() < STUCK).then_some(Led { partition: status.partition, decided })
        };
        let leads = if bye { vec![] } else { self.statuses.iter().filter_map(led).collect() };
        let declines = self.declines();
        self.view.sent(self.beat, Instant::now());
        let at = self.config.clock.now();
        let lease = Lease { hub: self.hub.name.clone(), boot: self.boot, beat: self.beat, leads, declines, bye, at };
        let record = Record { key: self.boot.to_string().into(), value: encode(&lease).into() };
        self.sent = Some((Instant::now(), self.config.log.append(self.config.topics.at(names::LEASES, 0), vec![record])));
    }

    /// What nobody is to wait for us to lead: all of it while the clock is off, and what has stopped or does not go round here.
    fn declines(&self) -> Vec<u32> {
        let cannot = |status: &watch::Receiver<Status>| {
            let status = status.borrow();
            let stuck = status.progress.elapsed() >= STUCK || matches!(status.phase, Phase::Stopped(_));
            (stuck || self.clock_is_off).then_some(status.partition)
        };
        self.statuses.iter().filter_map(cannot).collect()
    }

    fn heard(&mut self, stored: &fleet_log::Stored) {
        match decode::<Lease>(&stored.record.value) {
            Ok(lease) => {
                if lease.boot == self.boot {
                    self.check_clock(lease.at, Timestamp(stored.appended_at));
                }
                self.view.heard(lease, Instant::now());
            }
            Err(error) => tracing::warn!(offset = stored.offset, %error, "a lease cannot be read; another version wrote it"),
        }
    }

    /// The stamp of the log lies between sending and reading back, or one of the clocks is wrong.
    fn check_clock(&mut self, sent: Timestamp, stamp: Timestamp) {
        let now = self.config.clock.now();
        let off = sent.since(stamp) > CLOCK || stamp.since(now) > CLOCK;
        if off && !self.clock_is_off {
            tracing::error!(%sent, %stamp, %now, "this clock differs from the log's by more than 2 s: this hub leads nothing until it is set");
        }
        metrics::gauge!("fm_hub_clock_off").set(f64::from(u8::from(off)));
        self.clock_is_off = off;
    }

    fn decide(&mut self) {
        let leading: BTreeSet<u32> = self.statuses.iter().map(|s| s.borrow()).filter(|s| s.phase.leads()).map(|s| s.partition).collect();
        let may = self.hub.leads && !self.clock_is_off;
        let standing = self.turns.borrow().mine.clone();
        let mine = if may { self.view.mine(self.config.topics.partitions, &leading, &standing, Instant::now()) } else { BTreeSet::new() };
        let turns = Turns { mine, decided: self.view.decided(Instant::now()) };
        metrics::gauge!("fm_hubs_live").set(self.view.live(Instant::now()) as f64);
        self.turns.send_if_modified(|stands| {
            let differs = **stands != turns;
            if differs {
                *stands = Arc::new(turns);
            }
            differs
        });
    }

    /// What is led is given back first: whoever takes it next need not wait for us to be missed.
    async fn bye(mut self) -> Result<(), Error> {
        let given_back = async {
            for status in &mut self.statuses {
                // A closed channel: the loop is gone.
                let _ = status.wait_for(|s| !s.phase.leads()).await;
            }
        };
        let _ = tokio::time::timeout(DEAD, given_back).await;
        self.beat(true);
        // Where the log is away, we are missed instead.
        let _ = tokio::time::timeout(DEAD / 2, landed(&mut self.sent)).await;
        Ok(())
    }
}

/// Old beats say nothing: where they are gone, or others stand there, it is read on from the end.
async fn reread(log: &dyn EventLog, at: &TopicPartition, next: &mut u64) -> Box<dyn Reader> {
    if let Ok(bounds) = log.bounds(at.clone()).await
        && !(bounds.start..=bounds.end).contains(next)
    {
        *next = bounds.end;
    }
    log.read(&[(at.clone(), *next)])
}

/// Until the beat that is on its way has landed, or failed: the next one says the same.
async fn landed(sent: &mut Option<(Instant, Fut<'static, Result<(), AppendError>>)>) {
    match sent {
        Some((_, sent)) => {
            let _ = sent.await;
        }
        None => std::future::pending().await,
    }
}
