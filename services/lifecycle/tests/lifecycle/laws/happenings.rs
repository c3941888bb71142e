//! Everything that can happen to a device, at random.

use crate::dsl::*;
use fleet_schemas::{Ask, DAY, HOUR, MINUTE, Micros, Phase, SECOND, Scheduler, Then, Timestamp, verbs};
use proptest::prelude::*;

/// One thing that happens.
#[derive(Clone, Debug)]
pub enum Happening {
    Asked(Verb),
    Netbox {
        record: Record,
        edits: Vec<(bool, usize)>,
        order: Order,
    },
    Gone {
        order: Order,
    },
    Slurm {
        node: Shown,
        order: Order,
        age: Micros,
    },
    Passes(Micros),
    Stale(&'static str),
    Fresh(&'static str),
    /// The reader of partition 0 falls behind; when it has caught up, every stream is planned.
    Lags(bool),
    Profile {
        slurm: bool,
        proofs: bool,
    },
    TakenOver,
}

/// A request.
#[derive(Clone, Debug)]
pub enum Verb {
    Baseline(Phase),
    Drain(&'static str, Then),
    Quarantine(&'static str),
    Maintain(Option<Micros>),
    Hold(&'static str, Option<Micros>),
    Unhold(&'static str),
    Remark(Option<&'static str>),
    Acknowledge(&'static str),
    Plain(&'static str),
}

/// A NetBox record.
#[derive(Clone, Debug)]
pub struct Record {
    pub status: &'static str,
    pub fleet_phase: &'static str,
    pub role: &'static str,
    pub site: &'static str,
    pub node: Option<&'static str>,
    pub conflict: bool,
    pub id: i64,
}

/// What SLURM shows.
#[derive(Clone, Debug)]
pub enum Shown {
    Shows {
        state: &'static str,
        reason: &'static str,
        alloc: i64,
        own_reservation: bool,
        name: Option<&'static str>,
    },
    /// The agent knows better than the mark.
    Foreign,
    Absent,
    Unreadable,
    /// By the agent of another site.
    Elsewhere(&'static str),
}

/// Place in the source's order, relative to the last one given out.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Next,
    Skips(u64),
    Repeats,
    Late(u64),
    NewRun,
}

const STATUSES: [&str; 7] = ["active", "failed", "offline", "staged", "planned", "decommissioning", "broken"];
const FLEET_PHASES: [&str; 6] = ["", "", "Ready", "InService", "Quarantined", "retired"];
const STATES: [&str; 10] = [
    "IDLE",
    "IDLE+DRAIN",
    "IDLE+DRAIN",
    "IDLE+DRAIN",
    "ALLOCATED",
    "ALLOCATED+DRAIN",
    "COMPLETING+DRAIN+IDLE",
    "DOWN",
    "DOWN+DRAIN",
    "IDLE+RESERVED",
];
const REASONS: [&str; 6] =
    ["fleet:<task> on purpose", "fleet:<task> on purpose", "fleet:<task> : Not responding", "admin: memory test", "", "fleet:nobody's"];

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        8 => Just(Order::Next),
        1 => (1..5u64).prop_map(Order::Skips),
        1 => Just(Order::Repeats),
        1 => (1..4u64).prop_map(Order::Late),
        1 => Just(Order::NewRun),
    ]
}

fn span() -> impl Strategy<Value = Micros> {
    prop::sample::select(&[SECOND, MINUTE, 5 * MINUTE, 16 * MINUTE, 20 * MINUTE, HOUR, DAY, 7 * DAY, 8 * DAY][..])
}

fn verb() -> impl Strategy<Value = Verb> {
    let all: Vec<&'static str> = verbs::TABLE.iter().map(|v| v.name).collect();
    let way = prop::sample::select(&["activate", "resume", "validate", "end-maintenance", "annotate"][..]);
    let name = prop::sample::select(&["a", "b", "moved"][..]);
    let phase = prop::sample::select(&[Phase::Ready, Phase::InService, Phase::Quarantined, Phase::Maintenance, Phase::Draining][..]);
    let then = prop::sample::select(Then::ALL);
    prop_oneof![
        4 => phase.prop_map(Verb::Baseline),
        4 => (prop::sample::select(&["pending", "pending", "pending", "immediate"][..]), then).prop_map(|(mode, then)| Verb::Drain(mode, then)),
        3 => prop::sample::select(&["GpuFault", "Leak"][..]).prop_map(Verb::Quarantine),
        3 => prop::option::of(span()).prop_map(Verb::Maintain),
        2 => (name, prop::option::of(span())).prop_map(|(name, until)| Verb::Hold(name, until)),
        3 => prop::sample::select(&["a", "b"][..]).prop_map(Verb::Unhold),
        1 => prop::option::of(prop::sample::select(&["one", "two"][..])).prop_map(Verb::Remark),
        4 => prop::sample::select(&["drain", "maintenance"][..]).prop_map(Verb::Acknowledge),
        10 => way.prop_map(Verb::Plain),
        2 => prop::sample::select(all).prop_map(Verb::Plain),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let mostly = |usual: &'static str, other: &'static str| prop_oneof![6 => Just(usual), 1 => Just(other)];
    let role = prop_oneof![6 => Just("gpu"), 2 => Just("cpu"), 1 => Just("storage")];
    let node = prop_oneof![6 => Just(Some("gpu01")), 1 => Just(Some("gpu02")), 1 => Just(None)];
    let (status, fleet_phase) = (prop::sample::select(&STATUSES[..]), prop::sample::select(&FLEET_PHASES[..]));
    let parts = (status, fleet_phase, role, mostly("lhr1", "ams1"), node, prop::bool::weighted(0.1), prop::bool::weighted(0.03));
    parts.prop_map(|(status, fleet_phase, role, site, node, conflict, other)| Record {
        status,
        fleet_phase,
        role,
        site,
        node,
        conflict,
        id: NETBOX_ID + i64::from(other),
    })
}

fn node() -> impl Strategy<Value = Shown> {
    let name = prop_oneof![12 => Just(None), 1 => Just(Some("gpu02"))];
    let shows = (
        prop::sample::select(&STATES[..]),
        prop::sample::select(&REASONS[..]),
        prop_oneof![5 => Just(0), 1 => Just(8)],
        prop::bool::weighted(0.1),
        name,
    );
    prop_oneof![
        20 => shows.prop_map(|(state, reason, alloc, own_reservation, name)| Shown::Shows { state, reason, alloc, own_reservation, name }),
        1 => Just(Shown::Foreign),
        1 => Just(Shown::Absent),
        1 => Just(Shown::Unreadable),
        1 => Just(Shown::Elsewhere("ams1")),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let source = || prop::sample::select(&["slurm", "netbox"][..]);
    let edits = prop::collection::vec((prop::bool::weighted(0.7), 0..STATUSES.len()), 0..3);
    let age = prop_oneof![6 => Just(0), 1 => Just(9 * MINUTE), 2 => Just(6 * HOUR)];
    prop_oneof![
        10 => verb().prop_map(Happening::Asked),
        4 => (record(), edits, order()).prop_map(|(record, edits, order)| Happening::Netbox { record, edits, order }),
        1 => order().prop_map(|order| Happening::Gone { order }),
        10 => (node(), order(), age).prop_map(|(node, order, age)| Happening::Slurm { node, order, age }),
        4 => span().prop_map(Happening::Passes),
        1 => source().prop_map(Happening::Stale),
        2 => source().prop_map(Happening::Fresh),
        1 => any::<bool>().prop_map(Happening::Lags),
        1 => any::<(bool, bool)>().prop_map(|(slurm, proofs)| Happening::Profile { slurm, proofs }),
        1 => Just(Happening::TakenOver),
    ]
}

/// Where a history begins: most in the midst of life, so that the depths are reached.
#[derive(Clone, Copy, Debug)]
pub enum Beginning {
    Nothing,
    Discovered,
    InService,
    Ready,
    Draining,
    Quarantined,
    Put(Phase),
}

pub fn beginning(of: Beginning) -> Story {
    match of {
        Beginning::Nothing => given([]),
        Beginning::Discovered => given([discovered()]),
        Beginning::InService => given([in_service()]),
        Beginning::Ready => given([ready()]),
        Beginning::Draining => given([draining()]),
        Beginning::Quarantined => given([quarantined()]),
        Beginning::Put(phase) => given([discovered(), put(phase, None)]),
    }
}

/// A history.
pub fn history() -> impl Strategy<Value = (Beginning, Vec<Happening>)> {
    use Beginning::*;
    // A drain that no request began would wait for nothing.
    let phases = prop::sample::select(Phase::ALL).prop_filter("begun by a request", |p| *p != Phase::Draining).prop_map(Put);
    let usual = prop::sample::select(&[Nothing, Discovered, InService, InService, Ready, Draining, Draining, Quarantined][..]);
    (prop_oneof![6 => usual, 1 => phases], prop::collection::vec(happening(), 1..30))
}

impl Verb {
    pub fn ask(&self, now: Timestamp) -> Ask {
        match self {
            Self::Baseline(phase) => baseline(*phase),
            Self::Drain(mode, then) => fleet_schemas::Drain { mode: (*mode).into(), then: *then }.into(),
            Self::Quarantine(cause) => fleet_schemas::Quarantine { cause: (*cause).into() }.into(),
            Self::Maintain(until) => until.map_or_else(maintain, |span| maintain_until(now.plus(span))),
            Self::Hold(name, until) => until.map_or_else(|| hold(name), |span| hold_until(name, now.plus(span))),
            Self::Unhold(name) => unhold(name),
            Self::Remark(value) => annotations(&[("remark", *value)]),
            Self::Acknowledge(name) => acknowledge(name),
            Self::Plain(name) => verbs::plain(name).unwrap(),
        }
    }
}

impl Record {
    pub fn look(&self, edits: &[(bool, usize)], first_change: i64) -> Look {
        let Self { status, fleet_phase, role, site, node, conflict, id } = self.clone();
        let look = netbox().status(status).fleet_phase(fleet_phase).role(role).site(site);
        let look = look.with(move |i| (i.slurm_node, i.netbox_id) = (node.map(str::to_owned), id));
        let look = if conflict { look.says(says("IdentityConflict", "True", "SerialShared")) } else { look };
        edits.iter().zip(first_change..).fold(look, |look, ((of_status, word), change)| match of_status {
            true => look.edit(change, "status", "active", STATUSES[*word]),
            false => look.edit(change, "fleet_phase", "", FLEET_PHASES[*word % FLEET_PHASES.len()]),
        })
    }
}

impl Shown {
    pub fn look(&self) -> Look {
        match self {
            Self::Shows { state, reason, alloc, own_reservation, name } => {
                let look = slurm(state).alloc(if state.contains("ALLOCATED") { 64 } else { *alloc });
                let look = if reason.is_empty() { look } else { look.reason(reason) };
                let look = if *own_reservation { look.reservation(format!("fleet-{}", device_id())) } else { look };
                match name {
                    Some(name) => look.node(name),
                    None => look,
                }
            }
            Self::Foreign => slurm("IDLE+DRAIN").own().says(says("SlurmDrainForeign", "True", "ForeignDrain")),
            Self::Absent => not_in_slurm(),
            Self::Unreadable => unreadable(),
            Self::Elsewhere(site) => slurm("IDLE").by(site),
        }
    }
}

/// The changed profile of `gpu`.
pub fn profile_of(uses_slurm: bool, proofs: bool) -> Change {
    let scheduler = if uses_slurm { Scheduler::Slurm } else { Scheduler::None };
    gives_profile("gpu", profile(scheduler, if proofs { &["slurm-idle"] } else { &[] }))
}
