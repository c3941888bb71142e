//! CPU time: of this process, and of the brokers and the database that share its machine.

use crate::bed::Outside;
use std::time::Duration;

/// User and system time so far.
#[derive(Clone, Copy)]
pub struct Cpu {
    ours: Duration,
    /// Brokers and database, where they are.
    outside: Option<(Duration, Duration)>,
}

impl Cpu {
    pub fn now(outside: Option<&Outside>) -> Self {
        let theirs = |outside: &Outside| {
            let brokers = (0..outside.brokers.count()).map(|nth| of(&outside.brokers.pid(nth).unwrap()));
            (brokers.sum(), outside.database.pids().unwrap().iter().map(|pid| of(pid)).sum())
        };
        Self { ours: of("self"), outside: outside.map(theirs) }
    }

    /// What was spent since, on each of so many.
    pub fn each(self, outside: Option<&Outside>, units: u64) -> String {
        let now = Self::now(outside);
        let micros = |now: Duration, before| now.saturating_sub(before).as_micros() as f64 / units as f64;
        let ours = format!("{:.0} µs CPU each", micros(now.ours, self.ours));
        match (now.outside, self.outside) {
            (Some(now), Some(before)) => {
                format!("{ours}, brokers {:.0}, database {:.0}", micros(now.0, before.0), micros(now.1, before.1))
            }
            _ => ours,
        }
    }
}

/// Of a process, and of its children that ended.
pub fn of(pid: &str) -> Duration {
    // One that ended meanwhile is in its parent's count.
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Duration::ZERO };
    let fields = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(4);
    // utime, stime, cutime and cstime, in ticks of 10 ms.
    Duration::from_millis(10 * fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}
