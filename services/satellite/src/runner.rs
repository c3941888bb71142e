//! Running agents: [`run`] looks and puts into the outbox, [`drain`] sends what is there. They share nothing but the outbox, so a hub that
//! is away stops no look.

use crate::outbox::{Finished, OutboxError, on_disk};
use crate::{Agent, ClientError, Clock, DeviceList, ErrorClass, Look, Memory, Outbox, Sweep};
use backon::{BackoffBuilder, ExponentialBuilder};
use fleet_schemas::{BootId, DeviceId, LookFault, MINUTE, Micros, Observation, SiteId, Source, Timestamp};
use std::{collections::BTreeSet, convert::Infallible, future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

/// One call of the hub takes at most this long; then it is asked again (observations carry ids, so repeats are known).
const HUB_DEADLINE: Duration = Duration::from_secs(60);
/// A device list that takes longer waits for the next look: looks must not wait for the hub.
const LIST_DEADLINE: Duration = Duration::from_secs(5);
/// Age at which the device list is asked for again, though the hub did not say that it changed.
const LIST_EVERY: Duration = Duration::from_secs(300);
/// A list without a linked device, as a new site has it, is asked for again after this, and after twice as long each time.
const SOON: Duration = Duration::from_secs(2);
/// What is sent later than this after it was seen does not speak of now: the hub confirms nothing by it.
const BACKFILL: Micros = 10 * MINUTE;
/// Between two tries.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// A boxed future, so that [`Sink`] is object safe.
pub type Fut<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The hub, as a satellite needs it.
pub trait Sink: Send + Sync + 'static {
    /// Claims the next epoch of (site, source) for this boot; a repeat for the same boot gives the same epoch.
    fn epoch(&self, site: SiteId, source: Source, boot: BootId) -> Fut<'_, Result<u64, SendError>>;
    /// Hands over observations of one site and one source, in order, at least one. `Ok` = the log has all of them.
    fn send(&self, batch: Vec<Observation>) -> Fut<'_, Result<(), SendError>>;
    /// The devices of a site.
    fn devices(&self, site: SiteId) -> Fut<'_, Result<DeviceList, SendError>>;
    /// Ends when the hub has said that its list is another than the one it last gave.
    fn relist(&self) -> Fut<'_, ()>;
}

/// Why the hub did not take something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SendError {
    /// Ask again later: it is away, or refuses for now.
    #[error("{0}")]
    Retry(String),
    /// Ask again when this has passed, not before: it said so (`Retry-After`).
    #[error("{0}; again in {after} s", after = .1.as_secs())]
    Later(String, Duration),
    /// The body is too large (413): with fewer items it would be taken.
    #[error("too large: {0}")]
    TooLarge(String),
    /// A newer boot of this agent exists (409 `superseded`).
    #[error("superseded: {0}")]
    Superseded(String),
}

impl SendError {
    /// How long to wait at least before asking again.
    fn wait(&self) -> Duration {
        match self {
            Self::Later(_, after) => *after,
            Self::Retry(_) | Self::TooLarge(_) | Self::Superseded(_) => Duration::ZERO,
        }
    }
}

/// Why an agent stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A newer boot of this agent exists: two satellites serve one site. A person must look. Holds the hub's words.
    #[error("a newer boot of this agent exists: {0}")]
    Superseded(String),
    /// What it saw cannot be kept.
    #[error(transparent)]
    Outbox(#[from] OutboxError),
}

/// How an agent is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This start of the process.
    pub boot: BootId,
    /// A look that takes longer has failed. `None` = the agent's interval, at least 120 s.
    pub look_deadline: Option<Duration>,
    /// Age at which the device list is asked for again; the hub's word that it changed is heeded at once. [`Settings::new`]: 300 s.
    pub list_every: Duration,
}

impl Settings {
    /// With the usual spans.
    pub fn new(boot: BootId) -> Self {
        Self { boot, look_deadline: None, list_every: LIST_EVERY }
    }
}

/// Runs an agent until `cancel`: waits until [`drain`] has sent what an earlier run left, claims its epochs, then looks at once, each
/// interval from start to start, at once when devices were linked that the last look was not given, and when `poke` tells it to.
///
/// # Errors
/// If a newer boot of the agent exists, or the outbox fails.
pub async fn run<A: Agent>(
    agent: A,
    outbox: Arc<Outbox>,
    sink: Arc<dyn Sink>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    poke: Arc<Notify>,
    cancel: CancellationToken,
) -> Result<(), RunError> {
    let sites = agent.sites().to_vec();
    let runner = Runner { agent, outbox, sink, clock, settings };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(()),
        stopped = runner.for_ever(&sites, &poke) => {
            tracing::error!(source = %A::SOURCE, ?sites, error = %stopped, "an agent stops");
            Err(stopped)
        }
    }
}

struct Runner<A> {
    agent: A,
    outbox: Arc<Outbox>,
    sink: Arc<dyn Sink>,
    clock: Arc<dyn Clock>,
    settings: Settings,
}

impl<A: Agent> Runner<A> {
    async fn for_ever(mut self, sites: &[SiteId], poke: &Notify) -> RunError {
        let outbox = self.outbox.clone();
        if let Err(error) = outbox.emptied(A::SOURCE, sites).await {
            return error.into();
        }
        if let Err(error) = self.claim(sites).await {
            return error;
        }
        tokio::select! {
            why = outbox.superseded(A::SOURCE, sites) => RunError::Superseded(why),
            Err(error) = self.look_for_ever(sites, poke) => error,
        }
    }

    async fn claim(&self, sites: &[SiteId]) -> Result<(), RunError> {
        let (source, boot) = (A::SOURCE, self.settings.boot);
        let mut epochs = Vec::new();
        for site in sites {
            let epoch = insist("claim an epoch", || self.sink.epoch(site.clone(), source, boot)).await?;
            tracing::info!(%site, %source, epoch, "epoch claimed");
            epochs.push((site.clone(), epoch));
        }
        Ok(on_disk(&self.outbox, move |o| o.begin(source, boot, &epochs)).await?)
    }

    async fn look_for_ever(&mut self, sites: &[SiteId], poke: &Notify) -> Result<Infallible, RunError> {
        let source = A::SOURCE;
        let mut memory = on_disk(&self.outbox, move |o| o.memory(source)).await?;
        let mut devices = DeviceList::default();
        for site in sites.iter().filter(|_| A::LINK.is_some()) {
            devices.devices.extend(insist("list devices", || self.sink.devices(site.clone())).await?.devices);
        }
        let mut listed = Instant::now();
        loop {
            let (started, now) = (Instant::now(), self.clock.now());
            let sweep = self.look(&devices, &memory, now).await;
            let changes = sweep.memory.clone();
            let (interval, all) = (self.agent.interval(), sites.to_vec());
            let queued = on_disk(&self.outbox, move |o| o.put(Finished { source, sites: &all, interval, now, sweep })).await?;
            memory.apply(&changes);
            tracing::debug!(%source, queued, took_ms = started.elapsed().as_millis() as u64, "looked");
            devices = self.next(sites, poke, started + interval, devices, &mut listed).await?;
        }
    }

    /// Waits for the next look: until `due`, a poke, or a changed list with devices whose link `last` had not. Gives the list to look with.
    async fn next(
        &self,
        sites: &[SiteId],
        poke: &Notify,
        due: Instant,
        last: DeviceList,
        listed: &mut Instant,
    ) -> Result<DeviceList, RunError> {
        let linked = |list: &DeviceList| -> BTreeSet<(DeviceId, String)> {
            list.devices.iter().filter_map(|d| Some((d.id, A::LINK?(d)?.to_owned()))).collect()
        };
        let (mut last, mut soon) = (last, SOON);
        loop {
            let none = A::LINK.is_some() && linked(&last).is_empty();
            let must = tokio::select! {
                () = tokio::time::sleep_until(due) => true,
                () = poke.notified() => true,
                () = tokio::time::sleep(soon), if none => {
                    soon = (soon * 2).min(self.settings.list_every);
                    false
                }
                () = self.sink.relist(), if A::LINK.is_some() => false,
            };
            // Half an interval early rather than a whole one late.
            let old = listed.elapsed() + self.agent.interval() / 2 >= self.settings.list_every;
            if must && (A::LINK.is_none() || !old) {
                return Ok(last);
            }
            *listed = Instant::now();
            match self.fresh_devices(sites).await {
                Ok(fresh) if must || !linked(&fresh).is_subset(&linked(&last)) => return Ok(fresh),
                Ok(fresh) => last = fresh,
                Err(SendError::Superseded(why)) => return Err(RunError::Superseded(why)),
                Err(SendError::Retry(why) | SendError::Later(why, _) | SendError::TooLarge(why)) => {
                    tracing::warn!(source = %A::SOURCE, why, "the device list stays as it was");
                    if must {
                        return Ok(last);
                    }
                }
            }
        }
    }

    /// One look within its deadline; a failure becomes a sweep that says so.
    async fn look(&mut self, devices: &DeviceList, memory: &Memory, now: Timestamp) -> Sweep {
        let deadline = self.settings.look_deadline.unwrap_or_else(|| self.agent.interval().max(Duration::from_secs(120)));
        let late = |_| {
            let came = format!("not complete within {} s", deadline.as_secs_f32());
            Err(ClientError::new(ErrorClass::Transient, format!("look at {}", A::SOURCE), came, LookFault::NoData))
        };
        let look = Look { devices, memory, now, half_time: Instant::now() + deadline / 2 };
        let looked = tokio::time::timeout(deadline, self.agent.look(look)).await.unwrap_or_else(late);
        let sweep = looked.unwrap_or_else(|error| Sweep { failed: Some(error), ..Sweep::default() });
        if let Some(error) = &sweep.failed {
            tracing::warn!(source = %A::SOURCE, class = ?error.class, fault = %error.fault, %error, "a look failed");
        }
        sweep
    }

    async fn fresh_devices(&self, sites: &[SiteId]) -> Result<DeviceList, SendError> {
        let mut fresh = DeviceList::default();
        for site in sites {
            fresh.devices.extend(within(LIST_DEADLINE, self.sink.devices(site.clone())).await?.devices);
        }
        Ok(fresh)
    }
}

/// A call of the hub with a deadline.
async fn within<T>(deadline: Duration, call: Fut<'_, Result<T, SendError>>) -> Result<T, SendError> {
    let late = |_| Err(SendError::Retry(format!("no answer within {} s", deadline.as_secs())));
    tokio::time::timeout(deadline, call).await.unwrap_or_else(late)
}

/// Growing, jittered delays, for ever.
fn delays() -> impl Iterator<Item = Duration> {
    let builder = ExponentialBuilder::default().with_min_delay(Duration::from_millis(200)).with_max_delay(LONGEST_DELAY);
    builder.with_jitter().without_max_times().build()
}

/// Asks the hub until it answers.
async fn insist<'a, T>(what: &str, call: impl Fn() -> Fut<'a, Result<T, SendError>>) -> Result<T, RunError> {
    for delay in delays() {
        match within(HUB_DEADLINE, call()).await {
            Ok(value) => return Ok(value),
            Err(SendError::Superseded(why)) => return Err(RunError::Superseded(why)),
            Err(refused) => {
                tracing::warn!(what, why = %refused, "the hub does not do it yet; asking again");
                tokio::time::sleep(delay.max(refused.wait())).await;
            }
        }
    }
    // The delays never end.
    std::future::pending().await
}

/// A lane: what one roster client sends, in order.
#[derive(Clone)]
pub struct LaneSpec {
    /// The source that the client looks at.
    pub source: Source,
    /// The sites that it speaks for.
    pub sites: Vec<SiteId>,
    /// Its way to the hub.
    pub sink: Arc<dyn Sink>,
}

/// Sends what is in the outbox until `cancel`: per lane in order, one batch in flight, deleted after it was acknowledged, never dropped
/// but for what a newer boot of the agent has made worthless, or what is older than the outbox keeps.
///
/// # Errors
/// If the outbox fails.
pub async fn drain(outbox: Arc<Outbox>, lanes: Vec<LaneSpec>, clock: Arc<dyn Clock>, cancel: CancellationToken) -> Result<(), OutboxError> {
    let mut running = JoinSet::new();
    for spec in lanes {
        let lane = Lane { spec, outbox: outbox.clone(), clock: clock.clone() };
        running.spawn(lane.for_ever());
    }
    // A satellite without a lane has nothing to send.
    let ended = async {
        match running.join_next().await {
            Some(ended) => ended,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = cancel.cancelled() => Ok(()),
        ended = ended => match ended {
            Ok(Err(error)) => Err(error),
            Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
            // A lane ends only by an error.
            _ => Ok(()),
        },
    }
}

struct Lane {
    spec: LaneSpec,
    outbox: Arc<Outbox>,
    clock: Arc<dyn Clock>,
}

impl Lane {
    async fn for_ever(self) -> Result<Infallible, OutboxError> {
        let source = self.spec.source;
        let mut changes = self.outbox.changes();
        let (mut delays, mut most) = (delays(), i64::MAX);
        loop {
            changes.borrow_and_update();
            let sites = self.spec.sites.clone();
            let Some(batch) = on_disk(&self.outbox, move |o| o.head(source, &sites, most)).await? else {
                // The sender lives as long as the outbox that self holds.
                _ = changes.changed().await;
                continue;
            };
            let (site, last) = (batch.site, batch.last);
            let sent_at = self.clock.now();
            let (count, epoch) =
                (batch.observations.len() as i64, batch.observations.iter().map(|o| o.source_seq.epoch).min().unwrap_or(0));
            let backfill = batch.observations.iter().any(|o| sent_at.since(o.observed_at) > BACKFILL);
            let observations: Vec<_> = batch.observations.into_iter().map(|o| Observation { sent_at, ..o }).collect();
            match within(HUB_DEADLINE, self.spec.sink.send(observations)).await {
                Ok(()) => {
                    on_disk(&self.outbox, move |o| o.acknowledge(source, &site, last, backfill)).await?;
                    (delays, most) = (self::delays(), i64::MAX);
                }
                Err(SendError::TooLarge(why)) if count > 1 => {
                    tracing::debug!(%site, %source, why, count, "sending fewer at once");
                    most = count / 2;
                }
                Err(SendError::TooLarge(why)) => {
                    tracing::error!(%site, %source, why, "an observation is too large for the hub: it is put aside, in the outbox's table `refused`");
                    on_disk(&self.outbox, move |o| o.put_aside(last, sent_at, &why)).await?;
                }
                Err(SendError::Superseded(why)) => {
                    let (at, words) = (site.clone(), why.clone());
                    let dropped = on_disk(&self.outbox, move |o| o.supersede(source, &at, epoch, &words)).await?;
                    tracing::error!(%site, %source, why, dropped, "a newer boot of this agent exists: what this one queued is dropped");
                }
                Err(refused @ (SendError::Retry(_) | SendError::Later(..))) => {
                    tracing::warn!(%site, %source, why = %refused, "the hub did not take observations; sending again");
                    on_disk(&self.outbox, move |o| o.let_go(sent_at)).await?;
                    tokio::time::sleep(delays.next().unwrap_or(LONGEST_DELAY).max(refused.wait())).await;
                }
            }
        }
    }
}
