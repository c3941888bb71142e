//! One look: the feed is polled and the devices that it names are read again. When a sweep is due, or so many devices are dirty that a sweep
//! is cheaper, all devices of the sites are walked; what is missed is asked for one by one, and only NetBox's own 404 makes it gone.

use super::agent::{Settings, micros};
use super::client::{Session, Unreadable};
use super::row::{PHASE_FIELD, Row};
use super::state::{Known, State, Swept};
use super::{conditions, conflicts, feed};
use crate::{ClientError, Seen, agent::report};
use fleet_schemas::{
    DeviceId, Fact, Inventory, Micros, NetboxDeviceGone, NetboxDeviceSeen, SiteId, Status, StatusEdit, StreamId, Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use tokio::time::{Instant, timeout_at};

/// Above so many dirty devices a sweep is cheaper (it costs a call per 1,000 devices, reading by id one per 100).
const SWEEP_INSTEAD: usize = 500;
/// Deletes confirmed in one look, so that a look ends; the rest stay dirty.
const CONFIRMED_PER_LOOK: usize = 200;
/// Unexplained misses of one sweep that are looked into: 10, or 5 % of the known devices. More look like a broken filter or permission.
const FEWEST_MISSES: usize = 10;

/// One look's work.
pub(crate) struct Round<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) session: Session<'a>,
    pub(crate) now: Timestamp,
    pub(crate) half_time: Instant,
    pub(crate) state: State,
    /// What went wrong and stopped nothing else.
    pub(crate) failed: Option<ClientError>,
    /// Whether it is a complete look.
    pub(crate) whole: bool,
}

impl Round<'_> {
    /// Takes the feed's changes over; after an error nothing of them.
    pub(crate) async fn read_feed(&mut self, window: Micros, ours: &HashSet<String>) -> Result<(), ClientError> {
        let Some(old) = &self.state.feed else {
            // What changed before the feed begins is for a sweep to find.
            (self.state.feed, self.state.swept) = (Some(feed::begin(&self.session, window).await?), None);
            return Ok(());
        };
        let polled = feed::poll(&self.session, old, window).await?;
        let dirty = self.state.dirty.clone();
        if let Err(error) = feed::note(&self.session, &mut self.state, &polled.changes, ours).await {
            self.state.dirty = dirty;
            return Err(error);
        }
        self.state.feed = Some(polled.feed);
        if polled.unreadable.is_some() {
            (self.state.swept, self.failed) = (None, polled.unreadable);
        }
        Ok(())
    }

    /// Gives what is said, and the state that follows.
    pub(crate) async fn go(mut self) -> Result<(Vec<Seen>, Self), ClientError> {
        let (deletes, updates): (Vec<i64>, Vec<i64>) = self.state.dirty.keys().partition(|id| self.is_deleted(**id));
        let sweeps = self.is_sweep_due() || updates.len() > SWEEP_INSTEAD;
        if !sweeps && self.state.dirty.is_empty() {
            return Ok((Vec::new(), self));
        }
        let before = conflicts(serials(&self.state.known));
        let listed = if sweeps { self.session.sweep(&self.settings.sites).await? } else { self.session.devices(&updates).await? };
        let mut rows: BTreeMap<i64, Row> = listed.read.into_iter().map(|row| (row.id, row)).collect();
        let is_there = |id: &i64| rows.contains_key(id) || listed.unreadable.iter().any(|row| row.id == *id);
        let missed = self.missed(is_there, sweeps);
        let mut deletes = deletes.into_iter().filter(|id| self.state.known.contains_key(id) && !is_there(id));
        let mut absent: Vec<i64> = deletes.by_ref().take(CONFIRMED_PER_LOOK).collect();
        let mut later: BTreeSet<i64> = deletes.collect();
        if sweeps && rows.is_empty() {
            nothing(&self.state, &listed.unreadable, &missed)?;
        }
        match self.too_many(missed.len(), sweeps) {
            None => absent.extend(&missed),
            Some(error) if sweeps => return Err(error),
            // What was read is good all the same.
            Some(error) => {
                (self.failed, self.whole) = (Some(error), false);
                later.extend(&missed);
            }
        }
        let (gone, open) = self.confirm(absent, &mut rows).await;
        later.extend(open);
        let unexplained = missed.iter().filter(|id| gone.contains(id)).count();
        let mut observations = self.vanished(&gone);
        observations.extend(self.unreadable(&listed.unreadable));
        self.learn(rows.values());
        rows.extend(self.partners(&before, &rows).await?);
        observations.extend(self.observe(&rows));
        self.state.dirty.retain(|id, _| later.contains(id));
        if sweeps {
            self.state.swept = Some(Swept { at: self.now, sites: self.settings.sites.clone(), unexplained });
        } else if let Some(swept) = &mut self.state.swept {
            swept.unexplained += unexplained;
        }
        Ok((observations, self))
    }

    pub(crate) fn is_sweep_due(&self) -> bool {
        // A clock that was put back must not put the sweep off: an age below zero is due as well.
        let fresh = |at: Timestamp| (0..micros(self.settings.sweep_every)).contains(&self.now.since(at));
        self.state.swept.as_ref().is_none_or(|last| last.sites != self.settings.sites || !fresh(last.at))
    }

    /// The feed says so.
    fn is_deleted(&self, id: i64) -> bool {
        self.state.dirty.get(&id).is_some_and(|d| d.deleted_by.is_some())
    }

    /// Known devices that should have been listed and were not, without a delete that would explain it.
    fn missed(&self, is_there: impl Fn(&i64) -> bool, sweeps: bool) -> Vec<i64> {
        let asked = |id: &i64| sweeps || self.state.dirty.contains_key(id);
        self.state.known.keys().copied().filter(|id| asked(id) && !is_there(id) && !self.is_deleted(*id)).collect()
    }

    /// Why none of so many missed ones may be marked. Those that a poll misses count together with those of the sweep before it: else a right
    /// that is narrowed empties the fleet a few devices each minute.
    fn too_many(&self, missed: usize, sweeps: bool) -> Option<ClientError> {
        let known = self.state.known.len();
        let most = FEWEST_MISSES.max(known / 20);
        let before = self.state.swept.as_ref().filter(|_| !sweeps).map_or(0, |swept| swept.unexplained);
        let came = format!(
            "{} of {known} known devices are missing, more than {most}: a broken filter or permission looks like this; none is marked as gone",
            missed + before
        );
        (missed > 0 && missed + before > most).then(|| ClientError::malformed("list of /api/dcim/devices/", came))
    }

    /// Asks for devices one by one, while there is time; those that answer go to `rows`. Gives those that NetBox has not, and those that it
    /// said nothing of.
    async fn confirm(&self, mut absent: Vec<i64>, rows: &mut BTreeMap<i64, Row>) -> (BTreeSet<i64>, BTreeSet<i64>) {
        // Another one is first at each look: one that hangs starves no other.
        let looks = self.now.0 / micros(self.settings.interval).max(1);
        let first = looks.rem_euclid(i64::try_from(absent.len()).unwrap_or(i64::MAX).max(1));
        absent.rotate_left(usize::try_from(first).unwrap_or_default());
        let (mut gone, mut open) = (BTreeSet::new(), BTreeSet::new());
        for id in absent {
            if Instant::now() >= self.half_time {
                open.insert(id);
                continue;
            }
            match timeout_at(self.half_time, self.session.device(id)).await {
                Ok(Ok(Some(row))) => _ = rows.insert(id, row),
                Ok(Ok(None)) => _ = gone.insert(id),
                Ok(Err(error)) => {
                    tracing::warn!(netbox_id = id, %error, "whether a device is gone stays open");
                    open.insert(id);
                }
                Err(_) => _ = open.insert(id),
            }
        }
        if !open.is_empty() {
            tracing::warn!(instance = self.settings.instance, devices = open.len(), "missing devices are not confirmed yet");
        }
        (gone, open)
    }

    /// What is said of rows that cannot be read: of a known device that its record is not known now; another one is named in an error.
    fn unreadable(&mut self, unreadable: &[Unreadable]) -> Vec<Seen> {
        let (mut observations, mut named) = (Vec::new(), Vec::new());
        for row in unreadable {
            let Some(inventory) = self.state.known.get(&row.id).and_then(|known| known.inventory.clone()) else {
                named.push(format!("{}: {}", row.id, row.why));
                continue;
            };
            let why = format!("its row cannot be read: {}", row.why);
            let (site, conditions) = (inventory.site.clone(), vec![report("InventoryMatched", Status::Unknown, "NoData", why)]);
            let fact = NetboxDeviceSeen { inventory, conditions, edits: self.edits(row.id) };
            observations.push(self.seen(row.id, &site, fact.into()));
        }
        if !named.is_empty() && self.failed.is_none() {
            let came = format!("200, and devices that cannot be read: {}", named.join("; "));
            self.failed = Some(ClientError::malformed("list of /api/dcim/devices/", came));
        }
        observations
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
            match self.inventory(row) {
                Some(inventory) => _ = self.state.known.insert(row.id, row.known(inventory)),
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
        let rows = self.session.devices(&ids).await?.read;
        self.learn(rows.iter());
        Ok(rows.into_iter().map(|row| (row.id, row)).collect())
    }

    fn observe(&self, rows: &BTreeMap<i64, Row>) -> Vec<Seen> {
        let conflicts = conflicts(serials(&self.state.known));
        let observe = |row: &Row| {
            let inventory = self.inventory(row)?;
            let site = inventory.site.clone();
            let fact = NetboxDeviceSeen { inventory, conditions: conditions(row, conflicts.get(&row.id)), edits: self.edits(row.id) };
            Some(self.seen(row.id, &site, fact.into()))
        };
        rows.values().filter_map(observe).collect()
    }

    /// The record of a row that is at one of our sites.
    fn inventory(&self, row: &Row) -> Option<Inventory> {
        let site = self.settings.sites.iter().find(|site| row.is_at(site))?;
        Some(row.inventory(&self.settings.instance, site, &self.settings.slurm_link))
    }

    /// What people edited, in the order in which they did.
    fn edits(&self, id: i64) -> Vec<StatusEdit> {
        let mut edits = self.state.dirty.get(&id).map(|d| d.edits.clone()).unwrap_or_default();
        edits.sort_by_key(|e| (e.change_id, e.field == PHASE_FIELD));
        edits
    }

    fn seen(&self, id: i64, site: &SiteId, fact: Fact) -> Seen {
        let stream = StreamId::Device(DeviceId::from_netbox(&self.settings.instance, id));
        Seen { stream, site: site.clone(), native_id: id.to_string(), fact, observed_at: self.now }
    }
}

fn serials(known: &BTreeMap<i64, Known>) -> impl Iterator<Item = (i64, Option<&str>)> {
    known.iter().map(|(id, k)| (*id, k.serial.as_deref()))
}

/// Refuses a sweep without a row that can be read, where that says nothing of devices: only deletes that are explained empty a list.
fn nothing(state: &State, unreadable: &[Unreadable], missed: &[i64]) -> Result<(), ClientError> {
    let came = match unreadable.first() {
        None if !state.known.is_empty() && missed.is_empty() => return Ok(()),
        None => "200, and no device at all: a missing permission looks like this".into(),
        Some(row) => format!("200, and none of {} devices can be read; {}: {}", unreadable.len(), row.id, row.why),
    };
    Err(ClientError::malformed("sweep of /api/dcim/devices/", came))
}
