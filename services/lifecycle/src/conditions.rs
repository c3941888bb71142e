//! The built-in type registry: what a type of condition means never comes from a report.

use fleet_schemas::{Effect, Severity};

/// Which status is the good one, and how the condition acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// True is good. Acts only at the edges that name it, there also by absence.
    Readiness,
    /// True is bad. Acts only through its effects.
    Problem,
    /// Neither is good: a fact that something else rests on.
    Fact,
}

/// One type of condition.
#[derive(Debug)]
pub struct ConditionType {
    /// Its name.
    pub name: &'static str,
    /// Who may state it: a source, or `hub`.
    pub source: &'static str,
    /// Its sense.
    pub sense: Sense,
    /// How bad it is when it stands the wrong way.
    pub severity: Severity,
    /// What it forbids or demands while True (problems only).
    pub effects: &'static [Effect],
    /// For people.
    pub about: &'static str,
}

use Effect::{ExcludeFromSla, PreventAllocation, PreventAutoAction, PreventStateChange, SuppressAlert};
use Sense::{Fact, Problem, Readiness};
use Severity::{Critical, Info, Warning};

const fn ready(name: &'static str, source: &'static str, severity: Severity, about: &'static str) -> ConditionType {
    ConditionType { name, source, sense: Readiness, severity, effects: &[], about }
}

const fn problem(
    name: &'static str,
    source: &'static str,
    severity: Severity,
    effects: &'static [Effect],
    about: &'static str,
) -> ConditionType {
    ConditionType { name, source, sense: Problem, severity, effects, about }
}

const TYPES: &[ConditionType] = &[
    ready("InventoryMatched", "netbox", Warning, "the NetBox record has a serial, a name and a place"),
    ready("SlurmMember", "slurm", Warning, "SLURM knows the node"),
    ready("SlurmSchedulable", "slurm", Warning, "SLURM would start a fitting job there as soon as resources are free"),
    ConditionType {
        name: "SlurmDrained",
        source: "slurm",
        sense: Fact,
        severity: Info,
        effects: &[],
        about: "SLURM holds the node drained and no job has it",
    },
    problem("SlurmDrainForeign", "slurm", Warning, &[PreventAutoAction], "somebody else holds the node drained"),
    problem(
        "IdentityConflict",
        "netbox",
        Critical,
        &[PreventStateChange, PreventAllocation],
        "the record's identity contradicts another's",
    ),
    problem("InventoryVanished", "netbox", Critical, &[PreventStateChange, PreventAllocation], "NetBox has the record no more"),
    problem("NetboxLifecycleDrift", "hub", Warning, &[PreventAutoAction], "a person's NetBox edit stands against the lifecycle"),
    problem(
        "Moved",
        "hub",
        Warning,
        &[PreventStateChange, PreventAllocation],
        "the device moved to another site and nobody accepted it yet",
    ),
    problem("MaintenanceInProgress", "hub", Info, &[PreventAllocation, ExcludeFromSla, SuppressAlert], "people work on the device"),
];

/// The type of this name.
pub fn condition_type(name: &str) -> Option<&'static ConditionType> {
    TYPES.iter().find(|t| t.name == name)
}

/// Every built-in type.
pub fn condition_types() -> &'static [ConditionType] {
    TYPES
}
