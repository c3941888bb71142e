//! One site's SLURM, and what tests, people and the REST face do to its nodes.

use std::collections::BTreeMap;

use rand::Rng;

use super::{Moment, SlurmFault, SlurmNode, State, World};

/// The two releases that sites speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// 22.05.8: v0.0.36 to v0.0.38, read only.
    V22,
    /// 24.11.5: v0.0.40 to v0.0.42.
    V24,
}

impl Release {
    pub(crate) fn number(self) -> &'static str {
        match self {
            Self::V22 => "22.05.8",
            Self::V24 => "24.11.5",
        }
    }
}

/// A partition; every node of the site is in both.
pub(crate) struct Partition {
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) tier: u32,
}

/// A reservation over some nodes, for ten hours.
pub(crate) struct Reservation {
    pub(crate) name: String,
    pub(crate) maintenance: bool,
    pub(crate) nodes: Vec<String>,
    pub(crate) start: i64,
}

/// One site's SLURM.
pub(crate) struct Cluster {
    pub(crate) site: String,
    pub(crate) release: Release,
    pub(crate) nodes: BTreeMap<String, SlurmNode>,
    pub(crate) partitions: Vec<Partition>,
    pub(crate) reservations: Vec<Reservation>,
    pub(crate) fault: SlurmFault,
    /// Unix seconds of the last change to a node: `update_time=` compares with it.
    pub(crate) changed_at: i64,
}

impl State {
    /// Does something to a node; None if it does not exist.
    pub(crate) fn on_node<R>(&mut self, pace: f64, site: &str, name: &str, act: impl FnOnce(&mut SlurmNode, &Moment) -> R) -> Option<R> {
        let dice = self.rng.random::<f64>();
        let cluster = self.cluster_mut(site)?;
        let at = Moment::now(pace, cluster.release, dice);
        cluster.changed_at = at.unix;
        cluster.nodes.get_mut(name).map(|node| act(node, &at))
    }
}

impl World {
    /// As [`State::on_node`], locking.
    pub(crate) fn on_node<R>(&self, site: &str, name: &str, act: impl FnOnce(&mut SlurmNode, &Moment) -> R) -> Option<R> {
        self.lock().on_node(self.pace, site, name, act)
    }

    #[track_caller]
    fn must<R>(&self, site: &str, name: &str, act: impl FnOnce(&mut SlurmNode, &Moment) -> R) -> R {
        let done = self.on_node(site, name, act);
        match done {
            Some(done) => done,
            None => panic!("no SLURM node {name} at {site}"),
        }
    }

    #[track_caller]
    fn on_cluster<R>(&self, site: &str, act: impl FnOnce(&mut Cluster) -> R) -> R {
        match self.lock().cluster_mut(site) {
            Some(cluster) => {
                cluster.changed_at = chrono::Utc::now().timestamp();
                act(cluster)
            }
            None => panic!("no site {site}"),
        }
    }

    /// All SLURM nodes of a site, by name. Panics if there is no such site.
    #[track_caller]
    pub fn slurm_nodes(&self, site: &str) -> Vec<SlurmNode> {
        match self.lock().cluster(site) {
            Some(cluster) => cluster.nodes.values().cloned().collect(),
            None => panic!("no site {site}"),
        }
    }

    /// One SLURM node.
    pub fn slurm_node(&self, site: &str, slurm_node: &str) -> Option<SlurmNode> {
        self.lock().cluster(site).and_then(|c| c.nodes.get(slurm_node).cloned())
    }

    /// `scontrol update state=drain`: DRAIN with this reason; running work ends in 10 to 20 s / pace. Panics if there is no such node, as
    /// do all below that take one.
    #[track_caller]
    pub fn drain(&self, site: &str, slurm_node: &str, reason: &str, user: &str) {
        self.must(site, slurm_node, |node, at| node.drain(reason, user, at));
    }

    /// `state=undrain`, without the NOT_RESPONDING that follows at a real site. Lifts any drain, ours or not.
    #[track_caller]
    pub fn undrain(&self, site: &str, slurm_node: &str) {
        self.must(site, slurm_node, |node, at| node.undrain(at));
    }

    /// `state=resume`, without the NOT_RESPONDING that follows at a real site. False if the node was neither drained nor down.
    #[track_caller]
    pub fn resume(&self, site: &str, slurm_node: &str) -> bool {
        self.must(site, slurm_node, |node, at| node.resume(at))
    }

    /// slurmd dies: NOT_RESPONDING after 17 to 19 s / pace, DOWN after 28 to 34 s / pace.
    #[track_caller]
    pub fn kill_slurmd(&self, site: &str, slurm_node: &str) {
        self.must(site, slurm_node, |node, at| node.kill_slurmd(at));
    }

    /// slurmd starts and registers: a node that was given up returns, a drained one stays DOWN+DRAIN.
    #[track_caller]
    pub fn start_slurmd(&self, site: &str, slurm_node: &str) {
        self.must(site, slurm_node, |node, at| node.start_slurmd(at));
    }

    /// Exactly these tokens (base state and flags), which then stay until something else happens; alloc_cpus follow the base state.
    #[track_caller]
    pub fn set_tokens(&self, site: &str, slurm_node: &str, tokens: &[&str]) {
        self.must(site, slurm_node, |node, _| node.set_tokens(tokens));
    }

    /// Work on `cpus` CPUs (0 ends it), which stays until the next call or, on a drained node, ends in 10 to 20 s / pace.
    #[track_caller]
    pub fn allocate(&self, site: &str, slurm_node: &str, cpus: u32) {
        self.must(site, slurm_node, |node, at| {
            node.use_cpus(cpus);
            node.timers.work_ends = (cpus > 0 && node.has("DRAIN")).then(|| at.after(10.0, 20.0));
        });
    }

    /// Puts a node into a reservation (made if need be): RESERVED, and MAINTENANCE if it is one for maintenance.
    #[track_caller]
    pub fn reserve(&self, site: &str, slurm_node: &str, name: &str, maintenance: bool) {
        let start = self.must(site, slurm_node, |node, at| {
            name.clone_into(&mut node.reservation);
            node.add("RESERVED");
            if maintenance {
                node.add("MAINTENANCE");
            }
            at.unix
        });
        self.on_cluster(site, |cluster| {
            let at = cluster.reservations.iter().position(|r| r.name == name).unwrap_or_else(|| {
                cluster.reservations.push(Reservation { name: name.to_owned(), maintenance, nodes: Vec::new(), start });
                cluster.reservations.len() - 1
            });
            if let Some(reservation) = cluster.reservations.get_mut(at) {
                reservation.nodes.push(slurm_node.to_owned());
            }
        });
    }

    /// Takes a node out of its reservation; an empty reservation is gone.
    #[track_caller]
    pub fn unreserve(&self, site: &str, slurm_node: &str, name: &str) {
        self.must(site, slurm_node, |node, _| {
            node.reservation.clear();
            node.remove("RESERVED");
            node.remove("MAINTENANCE");
        });
        self.on_cluster(site, |cluster| {
            for reservation in cluster.reservations.iter_mut().filter(|r| r.name == name) {
                reservation.nodes.retain(|n| n != slurm_node);
            }
            cluster.reservations.retain(|r| !r.nodes.is_empty());
        });
    }

    /// Takes a node out of slurm.conf.
    #[track_caller]
    pub fn remove_slurm_node(&self, site: &str, slurm_node: &str) {
        let removed = self.on_cluster(site, |cluster| cluster.nodes.remove(slurm_node).is_some());
        assert!(removed, "no SLURM node {slurm_node} at {site}");
    }

    /// Adds a node to slurm.conf: IDLE, whatever it was before it was removed. Panics if there is no such site.
    #[track_caller]
    pub fn add_slurm_node(&self, site: &str, slurm_node: &str) {
        self.on_cluster(site, |cluster| {
            let node = SlurmNode::idle(site, slurm_node, cluster.nodes.len() as u32, cluster.changed_at);
            cluster.nodes.insert(slurm_node.to_owned(), node);
        });
    }

    /// Sets a partition's state: UP, DOWN, DRAIN or INACTIVE. Panics if there is no such partition.
    #[track_caller]
    pub fn partition_state(&self, site: &str, name: &str, state: &str) {
        let found = self.on_cluster(site, |cluster| {
            let found = cluster.partitions.iter_mut().find(|p| p.name == name);
            found.map(|p| state.clone_into(&mut p.state)).is_some()
        });
        assert!(found, "no partition {name} at {site}");
    }
}
