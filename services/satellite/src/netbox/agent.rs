//! The agent of one NetBox, bound to sites.
//!
//! Each look polls the feed and reads the devices again that it names. When a sweep is due, or so many devices are dirty that a sweep is
//! cheaper, it walks all devices of its sites; what the walk misses is asked for one by one, and only NetBox's own 404 makes it gone.

use super::client::{Client, Session};
use super::row::{PHASE_FIELD, Row, SlurmLink};
use super::state::{Known, State, Swept};
use super::{conditions, conflicts, feed};
use crate::error::{ClientError, ErrorClass};
use crate::{Complete, Look, Seen, Sweep};
use fleet_schemas::{
    DeviceId, Fact, LookFault, Micros, NetboxDeviceGone, NetboxDeviceSeen, SiteId, Source, StatusEdit, StreamId, Timestamp,
};
use std::{collections::BTreeMap, collections::BTreeSet, collections::HashSet, path::PathBuf, time::Duration};

/// Above so many dirty devices a sweep is cheaper (it costs a call per 1,000 devices, reading by id one per 100).
const SWEEP_INSTEAD: usize = 500;
/// Deletes confirmed in one look, so that a look ends; the rest stay dirty.
const CONFIRMED_PER_LOOK: usize = 200;
/// Unexplained misses of one sweep that are looked into: 10, or 5 % of the known devices. More look like a broken filter or permission.
const FEWEST_MISSES: usize = 10;

/// Where a NetBox is and what of it is ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Our name for this NetBox; part of every device's id, so it never changes.
    pub instance: String,
    /// Base URL.
    pub url: String,
    /// File with the token, v2 (`nbt_…`) or v1; read anew for each look.
    pub token_file: PathBuf,
    /// Slugs of the sites it speaks for; devices elsewhere are ignored.
    pub sites: Vec<SiteId>,
    /// Between polls of the feed; 60 s is usual.
    pub interval: Duration,
    /// Between full sweeps; 900 s is usual.
    pub sweep_every: Duration,
    /// How far back each poll reads: longer than the longest transaction; 600 s is usual.
    pub window: Duration,
    /// One call, body included; 30 s is usual.
    pub deadline: Duration,
    /// What links a device to a SLURM node; usually the custom field `slurm_node`.
    pub slurm_link: SlurmLink,
}

/// Looks at one NetBox.
pub struct Agent {
    settings: Settings,
    client: Client,
    /// Request ids of our own writes, whose echoes are no edits of people (rule 8). We write nothing yet.
    ours: HashSet<String>,
}

impl Agent {
    /// # Errors
    /// If the URL is none, or no site is named. Nothing is asked yet.
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        if settings.sites.is_empty() {
            return Err(ClientError::new(ErrorClass::Permanent, "sites of NetBox", "none is named", LookFault::NoData));
        }
        let client = Client::new(&settings.url, settings.deadline)?;
        Ok(Self { settings, client, ours: HashSet::new() })
    }
}

impl crate::Agent for Agent {
    const SOURCE: Source = Source::Netbox;

    fn sites(&self) -> &[SiteId] {
        &self.settings.sites
    }

    fn interval(&self) -> Duration {
        self.settings.interval
    }

    async fn look(&mut self, look: Look<'_>) -> Result<Sweep, ClientError> {
        let Settings { instance, token_file, window, .. } = &self.settings;
        let session = self.client.session(token_file)?;
        let window = micros(*window);
        let before = State::load(look.memory, instance);
        let mut state = before.clone();
        // A site that is not bound any more is somebody else's: its devices are neither missing nor gone.
        state.known.retain(|_, known| self.settings.sites.contains(&known.site));
        match &before.feed {
            None => state.feed = Some(feed::begin(&session, window).await?),
            Some(old) => {
                let (changes, read) = feed::poll(&session, old, window).await?;
                feed::note(&session, &mut state, &changes, &self.ours).await?;
                state.feed = Some(read);
            }
        }
        let noted = state.clone();
        match (Round { settings: &self.settings, session, now: look.now, state }.go().await, &before.swept) {
            (Ok((observations, state)), _) => {
                let count = |site: &SiteId| state.known.values().filter(|k| k.site == *site).count() as i64;
                let complete = self.settings.sites.iter().map(|site| Complete { site: site.clone(), count: count(site) }).collect();
                Ok(Sweep { observations, complete, memory: state.changes_since(&before, instance), failed: None })
            }
            // Before the first sweep there is nothing worth keeping: the next look begins anew.
            (Err(error), None) => Err(error),
            // The feed was read: what it made dirty stays so, and is not asked for twice.
            (Err(error), Some(_)) => Ok(Sweep { memory: noted.changes_since(&before, instance), failed: Some(error), ..Sweep::default() }),
        }
    }
}

fn micros(span: Duration) -> Micros {
    Micros::try_from(span.as_micros()).unwrap_or(Micros::MAX)
}

/// Reading what is dirty, or everything.
struct Round<'a> {
    settings: &'a Settings,
    session: Session<'a>,
    now: Timestamp,
    state: State,
}

impl Round<'_> {
    async fn go(mut self) -> Result<(Vec<Seen>, State), ClientError> {
        let (deletes, updates): (Vec<i64>, Vec<i64>) = self.state.dirty.keys().partition(|id| self.is_deleted(**id));
        let sweeps = self.is_sweep_due() || updates.len() > SWEEP_INSTEAD;
        if !sweeps && self.state.dirty.is_empty() {
            return Ok((Vec::new(), self.state));
        }
        let before = conflicts(serials(&self.state.known));
        let rows = if sweeps { self.session.sweep(&self.settings.sites).await? } else { self.session.devices(&updates).await? };
        let mut rows: BTreeMap<i64, Row> = rows.into_iter().map(|row| (row.id, row)).collect();
        let mut absent = self.missed(&rows, sweeps, &updates)?;
        let mut deletes = deletes.into_iter().filter(|id| self.state.known.contains_key(id) && !rows.contains_key(id));
        absent.extend(deletes.by_ref().take(CONFIRMED_PER_LOOK));
        let later: BTreeSet<i64> = deletes.collect();
        let mut gone = BTreeSet::new();
        for id in absent {
            match self.session.device(id).await? {
                Some(row) => _ = rows.insert(id, row),
                None => _ = gone.insert(id),
            }
        }
        let mut observations = self.vanished(&gone);
        self.learn(rows.values());
        rows.extend(self.partners(&before, &rows).await?);
        observations.extend(self.observe(&rows));
        self.state.dirty.retain(|id, _| later.contains(id));
        if sweeps {
            self.state.swept = Some(Swept { at: self.now, sites: self.settings.sites.clone() });
        }
        Ok((observations, self.state))
    }

    fn is_sweep_due(&self) -> bool {
        // A clock that was put back must not put the sweep off: an age below zero is due as well.
        let fresh = |at: Timestamp| (0..micros(self.settings.sweep_every)).contains(&self.now.since(at));
        self.state.swept.as_ref().is_none_or(|last| last.sites != self.settings.sites || !fresh(last.at))
    }

    /// The feed says so.
    fn is_deleted(&self, id: i64) -> bool {
        self.state.dirty.get(&id).is_some_and(|d| d.deleted_by.is_some())
    }

    /// Known devices that should be among the rows and are not, without a delete that would explain it.
    fn missed(&self, rows: &BTreeMap<i64, Row>, sweeps: bool, updates: &[i64]) -> Result<Vec<i64>, ClientError> {
        let known = &self.state.known;
        if !sweeps {
            return Ok(updates.iter().copied().filter(|id| known.contains_key(id) && !rows.contains_key(id)).collect());
        }
        let fail = |came: String| Err(ClientError::new(ErrorClass::Malformed, "sweep of /api/dcim/devices/", came, LookFault::NoData));
        if rows.is_empty() && known.is_empty() {
            return fail("200, and no device at all: a missing permission looks like this".into());
        }
        let missed: Vec<i64> = known.keys().copied().filter(|id| !rows.contains_key(id) && !self.is_deleted(*id)).collect();
        let most = FEWEST_MISSES.max(known.len() / 20);
        if missed.len() > most {
            let came = format!(
                "{} of {} known devices are missing, more than {most}: a broken filter or permission looks like this; none is marked as gone",
                missed.len(),
                known.len()
            );
            return fail(came);
        }
        Ok(missed)
    }

    /// Forgets what is gone, and says so.
    fn vanished(&mut self, gone: &BTreeSet<i64>) -> Vec<Seen> {
        let mut observations = Vec::new();
        for id in gone {
            let Some(known) = self.state.known.remove(id) else { continue };
            let dirty = self.state.dirty.remove(id);
            let noticed_by = if dirty.is_some() { "change-feed" } else { "sweep" };
            let fact = NetboxDeviceGone {
                instance: self.settings.instance.clone(),
                netbox_id: *id,
                deleted_by: dirty.and_then(|d| d.deleted_by),
                noticed_by: noticed_by.into(),
            };
            observations.push(self.seen(*id, &known.site, fact.into()));
        }
        observations
    }

    /// Takes rows over into what is known. One that is at none of our sites (any more) is not ours to speak of: it is not gone, only elsewhere.
    fn learn<'r>(&mut self, rows: impl Iterator<Item = &'r Row>) {
        for row in rows {
            match self.settings.sites.iter().find(|site| row.is_at(site)) {
                Some(site) => _ = self.state.known.insert(row.id, row.known(site)),
                None => {
                    if self.state.known.remove(&row.id).is_some() {
                        tracing::info!(
                            netbox_id = row.id,
                            site = row.site.slug,
                            "a device moved to a site that this agent does not speak for"
                        );
                    }
                }
            }
        }
    }

    /// The devices that were not read and whose conflict changed because another device was.
    async fn partners(&mut self, before: &BTreeMap<i64, Vec<i64>>, rows: &BTreeMap<i64, Row>) -> Result<BTreeMap<i64, Row>, ClientError> {
        let after = conflicts(serials(&self.state.known));
        let concerned: BTreeSet<i64> = before.keys().chain(after.keys()).copied().collect();
        let changed = |id: &i64| before.get(id) != after.get(id) && !rows.contains_key(id) && self.state.known.contains_key(id);
        let ids: Vec<i64> = concerned.into_iter().filter(changed).collect();
        let rows = self.session.devices(&ids).await?;
        self.learn(rows.iter());
        Ok(rows.into_iter().map(|row| (row.id, row)).collect())
    }

    fn observe(&self, rows: &BTreeMap<i64, Row>) -> Vec<Seen> {
        let conflicts = conflicts(serials(&self.state.known));
        let observe = |row: &Row| {
            let site = self.settings.sites.iter().find(|site| row.is_at(site))?;
            let mut edits: Vec<StatusEdit> = self.state.dirty.get(&row.id).map(|d| d.edits.clone()).unwrap_or_default();
            edits.sort_by_key(|e| (e.change_id, e.field == PHASE_FIELD));
            let fact = NetboxDeviceSeen {
                inventory: row.inventory(&self.settings.instance, site, &self.settings.slurm_link),
                conditions: conditions(row, conflicts.get(&row.id)),
                edits,
            };
            Some(self.seen(row.id, site, fact.into()))
        };
        rows.values().filter_map(observe).collect()
    }

    fn seen(&self, id: i64, site: &SiteId, fact: Fact) -> Seen {
        let stream = StreamId::Device(DeviceId::from_netbox(&self.settings.instance, id));
        Seen { stream, site: site.clone(), native_id: id.to_string(), fact, observed_at: self.now }
    }
}

fn serials(known: &BTreeMap<i64, Known>) -> impl Iterator<Item = (i64, Option<&str>)> {
    known.iter().map(|(id, k)| (*id, k.serial.as_deref()))
}
