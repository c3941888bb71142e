//! The one world behind all faces: inventory as NetBox sees it, clusters as SLURM sees them.
//!
//! Everything is behind one lock that is never held across an await. Methods take effect at once; those for tests panic on a name that
//! does not exist, so that a typing error in a test cannot look like a passed test.

mod bulk;
mod catalog;
mod change;
mod clockwork;
mod cluster;
mod device;
mod faults;
mod inventory;
mod seed;
mod slurm_node;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, SubsecRound, TimeDelta, Utc};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use bulk::Bulk;
pub(crate) use catalog::{Catalog, Place};
pub(crate) use change::{Action, Change};
pub(crate) use clockwork::run;
pub(crate) use cluster::{Cluster, Partition, Release, Reservation};
pub use device::{Device, NewDevice};
pub use faults::{NetboxFault, SlurmFault};
pub(crate) use inventory::Hand;
pub(crate) use slurm_node::Moment;
pub use slurm_node::SlurmNode;

use crate::sim::Options;

/// How many requests [`World::requests`] remembers.
const REQUESTS_KEPT: usize = 10_000;

/// One request that reached a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// `netbox`, or the site's name for its SLURM face.
    pub face: String,
    /// The HTTP method in capitals.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
}

/// The simulated world. Shared by the faces, the people and the test.
pub struct World {
    /// How much faster than a real site the people, the work and the slurmd time-outs are; 1.0 = demo pace.
    pub(crate) pace: f64,
    /// Number of devices at the start; the cap on broken machines refers to it.
    pub(crate) fleet: usize,
    state: Mutex<State>,
}

/// What the lock guards.
pub(crate) struct State {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) devices: BTreeMap<u64, Arc<Device>>,
    pub(crate) changes: BTreeMap<u64, Arc<Change>>,
    pub(crate) next_device: u64,
    pub(crate) next_change: u64,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) netbox_fault: NetboxFault,
    pub(crate) rng: ChaCha8Rng,
    clock: DateTime<Utc>,
    requests: VecDeque<Request>,
}

impl State {
    /// The time now, later than every time given out before (NetBox orders by it, at microseconds).
    pub(crate) fn now(&mut self) -> DateTime<Utc> {
        self.clock = Utc::now().trunc_subsecs(6).max(self.clock + TimeDelta::microseconds(1));
        self.clock
    }

    pub(crate) fn cluster(&self, site: &str) -> Option<&Cluster> {
        self.clusters.iter().find(|c| c.site == site)
    }

    pub(crate) fn cluster_mut(&mut self, site: &str) -> Option<&mut Cluster> {
        self.clusters.iter_mut().find(|c| c.site == site)
    }
}

/// Seconds since 1970 at the start of 2026.
const EPOCH: i64 = 1_767_225_600;

impl World {
    /// A world grown from `options.seed`; `netbox_url` is what the URLs in NetBox's answers begin with.
    pub(crate) fn new(options: &Options, netbox_url: &str) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        let now = Utc::now().trunc_subsecs(6);
        let catalog = Catalog::new(netbox_url, options.sites, options.devices);
        let (devices, clusters) = seed::grow(options, &catalog, now, &mut rng);
        let state = State {
            next_device: devices.len() as u64 + 1,
            catalog: Arc::new(catalog),
            devices,
            changes: BTreeMap::new(),
            // A database's sequence goes on where it was: a world that starts anew gives no id that an earlier one gave.
            next_change: u64::try_from(now.timestamp() - EPOCH).unwrap_or(1),
            clusters,
            netbox_fault: NetboxFault::None,
            rng,
            clock: now,
            requests: VecDeque::new(),
        };
        Self { pace: options.pace.max(0.001), fleet: options.devices as usize, state: Mutex::new(state) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A test that panicked on a wrong name must not take the rest of the world with it: the state is whole, panics come before changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A span of `seconds` at a real site, at this world's pace.
    pub(crate) fn span(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds / self.pace)
    }

    pub(crate) fn record(&self, face: &str, method: &str, path: &str) {
        let mut state = self.lock();
        if state.requests.len() == REQUESTS_KEPT {
            state.requests.pop_front();
        }
        state.requests.push_back(Request { face: face.to_owned(), method: method.to_owned(), path: path.to_owned() });
    }

    /// The last 10,000 requests to all faces, oldest first: for tests that assert "reads only".
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.iter().cloned().collect()
    }
}
