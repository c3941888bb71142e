//! The laws of a site.

use super::config;
use crate::dsl::*;
use fleet_lifecycle::{Decider, Entity, Fleet, Site};
use fleet_schemas::{
    Actor, Ask, BootId, ClaimEpoch, Event, LiftFreeze, LookFault, Micros, PlaceFreeze, RegisterSite, SECOND, SetRoleProfile, SiteEvent,
    Source,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(Clone, Debug)]
enum Happening {
    Registered(i64),
    Claimed(&'static str, u128),
    Profile(bool),
    Frozen(&'static str, Option<Micros>),
    Thawed(&'static str),
    /// Epochs behind the newest, and how long ago it was.
    Swept(&'static str, u64, Micros),
    Failed(&'static str, u64, LookFault),
    Passes(Micros),
}

fn happening() -> impl Strategy<Value = Happening> {
    let source = || prop::sample::select(&["slurm", "netbox"][..]);
    let name = || prop::sample::select(&["a", "slurm"][..]);
    let behind = || prop_oneof![6 => Just(0), 1 => 1..3u64];
    prop_oneof![
        2 => prop::sample::select(&[0, 30, 60, 60, 86_400][..]).prop_map(Happening::Registered),
        2 => (source(), 0..3u128).prop_map(|(source, boot)| Happening::Claimed(source, boot)),
        1 => any::<bool>().prop_map(Happening::Profile),
        2 => (name(), prop::option::of(0..400i64)).prop_map(|(name, span)| Happening::Frozen(name, span.map(|s| s * SECOND))),
        1 => name().prop_map(Happening::Thawed),
        6 => (source(), behind(), 0..20i64).prop_map(|(source, behind, ago)| Happening::Swept(source, behind, ago * SECOND)),
        2 => (source(), behind(), prop::sample::select(LookFault::ALL)).prop_map(|(source, behind, fault)| Happening::Failed(source, behind, fault)),
        4 => (1..400i64).prop_map(|seconds| Happening::Passes(seconds * SECOND)),
    ]
}

/// What is known beside the decider: the last complete look at each source, and who claimed it last.
#[derive(Default)]
struct Beside {
    looked: BTreeMap<Source, i64>,
    boots: BTreeMap<Source, u128>,
}

fn happen(run: &mut Run, beside: &mut Beside, what: &Happening) {
    run.now = run.now.plus(SECOND);
    let alice = Actor { subject: "alice".into(), client: "fmctl".into(), on_behalf_of: None, reach: vec!["*".into()] };
    let before = run.entity.clone();
    let came = match what {
        Happening::Registered(seconds) => {
            let sources = sources().into_iter().map(|c| fleet_schemas::SourceConfig { interval_seconds: *seconds, ..c }).collect();
            run.ask(&RegisterSite { sources }.into(), None, &alice, "")
        }
        Happening::Profile(proofs) => {
            let profile = profile(fleet_schemas::Scheduler::Slurm, if *proofs { &["slurm-idle"] } else { &[] });
            run.ask(&SetRoleProfile { role: "gpu".into(), profile }.into(), None, &alice, "")
        }
        Happening::Frozen(name, span) => {
            let until = span.map(|s| run.now.plus(s));
            run.ask(&PlaceFreeze { name: (*name).into(), until }.into(), None, &alice, "why")
        }
        Happening::Thawed(name) => run.ask(&LiftFreeze { name: (*name).into() }.into(), None, &alice, ""),
        Happening::Claimed(name, boot) => claimed(run, beside, source(name), *boot, &alice),
        Happening::Swept(name, behind, ago) => looked(run, beside, sweep(source(name)).observed(*ago), *behind),
        Happening::Failed(name, behind, fault) => looked(run, beside, fails(source(name), *fault), *behind),
        Happening::Passes(span) => {
            run.pass(run.now.plus(*span));
            Came::default()
        }
    };
    steps(&before, &came);
    run.pass(run.now);
    judge(run, beside);
}

fn claimed(run: &mut Run, beside: &mut Beside, source: Source, boot: u128, alice: &Actor) -> Came {
    let before = epoch(run, source);
    let ask: Ask = ClaimEpoch { source, boot: BootId(Uuid::from_u128(boot)) }.into();
    let came = run.ask(&ask, None, alice, "");
    if came.refusal.is_none() {
        let same = beside.boots.insert(source, boot) == Some(boot);
        assert_eq!(epoch(run, source), before + u64::from(!same), "one epoch for each start");
    }
    came
}

fn looked(run: &mut Run, beside: &mut Beside, look: Look, behind: u64) -> Came {
    let mut sighting = look.sighting(run);
    let standing = epoch(run, sighting.source);
    sighting.seq.epoch = standing.saturating_sub(behind);
    let came = run.see(&sighting);
    let counts = known(run, sighting.source) && sighting.seq.epoch == standing;
    assert_eq!(came.note.is_none(), counts, "an old run, or an unknown source, is noted");
    if matches!(sighting.fact, fleet_schemas::Fact::SweepCompleted(_)) {
        let last = beside.looked.entry(sighting.source).or_default();
        *last = (*last).max(sighting.observed_at.0);
    }
    came
}

fn site(run: &Run) -> &Site {
    run.entity.site().unwrap()
}

fn known(run: &Run, source: Source) -> bool {
    site(run).sources.contains_key(&source)
}

fn epoch(run: &Run, source: Source) -> u64 {
    site(run).sources.get(&source).map_or(0, |s| s.epoch)
}

/// Only flips are events, and an input that is refused or set aside changes nothing.
fn steps(before: &Entity, came: &Came) {
    let mut now = before.clone();
    for event in came.all() {
        if let Event::Site(SiteEvent::FreshnessChanged(e)) = event {
            assert_ne!(now.site().unwrap().sources[&e.source].fresh, e.fresh, "a flip that is none");
        }
        Fleet::evolve(&mut now, event, came.at);
    }
    assert!(came.all().count() == 0 || (came.refusal.is_none() && came.note.is_none()));
}

/// A fresh source was looked at within three intervals, and waits for their end.
fn judge(run: &Run, beside: &Beside) {
    for (source, state) in site(run).sources.iter().filter(|(_, s)| s.fresh) {
        let last = beside.looked[source];
        assert!(run.now.0 - last < state.patience(), "{source} is fresh, {} s after its last look", (run.now.0 - last) / SECOND);
    }
    for freeze in site(run).freezes.values() {
        assert!(freeze.until.is_none_or(|until| until > run.now), "a freeze outlives its end");
    }
    let waits = site(run).sources.values().any(|s| s.fresh) || site(run).freezes.values().any(|f| f.until.is_some());
    assert_eq!(run.next_wait().is_some(), waits, "what is fresh waits for its silence, a freeze for its end, and nothing else waits");
    let mut replayed = Fleet::new(&run.stream);
    run.log.iter().for_each(|(at, events)| events.iter().for_each(|e| Fleet::evolve(&mut replayed, e, *at)));
    assert_eq!(replayed, run.entity, "replay is live");
    let stored: Site = postcard::from_bytes(&postcard::to_stdvec(site(run)).unwrap()).unwrap();
    assert_eq!(stored, *site(run), "storage keeps it");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_history_of_a_site_keeps_the_laws(happenings in prop::collection::vec(happening(), 1..30)) {
        let mut run = given_site([]).run;
        let mut beside = Beside::default();
        happenings.iter().for_each(|what| happen(&mut run, &mut beside, what));
    }
}
