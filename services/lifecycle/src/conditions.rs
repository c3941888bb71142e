//! The type registry: what a type of condition means never comes from a report. Some types are built in; a site adds its own.

use fleet_schemas::{Effect, Severity, TypeDefinition};

pub use fleet_schemas::Sense;

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

/// `source` of a condition whose type a site registered: its writers are programs outside.
pub const EXTERNAL: &str = "external";

/// A type of condition as it counts at one site, built in or registered there.
#[derive(Clone, Copy, Debug)]
pub struct KnownType<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who states it: a source, `hub`, or [`EXTERNAL`].
    pub source: &'a str,
    /// Its sense.
    pub sense: Sense,
    /// How bad it is when it stands the wrong way.
    pub severity: Severity,
    /// What it forbids or demands while True (problems only).
    pub effects: &'a [Effect],
    /// Seconds after which a statement that was not repeated reads Unknown. A built-in type's rests on its source's freshness.
    pub ttl_seconds: Option<i64>,
    /// Clients that may state it; empty for a built-in type, which its source states.
    pub writers: &'a [String],
    /// For people.
    pub about: &'a str,
}

impl<'a> From<&'a ConditionType> for KnownType<'a> {
    fn from(t: &'a ConditionType) -> Self {
        let (name, source, sense, severity, effects, about) = (t.name, t.source, t.sense, t.severity, t.effects, t.about);
        Self { name, source, sense, severity, effects, ttl_seconds: None, writers: &[], about }
    }
}

impl<'a> From<&'a TypeDefinition> for KnownType<'a> {
    fn from(d: &'a TypeDefinition) -> Self {
        let (name, writers, about) = (d.name.as_str(), d.writers.as_slice(), d.about.as_str());
        let (sense, severity, effects, ttl_seconds) = (d.sense, d.severity, d.effects.as_slice(), d.ttl_seconds);
        Self { name, source: EXTERNAL, sense, severity, effects, ttl_seconds, writers, about }
    }
}

impl KnownType<'_> {
    /// Whether a client may state it. What a source states comes from its agent, which the roster binds to it.
    pub fn writes(&self, client: &str) -> bool {
        self.writers.iter().any(|w| w == client)
    }
}
