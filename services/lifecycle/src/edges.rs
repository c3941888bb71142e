//! The lifecycle as a table: one row an edge, read aloud as in the documents. The diagram, the matrix of verbs, the buttons with
//! "why not", and the property tests are made from it.

use fleet_schemas::{Effect, Phase, Source};

/// What an edge needs by its nature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A fact: nothing is needed.
    Fact,
    /// Forward: no hold, owner is the fleet, the sources it reads are fresh, nothing prevents a change of state.
    Advance,
    /// To the safe side: never refused for holds, staleness or effects.
    Safer,
    /// Cannot be taken back: as Advance, and the workload proofs hold.
    Destroy,
}

/// What makes an edge be considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A person's or program's request.
    Verb(&'static str),
    /// What agents saw; judged again behind every event, and when the reference changes.
    Observed,
}

/// What an edge needs beyond its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Evidence of what already runs agrees with the phase asked for.
    Evidence,
    /// Every workload proof that the profile names holds.
    WorkloadProof,
    /// Nobody else holds the SLURM node drained.
    NoForeignDrain,
    /// No problem condition with this effect holds.
    NoEffect(Effect),
    /// The failed stage allows this way out.
    StageLeadsTo(Phase),
    /// The profile asks for no test suite, or it passed.
    SuitesPassed,
    /// Where the drain leads is built.
    TargetBuilt,
    /// Every name that the device claims is its own: serial, SLURM name.
    Grants,
}

/// One row.
#[derive(Debug)]
pub struct Edge {
    /// Its number in the documents.
    pub number: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Phases it leaves; empty = a device without phase.
    pub from: &'static [Phase],
    /// Phases it can lead to.
    pub to: &'static [Phase],
    /// What makes it be considered.
    pub trigger: Trigger,
    /// What it needs beyond its kind.
    pub needs: &'static [Need],
    /// Sources whose words it rests on; SLURM counts only where the profile has it.
    pub reads: &'static [Source],
    /// Whether this build takes it; else its verb is refused `not-available`.
    pub built: bool,
}

use Kind::{Advance, Destroy, Fact, Safer};
use Need::{Evidence, Grants, NoEffect, NoForeignDrain, StageLeadsTo, SuitesPassed, TargetBuilt, WorkloadProof};
use Phase::*;
use Trigger::{Observed, Verb};

const NETBOX: &[Source] = &[Source::Netbox];
const SLURM: &[Source] = &[Source::Slurm];
const BOTH: &[Source] = &[Source::Netbox, Source::Slurm];
/// Resting phases outside Draining and service, from which people may take a device to work on it.
const REST: &[Phase] = &[Discovered, Enrolled, Provisioned, Ready, Quarantined, OutForRepair];
/// Where a fault may strike and the device is not in service.
const OUT_OF_SERVICE: &[Phase] =
    &[Discovered, Enrolling, Enrolled, Provisioning, Provisioned, Validating, BurningIn, Ready, Remediating, Maintenance];
const ALIVE: &[Phase] = &[
    Discovered,
    Enrolling,
    Enrolled,
    Provisioning,
    Provisioned,
    Validating,
    BurningIn,
    Ready,
    Quarantined,
    Remediating,
    OutForRepair,
    Maintenance,
];

const fn row(
    number: &'static str,
    kind: Kind,
    from: &'static [Phase],
    to: &'static [Phase],
    trigger: Trigger,
    needs: &'static [Need],
    reads: &'static [Source],
) -> Edge {
    Edge { number, kind, from, to, trigger, needs, reads, built: true }
}

const fn later(number: &'static str, kind: Kind, from: &'static [Phase], to: &'static [Phase], trigger: Trigger) -> Edge {
    Edge { number, kind, from, to, trigger, needs: &[], reads: &[], built: false }
}

/// Every edge of the lifecycle.
pub const EDGES: &[Edge] = &[
    row("1", Fact, &[], &[Discovered], Observed, &[], NETBOX),
    row("1b", Advance, &[Discovered], &[Ready, InService, Quarantined, Maintenance], Verb("baseline"), &[Evidence], BOTH),
    later("2", Advance, &[Discovered], &[Enrolling], Verb("enrol")),
    later("3", Advance, &[Enrolling], &[Enrolled], Observed),
    later("4a", Advance, &[Enrolled], &[Provisioning], Verb("provision")),
    later("4b", Destroy, &[Provisioned, Ready, Quarantined, Draining], &[Provisioning], Verb("reprovision")),
    later("5", Advance, &[Provisioning], &[Provisioned], Observed),
    later("6", Advance, &[Provisioned], &[Validating], Observed),
    row("7", Advance, &[Validating], &[Ready], Observed, &[SuitesPassed], &[]),
    later("8", Advance, &[BurningIn], &[Ready], Observed),
    row("9", Advance, &[Ready], &[InService], Verb("activate"), &[NoEffect(Effect::PreventAllocation), NoForeignDrain, Grants], SLURM),
    row("10", Safer, &[InService], &[Draining], Verb("drain"), &[TargetBuilt], &[]),
    row(
        "10b",
        Advance,
        &[Draining],
        &[InService],
        Verb("resume"),
        &[NoForeignDrain, NoEffect(Effect::RequireDrain), NoEffect(Effect::Fatal), NoEffect(Effect::PreventAllocation), Grants],
        SLURM,
    ),
    row("11", Advance, &[Draining], &[Draining, Quarantined, Maintenance], Observed, &[WorkloadProof], SLURM),
    row("12", Safer, OUT_OF_SERVICE, &[Quarantined], Verb("quarantine"), &[], &[]),
    row("12", Safer, &[InService, Draining], &[Draining], Verb("quarantine"), &[], &[]),
    row("12v", Advance, &[Quarantined], &[Validating], Verb("validate"), &[StageLeadsTo(Validating), WorkloadProof], SLURM),
    later("13", Destroy, &[Quarantined], &[Remediating], Verb("remediate")),
    later("14", Advance, &[Remediating], &[Validating], Observed),
    later("15", Destroy, &[Quarantined], &[OutForRepair], Verb("send-to-repair")),
    later("16", Advance, &[OutForRepair], &[Enrolling], Verb("return-from-repair")),
    row("17", Safer, REST, &[Maintenance], Verb("maintain"), &[], &[]),
    row("17", Safer, &[InService], &[Draining], Verb("maintain"), &[], &[]),
    row("17", Safer, &[Maintenance], &[Validating, Discovered, Enrolled, Quarantined], Verb("end-maintenance"), &[], &[]),
    later("18", Destroy, ALIVE, &[Decommissioning], Verb("decommission")),
    later("19", Advance, &[Decommissioning], &[Decommissioned], Observed),
    later("20", Destroy, ALIVE, &[Quarantined], Verb("force-transition")),
    later("release", Destroy, &[Provisioned, Ready, Quarantined, Draining], &[Enrolled], Verb("release")),
];

/// The edges that `verb` can take, from any phase.
pub fn of_verb(verb: &str) -> impl Iterator<Item = &'static Edge> + use<'_> {
    EDGES.iter().filter(move |e| e.trigger == Verb(name(verb)))
}

/// The observed edge with this number.
pub fn observed(number: &str) -> Option<&'static Edge> {
    EDGES.iter().find(|e| e.number == number && e.trigger == Observed)
}

/// The table's own text of a verb, so that triggers can be compared.
fn name(verb: &str) -> &'static str {
    EDGES
        .iter()
        .find_map(|e| match e.trigger {
            Verb(v) if v == verb => Some(v),
            Verb(_) | Observed => None,
        })
        .unwrap_or("")
}
