//! The people of the sites: about one visible act every 15 to 30 s / pace, most of them mended later; never more than one machine in
//! twenty broken at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::world::{Hand, State, World};

const PEOPLE: [&str; 3] = ["alice", "bob", "carol"];

/// A machine that somebody may break: it is active in NetBox and in plain use in SLURM.
struct Victim {
    device: u64,
    site: String,
    slurm_node: String,
}

/// What somebody has promised to do later.
enum Mend {
    Resume(Victim),
    StartSlurmd(Victim),
    Activate { device: u64, from: &'static str, user: &'static str },
}

/// Lives for ever.
pub(crate) async fn live(world: Arc<World>, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_add(0x7065_6f70_6c65));
    let mut promises: Vec<(Instant, Mend)> = Vec::new();
    let pause = world.span(1.0).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let mut next = Instant::now() + world.span(rng.random_range(15.0..30.0));
    loop {
        tokio::time::sleep(pause).await;
        let now = Instant::now();
        for (_, mend) in promises.extract_if(.., |(due, _)| *due <= now) {
            world.mend(mend);
        }
        world.resume_one_stuck(&mut rng);
        if now >= next {
            next = now + world.span(rng.random_range(15.0..30.0));
            let mend = world.act(&mut rng);
            promises.extend(mend.map(|mend| (now + world.span(rng.random_range(60.0..180.0)), mend)));
        }
    }
}

impl World {
    /// Names of the broken machines: failed or offline in NetBox, or down, silent or drained by somebody other than the fleet manager
    /// (reason without `fleet:`). A device without a SLURM node is named `#id`.
    pub fn broken(&self) -> BTreeSet<String> {
        self.lock().broken()
    }

    /// One act. What it breaks is mended later.
    fn act(&self, rng: &mut ChaCha8Rng) -> Option<Mend> {
        let mut state = self.lock();
        let user = PEOPLE.choose(rng).copied().unwrap_or("alice");
        let may_break = state.broken().len() < (self.fleet / 20).max(1);
        match rng.random_range(0..6) {
            0 if may_break => {
                let victim = state.victim(rng)?;
                tracing::info!(site = victim.site, slurm_node = victim.slurm_node, "people: drain for a memory test");
                state.on_node(self.pace, &victim.site, &victim.slurm_node, |n, at| n.drain("admin: memory test", "root", at))?;
                Some(Mend::Resume(victim))
            }
            1 if may_break => {
                let victim = state.victim(rng)?;
                tracing::info!(site = victim.site, slurm_node = victim.slurm_node, "people: slurmd dies");
                state.on_node(self.pace, &victim.site, &victim.slurm_node, |n, at| n.kill_slurmd(at))?;
                Some(Mend::StartSlurmd(victim))
            }
            2 if may_break => {
                let victim = state.victim(rng)?;
                let from = if rng.random_bool(0.5) { "failed" } else { "offline" };
                tracing::info!(device = victim.device, status = from, user, "people: edit a status");
                state.edit_device(victim.device, &Hand::of(user), |d| d.status = from.to_owned())?;
                Some(Mend::Activate { device: victim.device, from, user })
            }
            kind => {
                state.harmless(kind, user, rng);
                None
            }
        }
    }

    fn mend(&self, mend: Mend) {
        let mut state = self.lock();
        match mend {
            Mend::Resume(Victim { site, slurm_node, .. }) => {
                tracing::info!(site, slurm_node, "people: resume after the memory test");
                state.on_node(self.pace, &site, &slurm_node, |node, at| {
                    if node.has("DRAIN") && node.reason.starts_with("admin:") && node.resume(at) {
                        node.settle(at);
                    }
                });
            }
            Mend::StartSlurmd(Victim { site, slurm_node, .. }) => {
                tracing::info!(site, slurm_node, "people: restart slurmd");
                state.on_node(self.pace, &site, &slurm_node, |node, at| node.start_slurmd(at));
            }
            Mend::Activate { device, from, user } => {
                if state.devices.get(&device).is_some_and(|d| d.status == from) {
                    tracing::info!(device, user, "people: status back to active");
                    state.edit_device(device, &Hand::of(user), |d| d.status = "active".to_owned());
                }
            }
        }
    }

    /// Some time after its slurmd came back, somebody resumes a node that is still DOWN and that nobody drains.
    fn resume_one_stuck(&self, rng: &mut ChaCha8Rng) {
        let mut state = self.lock();
        let nodes = state.clusters.iter().flat_map(|c| c.nodes.values());
        let stuck = nodes.filter(|n| n.base() == "DOWN" && !n.has("DRAIN") && n.slurmd_alive).map(|n| (n.site.clone(), n.name.clone()));
        let stuck: Vec<_> = stuck.collect();
        if let Some((site, name)) = stuck.choose(rng)
            && rng.random_bool(0.05)
        {
            state.on_node(self.pace, site, name, |node, at| {
                if node.resume(at) {
                    node.settle(at);
                }
            });
        }
    }
}

impl State {
    fn broken(&self) -> BTreeSet<String> {
        let nodes = self.clusters.iter().flat_map(|c| c.nodes.values()).filter(|n| {
            let silent = n.has("NOT_RESPONDING") && n.timers.settled.is_none();
            !n.slurmd_alive || n.base() == "DOWN" || silent || (n.has("DRAIN") && !n.reason.starts_with("fleet:"))
        });
        let devices = self.devices.values().filter(|d| matches!(d.status.as_str(), "failed" | "offline"));
        let device_name = |id: u64, slurm_node: Option<&str>| slurm_node.map_or_else(|| format!("#{id}"), str::to_owned);
        nodes
            .map(|n| n.name.clone())
            .chain(devices.map(|d| device_name(d.id, d.custom_fields.get("slurm_node").and_then(|v| v.as_str()))))
            .collect()
    }

    fn victim(&self, rng: &mut ChaCha8Rng) -> Option<Victim> {
        let victim = |id: u64| {
            let device = self.devices.get(&id).filter(|d| d.status == "active")?;
            let name = device.custom_fields.get("slurm_node")?.as_str()?;
            let node = self.cluster(&device.site)?.nodes.get(name).filter(|n| n.plain() && n.slurmd_alive)?;
            Some(Victim { device: id, site: node.site.clone(), slurm_node: node.name.clone() })
        };
        let candidates: Vec<Victim> = self.devices.keys().filter_map(|id| victim(*id)).collect();
        let at = rng.random_range(0..candidates.len().max(1));
        candidates.into_iter().nth(at)
    }

    /// Edits that break nothing: a rename, a move to another rack, a tag.
    fn harmless(&mut self, kind: u32, user: &str, rng: &mut ChaCha8Rng) {
        let ids: Vec<u64> = self.devices.keys().copied().collect();
        let Some(device) = ids.choose(rng).and_then(|id| self.devices.get(id)).cloned() else { return };
        let (catalog, by) = (self.catalog.clone(), Hand::of(user));
        tracing::info!(device = device.id, kind, user, "people: edit a device");
        match kind % 3 {
            0 => {
                let Some(name) = device.name.clone().filter(|n| !n.is_empty()) else { return };
                let new = name.strip_suffix("-b").map_or_else(|| format!("{name}-b"), str::to_owned);
                self.edit_device(device.id, &by, |d| d.name = Some(new));
            }
            1 => {
                let others = catalog.racks.rows().iter().filter(|r| r.within == device.site && Some(&r.slug) != device.rack.as_ref());
                let others: Vec<_> = others.collect();
                let Some(rack) = others.choose(rng) else { return };
                self.edit_device(device.id, &by, |d| d.rack = Some(rack.slug.clone()));
            }
            _ => {
                let tag = ["burned-in", "rack-check", "watch"].choose(rng).copied().unwrap_or("watch");
                self.edit_device(device.id, &by, |d| match d.tags.iter().position(|t| t == tag) {
                    Some(at) => _ = d.tags.remove(at),
                    None => d.tags.push(tag.to_owned()),
                });
            }
        }
    }
}
