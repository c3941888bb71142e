//! The laws of a device.

use super::happenings::{Beginning, Happening, Order, beginning, history, profile_of};
use super::reports::{Reports, is_news};
use super::{RANDOM, config, steps};
use crate::dsl::*;
use fleet_lifecycle::edges::EDGES;
use fleet_lifecycle::{Decider, Device, Entity, Fleet, Sighting};
use fleet_schemas::{Actor, DeviceEvent, Event, ExclusiveGranted, SiteId, Source, SourceSeq, verbs};
use proptest::prelude::*;
use proptest::{strategy::ValueTree, test_runner::TestRng, test_runner::TestRunner};
use std::collections::BTreeSet;

/// A history under way, with the fold of reports beside it.
struct History {
    run: Run,
    reports: Reports,
    alice: Actor,
    changes: i64,
}

impl History {
    fn begin(at: Beginning) -> Self {
        let mut run = beginning(at).run;
        // What the streams of names say is a step of its own here.
        run.alone = false;
        run.plan();
        let reports = Reports::of(run.entity.device().unwrap());
        let alice = Actor { subject: "alice".into(), client: "fmctl".into(), on_behalf_of: None, reach: vec!["*".into()] };
        Self { run, reports, alice, changes: 100 }
    }

    fn device(&self) -> &Device {
        self.run.entity.device().unwrap()
    }

    /// Runs one happening, and holds each step of it to the laws.
    fn happen(&mut self, what: &Happening) {
        self.run.now = self.run.now.plus(1);
        match what {
            Happening::Asked(verb) => {
                let ask = verb.ask(self.run.now);
                let came = self.step(|run, alice| run.ask(&ask, None, alice, "at random"));
                steps::safer(verbs::name_of(&ask), &came);
            }
            Happening::Netbox { record, edits, order } => {
                let look = record.look(edits, self.changes);
                self.changes += edits.len() as i64;
                self.look(look, *order);
            }
            Happening::Gone { order } => self.look(gone(), *order),
            Happening::Slurm { node, order, age } => self.look(node.look().observed(*age), *order),
            Happening::Passes(span) => self.pass(*span),
            Happening::Stale(source) => self.refer(goes_stale(source)),
            Happening::Fresh(source) => self.refer(is_fresh_again(source)),
            Happening::Profile { slurm, proofs } => self.refer(profile_of(*slurm, *proofs)),
            Happening::Lags(stale) => {
                let mut reference = self.run.reference.clone();
                lags(*stale)(&mut reference, self.run.now);
                self.step(|run, _| run.refer(reference));
                self.step(|run, _| run.plan());
            }
            Happening::TakenOver => {
                self.run.taken_over();
                self.step(|run, _| run.plan());
            }
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Run, &Actor) -> Came) -> Came {
        let came = self.one_step(step);
        let asked: Vec<_> = self.device().claimed().filter(|(_, grant)| !grant.held).map(|(name, _)| name).collect();
        for name in asked {
            self.one_step(|run, _| run.hear(&ExclusiveGranted { name }.into()));
        }
        came
    }

    fn one_step(&mut self, step: impl FnOnce(&mut Run, &Actor) -> Came) -> Came {
        let before = self.run.entity.clone();
        let came = step(&mut self.run, &self.alice);
        steps::judge(&before, &self.run.entity, &came, &self.run.reference);
        steps::planned_for(self.device(), &self.run.reference, &came);
        self.reports.judge(self.device());
        came
    }

    fn look(&mut self, look: Look, order: Order) {
        let mut sighting = look.sighting(&mut self.run);
        sighting.seq = self.place(sighting.source, &sighting.site, sighting.seq, order);
        let before = self.device().clone();
        self.reports.see(&before, &sighting);
        let came = self.step(|run, _| run.see(&sighting));
        self.ordered(&before, &sighting, &came);
    }

    fn place(&mut self, source: Source, site: &SiteId, next: SourceSeq, order: Order) -> SourceSeq {
        let SourceSeq { epoch, counter } = next;
        let place = match order {
            Order::Next => SourceSeq { epoch, counter },
            Order::Skips(by) => SourceSeq { epoch, counter: counter + by },
            Order::Repeats => SourceSeq { epoch, counter: counter - 1 },
            Order::Late(by) => SourceSeq { epoch, counter: counter.saturating_sub(1 + by) },
            Order::NewRun => SourceSeq { epoch: epoch + 1, counter: 0 },
        };
        let highest = self.run.seqs.entry((source, site.clone())).or_insert_with(|| place.clone());
        if *highest < place {
            *highest = place.clone();
        }
        place
    }

    /// What is older than what was recorded changes nothing; what is recorded never goes back.
    fn ordered(&self, before: &Device, sighting: &Sighting, came: &Came) {
        let key = (sighting.source, sighting.site.clone());
        if !is_news(before, sighting) {
            assert_eq!(came.all().count(), 0, "an old look had an effect");
            assert_eq!(came.note.is_some(), before.seqs[&key] != sighting.seq, "late is noted, a repeat is not");
        }
        for (key, highest) in before.seqs.iter() {
            assert!(self.device().seqs[key] >= *highest, "the order went back");
        }
    }

    fn pass(&mut self, span: i64) {
        let until = self.run.now.plus(span);
        while let Some((due, wait)) = self.run.next_wait().filter(|(due, _)| *due <= until) {
            self.run.now = self.run.now.max(due);
            self.step(|run, _| run.fall_due(&wait));
        }
        self.run.now = until;
    }

    fn refer(&mut self, change: Change) {
        let mut reference = self.run.reference.clone();
        change(&mut reference, self.run.now);
        self.step(|run, _| run.refer(reference));
        let again = self.step(|run, _| run.plan());
        assert_eq!(again.planned, vec![], "whom a change does not concern has nothing to plan");
    }

    /// The journal alone gives the same state, and the state survives its storage.
    fn end(&self) {
        let mut replayed = Fleet::new(&self.run.stream);
        for (at, events) in &self.run.log {
            events.iter().for_each(|e| Fleet::evolve(&mut replayed, e, *at));
        }
        assert_eq!(replayed, self.run.entity, "replay is live");
        let bytes = postcard::to_stdvec(self.device()).unwrap();
        let stored: Device = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Entity::Device(stored.into()), self.run.entity, "storage keeps it");
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_history_keeps_the_laws((at, happenings) in history()) {
        let mut history = History::begin(at);
        happenings.iter().for_each(|what| history.happen(what));
        history.end();
    }
}

/// The laws would say little of histories that never get anywhere.
#[test]
fn histories_reach_every_built_edge_and_every_event() {
    let mut runner = TestRunner::new_with_rng(config(), TestRng::deterministic_rng(RANDOM));
    let (mut edges, mut names) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..1_500 {
        let (at, happenings) = history().new_tree(&mut runner).unwrap().current();
        let mut history = History::begin(at);
        happenings.iter().for_each(|what| history.happen(what));
        for event in history.run.log.iter().flat_map(|(_, events)| events) {
            names.insert(event.name());
            if let Event::Device(DeviceEvent::PhaseChanged(e)) = event {
                edges.insert(e.edge.clone());
            }
        }
    }
    let built: BTreeSet<_> = EDGES.iter().filter(|e| e.built).map(|e| e.number.to_owned()).collect();
    edges.remove("20");
    assert_eq!(edges, built);
    assert_eq!(names, DeviceEvent::NAMES.iter().copied().collect());
}
