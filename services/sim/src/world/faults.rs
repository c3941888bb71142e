//! Faults that a test or a demo switches on; each answers as measured (knowledge/slurm.md section 4, knowledge/netbox.md section 1).

use super::World;

/// What is wrong with a site's SLURM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlurmFault {
    /// Nothing.
    #[default]
    None,
    /// slurmctld is down, slurmrestd answers: 502/1800 (24.11), 500/-1 (22.05). At once, not after the real 9 s.
    ControllerDown,
    /// Every token is refused as if signed with another key: 511/1007 (24.11), 500/-1 (22.05).
    BadToken,
    /// Every token is refused as expired; the answers are those of `BadToken`.
    TokenExpired,
    /// slurmctld hangs: 504/5004 (24.11), 500/-1 (22.05), each after 10 s / pace.
    Hang,
    /// 200 without errors, and no entry in any list.
    EmptyList,
    /// 200, the JSON cut in the middle.
    Truncated,
    /// This HTTP status with a text body, whatever is asked.
    Status(u16),
    /// `PrivateData=nodes` and an ordinary user: 2002 for nodes, empty partitions, 2010 for writes (24.11); 500/-1 (22.05).
    NoRights,
}

/// What is wrong with NetBox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetboxFault {
    /// Nothing.
    #[default]
    None,
    /// 403, no permission.
    Forbidden,
    /// This HTTP status with a text body, whatever is asked.
    Status(u16),
    /// No answer for 60 s / pace, then 504.
    Hang,
    /// 200, every list empty (a permission constraint looks like this).
    EmptyList,
    /// 200, the JSON of lists cut in the middle.
    TruncatedPage,
    /// The first page of a device list is good, later pages are 500.
    HalfSweep,
    /// 200, every filter of a list ignored (a mistyped filter looks like this). Paging still works.
    IgnoreFilters,
    /// The right is narrowed: devices with this id or a higher one are in no list and 404. Their changes are still in the feed.
    HiddenFrom(u64),
}

impl NetboxFault {
    /// Whether a device may not be seen.
    pub(crate) fn hides(self, id: u64) -> bool {
        matches!(self, Self::HiddenFrom(from) if id >= from)
    }
}

impl World {
    /// Sets what is wrong with a site's SLURM from now on.
    ///
    /// # Panics
    /// If there is no such site.
    #[track_caller]
    pub fn slurm_fault(&self, site: &str, fault: SlurmFault) {
        match self.lock().cluster_mut(site) {
            Some(cluster) => cluster.fault = fault,
            None => panic!("no site {site}"),
        }
    }

    /// Sets what is wrong with NetBox from now on.
    pub fn netbox_fault(&self, fault: NetboxFault) {
        self.lock().netbox_fault = fault;
    }
}
