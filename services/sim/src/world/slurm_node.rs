//! One SLURM node and what slurmctld does to it (knowledge/slurm.md sections 5 and 8).

use std::time::{Duration, Instant};

use super::Release;

/// Base states; every other token is a flag.
const BASES: [&str; 7] = ["IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE", "UNKNOWN"];

/// The moment of a change: SLURM's seconds, the clock for timers, a throw of the dice (0..1) and how the release behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) unix: i64,
    pub(crate) instant: Instant,
    pub(crate) pace: f64,
    pub(crate) dice: f64,
    pub(crate) release: Release,
}

impl Moment {
    pub(crate) fn now(pace: f64, release: Release, dice: f64) -> Self {
        Self { unix: chrono::Utc::now().timestamp(), instant: Instant::now(), pace, dice, release }
    }

    /// The instant after `low` to `high` seconds at a real site.
    pub(crate) fn after(&self, low: f64, high: f64) -> Instant {
        self.instant + Duration::from_secs_f64((low + (high - low) * self.dice) / self.pace)
    }
}

/// What will happen to a node by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timers {
    /// Running work ends; None = it stays until somebody ends it.
    pub(crate) work_ends: Option<Instant>,
    /// COMPLETING goes.
    pub(crate) completed: Option<Instant>,
    /// The NOT_RESPONDING after RESUME or UNDRAIN goes.
    pub(crate) settled: Option<Instant>,
    /// slurmctld notices that slurmd is silent, then gives it up.
    pub(crate) silent: Option<Instant>,
    pub(crate) given_up: Option<Instant>,
}

/// One SLURM node as slurmctld has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SlurmNode {
    /// The site whose cluster it is in.
    pub site: String,
    /// NodeName.
    pub name: String,
    /// The base state first, then the flags, in capitals; the order of flags means nothing.
    pub tokens: Vec<String>,
    /// Free text; on 24.11 it stays after RESUME.
    pub reason: String,
    /// Who set the reason; empty = nobody.
    pub reason_user: String,
    /// Unix seconds; 0 = never.
    pub reason_changed_at: i64,
    /// All CPUs.
    pub cpus: u32,
    /// CPUs in use.
    pub alloc_cpus: u32,
    /// Partitions it is in.
    pub partitions: Vec<String>,
    /// Features of slurm.conf.
    pub features: Vec<String>,
    /// Generic resources, `gpu:h200:8`.
    pub gres: String,
    /// slurmd's port.
    pub port: u16,
    /// Unix seconds.
    pub slurmd_start_time: i64,
    /// Unix seconds.
    pub boot_time: i64,
    /// Unix seconds.
    pub last_busy: i64,
    /// The reservation that holds it; empty = none.
    pub reservation: String,
    /// Whether slurmd runs on the machine; SLURM learns of its death only later.
    pub slurmd_alive: bool,
    pub(crate) timers: Timers,
}

impl SlurmNode {
    /// A healthy idle node, booted an hour ago. `number` makes port and features differ.
    pub(crate) fn idle(site: &str, name: &str, number: u32, unix: i64) -> Self {
        Self {
            site: site.to_owned(),
            name: name.to_owned(),
            tokens: vec!["IDLE".to_owned()],
            reason: String::new(),
            reason_user: String::new(),
            reason_changed_at: 0,
            cpus: 128,
            alloc_cpus: 0,
            partitions: vec!["batch".to_owned(), "burnin".to_owned()],
            features: vec!["h200".to_owned(), format!("rack{}", number / 16 + 1)],
            gres: "gpu:h200:8".to_owned(),
            port: 16800 + (number % 16000) as u16,
            slurmd_start_time: unix - 3500,
            boot_time: unix - 3600,
            last_busy: unix - 3500,
            reservation: String::new(),
            slurmd_alive: true,
            timers: Timers::default(),
        }
    }

    /// Whether the base state or a flag is this token (capitals).
    pub fn has(&self, token: &str) -> bool {
        self.tokens.iter().any(|t| t == token)
    }

    /// The base state.
    pub fn base(&self) -> &str {
        self.tokens.iter().map(String::as_str).find(|t| BASES.contains(t)).unwrap_or("UNKNOWN")
    }

    /// Idle, mixed or allocated without any flag: the scheduler uses it.
    pub fn plain(&self) -> bool {
        self.tokens.len() == 1 && self.works()
    }

    fn works(&self) -> bool {
        matches!(self.base(), "IDLE" | "MIXED" | "ALLOCATED")
    }

    pub(crate) fn add(&mut self, flag: &str) {
        if !self.has(flag) {
            self.tokens.push(flag.to_owned());
        }
    }

    pub(crate) fn remove(&mut self, flag: &str) {
        self.tokens.retain(|t| t != flag);
    }

    fn set_base(&mut self, base: &str) {
        self.tokens.retain(|t| !BASES.contains(&t.as_str()));
        self.tokens.insert(0, base.to_owned());
    }

    /// Sets the CPUs in use and the base state that follows from them.
    pub(crate) fn use_cpus(&mut self, cpus: u32) {
        self.alloc_cpus = cpus.min(self.cpus);
        if self.works() {
            let base = match self.alloc_cpus {
                0 => "IDLE",
                n if n == self.cpus => "ALLOCATED",
                _ => "MIXED",
            };
            self.set_base(base);
        }
    }

    /// Exactly these tokens; the CPUs in use follow the base state.
    pub(crate) fn set_tokens(&mut self, tokens: &[&str]) {
        self.tokens = tokens.iter().map(|t| t.to_uppercase()).collect();
        self.timers = Timers::default();
        let base = self.base().to_owned();
        self.set_base(&base);
        self.alloc_cpus = match base.as_str() {
            "ALLOCATED" => self.cpus,
            "MIXED" if self.alloc_cpus == 0 || self.alloc_cpus == self.cpus => self.cpus / 2,
            "MIXED" => self.alloc_cpus,
            _ => 0,
        };
    }

    /// DRAIN. Without a reason 24.11 goes on showing the old one. Running work ends in 10 to 20 s.
    pub(crate) fn drain(&mut self, reason: &str, user: &str, at: &Moment) {
        self.add("DRAIN");
        self.set_reason(reason, user, at);
        if self.alloc_cpus > 0 {
            self.timers.work_ends = Some(at.after(10.0, 20.0));
        }
    }

    /// Sets the reason, unless it is empty.
    pub(crate) fn set_reason(&mut self, reason: &str, user: &str, at: &Moment) {
        if !reason.is_empty() {
            (self.reason, self.reason_user, self.reason_changed_at) = (reason.to_owned(), user.to_owned(), at.unix);
        }
    }

    /// UNDRAIN: clears only DRAIN, leaves DOWN. No error if there was none.
    pub(crate) fn undrain(&mut self, at: &Moment) {
        self.remove("DRAIN");
        if self.base() != "DOWN" {
            self.forget_reason(at);
        }
    }

    /// RESUME: clears DRAIN, FAIL and DOWN. False (2028) if the node has none of them. A dead node reads NOT_RESPONDING, later DOWN again.
    pub(crate) fn resume(&mut self, at: &Moment) -> bool {
        if !["DRAIN", "FAIL", "DOWN"].iter().any(|t| self.has(t)) {
            return false;
        }
        for flag in ["DRAIN", "FAIL", "NOT_RESPONDING"] {
            self.remove(flag);
        }
        if self.base() == "DOWN" {
            self.set_base("IDLE");
            self.use_cpus(self.alloc_cpus);
        }
        self.forget_reason(at);
        if !self.slurmd_alive {
            self.add("NOT_RESPONDING");
            self.timers.given_up = Some(at.after(12.0, 12.0));
        }
        true
    }

    /// NOT_RESPONDING for 1 to 4 s, as after every real RESUME and UNDRAIN.
    pub(crate) fn settle(&mut self, at: &Moment) {
        if self.works() && !self.has("NOT_RESPONDING") {
            self.add("NOT_RESPONDING");
            self.timers.settled = Some(at.after(1.0, 4.0));
        }
    }

    /// DOWN, set by hand or by slurmctld; its work is lost.
    pub(crate) fn down(&mut self, reason: &str, user: &str, at: &Moment) {
        self.set_base("DOWN");
        self.set_reason(reason, user, at);
        self.alloc_cpus = 0;
        self.timers.work_ends = None;
    }

    /// slurmd dies; SLURM notices after about 18 s and gives it up after about 30 s.
    pub(crate) fn kill_slurmd(&mut self, at: &Moment) {
        self.slurmd_alive = false;
        (self.timers.silent, self.timers.given_up) = (Some(at.after(17.0, 19.0)), Some(at.after(28.0, 34.0)));
        self.timers.settled = None;
    }

    /// slurmd registers again (ReturnToService=1): a node that was given up returns; a drained one stays DOWN+DRAIN.
    pub(crate) fn start_slurmd(&mut self, at: &Moment) {
        self.slurmd_alive = true;
        self.slurmd_start_time = at.unix;
        (self.timers.silent, self.timers.given_up) = (None, None);
        self.remove("NOT_RESPONDING");
        if self.base() == "DOWN" && !self.has("DRAIN") && self.reason == "Not responding" {
            self.set_base("IDLE");
            self.forget_reason(at);
        }
    }

    /// slurmctld gives a silent node up: DOWN, and 24.11 appends to the reason of a drained one.
    pub(crate) fn give_up(&mut self, at: &Moment) {
        let reason = match (self.has("DRAIN"), at.release) {
            (true, Release::V22) => String::new(),
            (true, Release::V24) => format!("{} : Not responding", self.reason),
            (false, _) => "Not responding".to_owned(),
        };
        self.down(&reason, "slurm", at);
        self.add("NOT_RESPONDING");
        self.remove("COMPLETING");
        self.timers.completed = None;
    }

    fn forget_reason(&mut self, at: &Moment) {
        if at.release == Release::V22 {
            (self.reason, self.reason_user, self.reason_changed_at) = (String::new(), String::new(), 0);
        }
    }
}
