//! Whose drain it is that SLURM shows.

use super::state::{Device, TaskState};
use fleet_schemas::{SchedulerSection, Status, TaskId, TaskKind};

/// Our mark in SLURM's reasons. A prefix: SLURM appends to reasons.
pub const MARK: &str = "fleet:";

/// The drain that SLURM shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drain {
    /// None.
    None,
    /// Under the mark of one of this device's own plans.
    Own(TaskId),
    /// Anybody else's, in words.
    Foreign(String),
}

impl Device {
    /// Whose drain SLURM shows. In doubt: foreign.
    pub fn drain(&self) -> Drain {
        let Some(section) = self.scheduler.as_ref().filter(|s| draining(s)) else { return Drain::None };
        let foreign_by_look = self.condition("SlurmDrainForeign").is_some_and(|c| c.status == Status::True);
        match mark_of(section.reason.as_deref()) {
            Some(task) if self.marks.contains(&task) && !foreign_by_look => Drain::Own(task),
            _ => Drain::Foreign(whose(section)),
        }
    }

    /// What would get the node drained: the text a person should set, where it is planned.
    pub fn drain_help(&self) -> String {
        match self.tasks.values().find(|t| t.kind == TaskKind::SlurmDrain && t.state == TaskState::Open) {
            Some(task) => instruction(task.kind, &task.target, &task.mark),
            None => "drain the node under our own mark".into(),
        }
    }

    /// SLURM's state in one line.
    pub fn scheduler_words(&self) -> String {
        self.scheduler.as_ref().map_or_else(
            || "SLURM has no such node".into(),
            |s| format!("{} with {} of {} CPUs allocated", s.state.join("+"), s.alloc_cpus, s.cpus),
        )
    }
}

/// What a person types to do a planned task.
pub fn instruction(kind: TaskKind, target: &str, mark: &str) -> String {
    match kind {
        TaskKind::SlurmDrain => format!("scontrol update nodename={target} state=drain reason=\"{mark}\""),
        TaskKind::SlurmUndrain => format!("scontrol update nodename={target} state=undrain"),
        TaskKind::SlurmUnreserve => format!("scontrol delete reservationname={mark}"),
    }
}

/// Whether SLURM shows the node draining or drained.
pub fn draining(section: &SchedulerSection) -> bool {
    section.state.iter().any(|t| t == "DRAIN")
}

/// The task that a reason names under our mark.
pub fn mark_of(reason: Option<&str>) -> Option<TaskId> {
    reason?.strip_prefix(MARK)?.split_whitespace().next()?.parse().ok()
}

fn whose(section: &SchedulerSection) -> String {
    let user = section.reason_user.as_deref().unwrap_or("somebody");
    let since = section.drain_since.or(section.reason_since).map_or_else(String::new, |t| format!(" since {t}"));
    let reason = section.reason.as_deref().unwrap_or("no reason given");
    format!("drained by {user}{since} \"{reason}\"")
}
