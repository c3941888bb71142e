//! The fence, model-checked: three contenders that go on writing as zombies; appends that are lost, reordered, doubled and half
//! stored; readers that restart from their stored position at any record. Every reachable state within the bounds is visited,
//! and wider bounds are walked at random.
//!
//! Two weaker rules are checked as well and must fail, so that the model is known to be able to see a violation.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_fence::{Head, NextN, Position, Verdict, accept};
use fleet_schemas::*;
use stateright::{Checker, Model, Property};
use uuid::Uuid;

const CONTENDERS: usize = 3;
const STREAMS: usize = 2;

/// A decision, named by who wrote it as the how-manieth of which term. (0, 0, 0) stands for "none".
type Name = (u8, u8, u8);

/// A record, small enough that millions of states fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Rec {
    Genesis,
    Claim { term: u8, leader: u8 },
    Decision { name: Name, command: u8, version: u8, prev: Name },
}

fn hash(name: Name) -> Hash {
    if name == (0, 0, 0) { Hash::default() } else { Hash::of(&[name.0, name.1, name.2]) }
}

fn boot(leader: u8) -> BootId {
    BootId(Uuid::from_u128(u128::from(leader) + 1))
}

impl Rec {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Rec::Decision { name, .. } => vec![name.0, name.1, name.2],
            other => format!("{other:?}").into_bytes(),
        }
    }

    fn record(&self) -> JournalRecord {
        match *self {
            Rec::Genesis => {
                JournalRecord::Genesis(Genesis { journal: JournalId(Uuid::nil()), partition: 1, created_at: Timestamp(0), from: None })
            }
            Rec::Claim { term, leader } => {
                JournalRecord::Claim(Claim { term: term.into(), leader: Some(boot(leader)), recorded_at: Timestamp(0) })
            }
            Rec::Decision { name, command, version, prev } => JournalRecord::Decision(Box::new(decision(name, command, version, prev))),
        }
    }
}

fn decision((leader, term, n): Name, command: u8, version: u8, prev: Name) -> Decision {
    Decision {
        id: DecisionId(Uuid::nil()),
        term: term.into(),
        leader: boot(leader),
        n: n.into(),
        stream: StreamId::Device(DeviceId(Uuid::from_u128(u128::from(command) % STREAMS as u128))),
        version_before: version.into(),
        version: u64::from(version) + 1,
        prev_hash: hash(prev),
        cause: Cause {
            kind: CauseKind::Command,
            command: None,
            ask_hash: None,
            observation: None,
            source: None,
            wait: None,
            decision: None,
            index: None,
            offset: None,
            stream: None,
            version: None,
        },
        inputs: Inputs { commands: 0, observations: 0 },
        reference: 0,
        actor: Actor::system("model"),
        reason: String::new(),
        trace_id: String::new(),
        outcome: Outcome::accepted(),
        events: vec![],
        occurred_at: None,
        observed_at: None,
        received_at: None,
        recorded_at: Timestamp(0),
    }
}

/// What a reader has made of a prefix of the log.
#[derive(Clone, Debug, PartialEq)]
struct View {
    position: Position,
    heads: [(u8, Name); STREAMS],
    accepted: Vec<u8>,
    forked: bool,
}

impl View {
    fn new() -> Self {
        Self { position: Position::START, heads: [(0, (0, 0, 0)); STREAMS], accepted: vec![], forked: false }
    }

    fn read(&mut self, rec: Rec, rule: Rule) -> Verdict {
        let stream = if let Rec::Decision { command, .. } = rec { command as usize % STREAMS } else { 0 };
        let (version, name) = self.heads[stream];
        let mut head = Some(Head { version: version.into(), hash: hash(name) });
        if let (Rule::IgnoreN, Rec::Decision { name, .. }) = (rule, rec) {
            // The weaker rule: the claimant is believed whatever its n; holes and repeats are not seen.
            self.position.n = NextN::Is(name.2.into());
            head = None;
        }
        let offset = self.position.next;
        let verdict = accept(&mut self.position, head.as_ref(), offset, &rec.record(), &rec.bytes());
        match (&verdict, rec) {
            (Verdict::Accepted, Rec::Decision { name, command, version: on, prev }) => {
                self.forked |= (on, prev) != self.heads[stream];
                self.heads[stream] = (on + 1, name);
                self.accepted.push(command);
            }
            (Verdict::Broken(_), _) => self.forked = true,
            _ => {}
        }
        verdict
    }

    fn of(log: &[Rec], rule: Rule) -> Self {
        let mut view = Self::new();
        log.iter().for_each(|rec| {
            view.read(*rec, rule);
        });
        view
    }

    /// A reader that stored its position and died goes on from what it stored.
    fn restarted(mut self) -> Self {
        self.position = postcard::from_bytes(&postcard::to_allocvec(&self.position).unwrap()).unwrap();
        self
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    Follow,
    Claiming(u8),
    /// Leads `term`; `n` is the next it will write, `heads` and `done` are its speculative state, `in_flight` is not read back yet.
    Leading {
        term: u8,
        n: u8,
        heads: [(u8, Name); STREAMS],
        done: u8,
        in_flight: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    log: Vec<Rec>,
    /// Handed to the log, not stored yet, or never to be.
    wire: Vec<Rec>,
    /// How far each has read, and what it believes to be.
    contenders: [(u8, Mode); CONTENDERS],
    /// Commands whose callers were told yes.
    told: u8,
    doubled: u8,
    claims: u8,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Claim(usize),
    Decide(usize, u8, bool),
    Read(usize),
    GiveUp(usize),
    Store(usize),
    StoreAndKeep(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    AsIs,
    /// Say yes when the log has the record, without reading it back.
    YesOnDelivery,
    /// Believe the claimant whatever its n.
    IgnoreN,
}

#[derive(Clone, Copy)]
struct Bounds {
    rule: Rule,
    log: usize,
    claims: u8,
    /// Their numbers: even ones are of one stream, odd ones of the other.
    commands: &'static [u8],
    doubled: u8,
}

impl Model for Bounds {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World { log: vec![Rec::Genesis], wire: vec![], contenders: [(1, Mode::Follow); CONTENDERS], told: 0, doubled: 0, claims: 0 }]
    }

    fn actions(&self, w: &World, out: &mut Vec<Step>) {
        for (i, (read, mode)) in w.contenders.iter().enumerate() {
            if (*read as usize) < w.log.len() {
                out.push(Step::Read(i));
            }
            match *mode {
                Mode::Follow if w.claims < self.claims => out.push(Step::Claim(i)),
                Mode::Leading { in_flight: 0, done, .. } => {
                    let mut open = self.commands.iter().copied().filter(|k| done & (1 << k) == 0);
                    if let Some(command) = open.next() {
                        out.push(Step::Decide(i, command, false));
                        out.extend(open.next().map(|_| Step::Decide(i, command, true)));
                    }
                }
                Mode::Leading { .. } if w.claims < self.claims => out.push(Step::GiveUp(i)),
                _ => {}
            }
        }
        // A lost record is one that stays on the wire for ever: it needs no step of its own.
        for j in (0..w.wire.len()).filter(|_| w.log.len() < self.log) {
            out.push(Step::Store(j));
            if w.doubled < self.doubled {
                out.push(Step::StoreAndKeep(j));
            }
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut w = before.clone();
        match step {
            Step::Claim(i) => {
                let term = View::of(&w.log[..w.contenders[i].0 as usize], self.rule).position.term as u8 + 1;
                w.contenders[i].1 = Mode::Claiming(term);
                w.wire.push(Rec::Claim { term, leader: i as u8 });
                w.claims += 1;
            }
            Step::Decide(i, command, two) => {
                let mode = &mut w.contenders[i].1;
                w.wire.extend(decide(mode, i as u8, command));
                let mut open = self.commands.iter().copied().filter(|k| *k > command);
                let second = open.find(|k| matches!(mode, Mode::Leading { done, .. } if *done & (1 << k) == 0));
                if let (true, Some(second)) = (two, second) {
                    w.wire.extend(decide(mode, i as u8, second));
                }
            }
            Step::Read(i) => self.read(&mut w, i),
            Step::GiveUp(i) => w.contenders[i].1 = Mode::Follow,
            Step::Store(j) => self.store(&mut w, j, true),
            Step::StoreAndKeep(j) => self.store(&mut w, j, false),
        }
        w.wire.sort_unstable();
        Some(w)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_FORK, |m: &Bounds, w: &World| !View::of(&w.log, m.rule).forked),
            Property::always(ONCE, |m: &Bounds, w: &World| {
                let accepted = View::of(&w.log, m.rule).accepted;
                m.commands.iter().all(|k| accepted.iter().filter(|a| *a == k).count() <= 1)
            }),
            Property::always(TOLD, |m: &Bounds, w: &World| {
                let accepted = View::of(&w.log, m.rule).accepted;
                m.commands.iter().all(|k| w.told & (1 << k) == 0 || accepted.contains(k))
            }),
            Property::always(RESTART, |m: &Bounds, w: &World| {
                let whole = View::of(&w.log, m.rule);
                (0..w.log.len()).all(|k| {
                    let mut reader = View::of(&w.log[..k], m.rule).restarted();
                    w.log[k..].iter().for_each(|rec| {
                        reader.read(*rec, m.rule);
                    });
                    reader == whole
                })
            }),
            Property::sometimes(PROGRESS, |m: &Bounds, w: &World| w.told != 0 && View::of(&w.log, m.rule).position.term >= 2),
        ]
    }
}

const NO_FORK: &str = "no fork";
const ONCE: &str = "no command is decided twice";
const TOLD: &str = "who was told yes is in the journal";
const RESTART: &str = "a reader that restarts at any record sees the same";
const PROGRESS: &str = "somebody is told yes across a take-over";

impl Bounds {
    fn read(&self, w: &mut World, i: usize) {
        let (read, mode) = w.contenders[i];
        let mut view = View::of(&w.log[..read as usize], self.rule);
        let rec = w.log[read as usize];
        let accepted = view.read(rec, self.rule) == Verdict::Accepted;
        let standing = view.position.term as u8;
        let next = match (mode, rec) {
            (Mode::Claiming(mine), Rec::Claim { term, leader }) if accepted && term == mine && leader as usize == i => {
                let done = view.accepted.iter().fold(0, |m, k| m | 1 << k);
                Mode::Leading { term: mine, n: 1, heads: view.heads, done, in_flight: 0 }
            }
            (Mode::Claiming(mine), _) if standing >= mine => Mode::Follow,
            (Mode::Leading { term, .. }, _) if standing > term || view.position.n == NextN::Over => Mode::Follow,
            (Mode::Leading { term, n, heads, done, in_flight }, Rec::Decision { name, command, .. })
                if accepted && (name.0, name.1) == (i as u8, term) =>
            {
                w.told |= 1 << command;
                Mode::Leading { term, n, heads, done, in_flight: in_flight.saturating_sub(1) }
            }
            (mode, _) => mode,
        };
        w.contenders[i] = (read + 1, next);
    }

    fn store(&self, w: &mut World, j: usize, remove: bool) {
        w.doubled += u8::from(!remove);
        let rec = if remove { w.wire.remove(j) } else { w.wire[j] };
        if let (Rule::YesOnDelivery, Rec::Decision { command, .. }) = (self.rule, rec) {
            w.told |= 1 << command;
        }
        w.log.push(rec);
    }
}

fn decide(mode: &mut Mode, leader: u8, command: u8) -> Option<Rec> {
    let Mode::Leading { term, n, heads, done, in_flight } = mode else { return None };
    let head = &mut heads[command as usize % STREAMS];
    let rec = Rec::Decision { name: (leader, *term, *n), command, version: head.0, prev: head.1 };
    *head = (head.0 + 1, (leader, *term, *n));
    (*n, *done, *in_flight) = (*n + 1, *done | 1 << command, *in_flight + 1);
    Some(rec)
}

fn visit_all(bounds: Bounds) -> impl Checker<Bounds> {
    let checker = bounds.checker().threads(2).spawn_bfs().join();
    println!("{} states, {} of them distinct", checker.state_count(), checker.unique_state_count());
    checker
}

/// Three contenders, each of which may claim, with two commands on two streams.
#[test]
fn the_fence_holds_in_every_reachable_state() {
    let checker = visit_all(Bounds { rule: Rule::AsIs, log: 5, claims: 3, commands: &[0, 1], doubled: 0 });
    checker.assert_properties();
    assert!(checker.unique_state_count() > 500_000, "the bounds are too tight to mean anything");
}

/// Both commands on one stream: the second decision chains to the first, whoever made it.
#[test]
fn the_fence_holds_for_a_chain_of_decisions() {
    let checker = visit_all(Bounds { rule: Rule::AsIs, log: 5, claims: 2, commands: &[0, 2], doubled: 1 });
    checker.assert_properties();
    assert!(checker.unique_state_count() > 100_000, "the bounds are too tight to mean anything");
}

/// Records that the log stores twice, at any distance.
#[test]
fn the_fence_holds_with_doubled_records() {
    let checker = visit_all(Bounds { rule: Rule::AsIs, log: 5, claims: 2, commands: &[0, 1], doubled: 1 });
    checker.assert_properties();
    assert!(checker.unique_state_count() > 100_000, "the bounds are too tight to mean anything");
}

/// Wider bounds than can be visited whole, walked at random from a printed seed (`FM_SEED` gives it back).
#[test]
fn the_fence_holds_on_long_random_walks() {
    let seed = std::env::var("FM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(20_261_130);
    println!("FM_SEED={seed}");
    let bounds = Bounds { rule: Rule::AsIs, log: 14, claims: 6, commands: &[0, 1, 2, 3, 4], doubled: 4 };
    let chooser = stateright::UniformChooser;
    let checker = bounds.checker().threads(1).target_state_count(400_000).spawn_simulation(seed, chooser).join();
    println!("{} states", checker.state_count());
    for property in [NO_FORK, ONCE, TOLD, RESTART] {
        checker.assert_no_discovery(property);
    }
    checker.assert_any_discovery(PROGRESS);
}

#[test]
fn the_model_sees_that_yes_on_delivery_loses_decisions() {
    let checker = visit_all(Bounds { rule: Rule::YesOnDelivery, log: 5, claims: 2, commands: &[0], doubled: 0 });
    checker.assert_any_discovery(TOLD);
}

#[test]
fn the_model_sees_that_holes_must_not_be_believed() {
    let checker = visit_all(Bounds { rule: Rule::IgnoreN, log: 4, claims: 1, commands: &[0, 1, 2], doubled: 1 });
    checker.assert_any_discovery(NO_FORK);
}
