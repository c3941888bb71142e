//! The world at the start, from the seed alone (but for the times).

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use rand::Rng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::catalog::{RACK_SIZE, racks_per_site};
use super::inventory::custom_fields;
use super::{Catalog, Cluster, Device, Moment, Partition, Release, SlurmFault, SlurmNode};
use crate::sim::Options;

type Devices = BTreeMap<u64, Arc<Device>>;

/// Devices and clusters of a new world.
pub(crate) fn grow(options: &Options, catalog: &Catalog, now: DateTime<Utc>, rng: &mut ChaCha8Rng) -> (Devices, Vec<Cluster>) {
    let mut clusters: Vec<Cluster> = catalog.sites.rows().iter().enumerate().map(|(at, site)| cluster(at, &site.slug, now)).collect();
    let racks = racks_per_site(options.sites, options.devices);
    let mut devices: Vec<Device> = (0..options.devices).map(|i| device(i, options.sites.max(1), racks, now)).collect();
    let mut gpus: Vec<usize> = (0..devices.len()).filter(|i| devices[*i].role == "gpu-node").collect();
    gpus.shuffle(rng);
    let mut members = gpus.clone();
    let total = devices.len();
    for (status, per_mille) in [("planned", 20), ("staged", 20), ("failed", 6), ("offline", 4)] {
        for _ in 0..(total * per_mille + 500) / 1000 {
            let Some(i) = gpus.pop() else { break };
            devices[i].status = status.to_owned();
            if matches!(status, "planned" | "staged") {
                members.retain(|m| *m != i);
            }
        }
    }
    if total >= 20 {
        odd_ones(&mut devices, &mut gpus);
    }
    members.sort_unstable();
    for i in members {
        let site = i % clusters.len().max(1);
        if let Some(cluster) = clusters.get_mut(site) {
            let node = slurm_node(&cluster.site, i as u32, &devices[i].status, options, cluster.release, rng);
            cluster.nodes.insert(node.name.clone(), node);
        }
    }
    (devices.into_iter().map(|d| (d.id, Arc::new(d))).collect(), clusters)
}

fn cluster(at: usize, site: &str, now: DateTime<Utc>) -> Cluster {
    let partition = |name: &str, tier| Partition { name: name.to_owned(), state: "UP".to_owned(), tier };
    Cluster {
        site: site.to_owned(),
        release: if at.is_multiple_of(2) { Release::V24 } else { Release::V22 },
        nodes: BTreeMap::new(),
        partitions: vec![partition("batch", 1), partition("burnin", 10)],
        reservations: Vec::new(),
        fault: SlurmFault::None,
        changed_at: now.timestamp(),
    }
}

fn storage(i: u32) -> bool {
    i % 25 == 24
}

fn device(i: u32, sites: u32, racks: u32, now: DateTime<Utc>) -> Device {
    let site = format!("sim{}", i % sites + 1);
    let place = i / sites;
    let storage = storage(i);
    let name = format!("{}{:03}", if storage { "sto" } else { "gpu" }, i + 1);
    let tags: &[&str] = if storage { &["managed"] } else { &["gpu", "managed"] };
    // Written one after another, an hour ago: times differ by microseconds as in a seeded NetBox.
    let created = now - TimeDelta::hours(1) + TimeDelta::microseconds(i64::from(i) * 1000);
    Device {
        id: u64::from(i) + 1,
        serial: format!("SN{i:07}"),
        asset_tag: Some(format!("AT{i:06}")),
        status: "active".to_owned(),
        rack: Some(format!("{site}-r{:02}", (place / RACK_SIZE) % racks + 1)),
        position: Some(place % RACK_SIZE * 2 + 1),
        site,
        role: if storage { "storage" } else { "gpu-node" }.to_owned(),
        device_type: if storage { "sto-60" } else { ["xe9680", "sys-821ge"][(i % 2) as usize] }.to_owned(),
        tenant: Some(if i % 3 == 2 { "tenant-b" } else { "tenant-a" }.to_owned()),
        description: String::new(),
        tags: tags.iter().map(|t| (*t).to_owned()).collect(),
        custom_fields: custom_fields((!storage).then_some(name.as_str()), if storage { 0 } else { 8 }),
        name: Some(name),
        created,
        last_updated: created + TimeDelta::microseconds(20),
    }
}

/// The identity oddities of a real inventory (knowledge/netbox.md, rule 6), on active devices; their SLURM nodes keep their names.
fn odd_ones(devices: &mut [Device], gpus: &mut Vec<usize>) {
    let mut take = || gpus.pop().unwrap_or(0);
    devices[take()].name = Some(String::new());
    devices[take()].name = None;
    let (one, other) = (take(), take());
    devices[one].serial = devices[other].serial.clone();
    devices[take()].serial = "To be filled by O.E.M.".to_owned();
}

fn slurm_node(site: &str, i: u32, netbox_status: &str, options: &Options, release: Release, rng: &mut ChaCha8Rng) -> SlurmNode {
    let at = Moment::now(options.pace.max(0.001), release, rng.random());
    let mut node = SlurmNode::idle(site, &format!("gpu{:03}", i + 1), i, at.unix);
    match netbox_status {
        "failed" => node.drain("admin: hardware fault", "root", &at),
        "offline" => node.drain("admin: powered off for repair", "root", &at),
        _ => {
            node.use_cpus([0, 0, 0, 16, 64, 64, 128, 128][rng.random_range(0..8)]);
            if options.people && node.alloc_cpus > 0 {
                node.timers.work_ends = Some(at.after(10.0, 180.0));
            }
        }
    }
    node
}
