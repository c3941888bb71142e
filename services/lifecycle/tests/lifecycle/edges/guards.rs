//! What edges need by their kind: the guards of every advance, which no safer edge has.

use crate::dsl::*;
use fleet_schemas::{Ask, Effect, Owner, Phase};

type Verb = (&'static str, fn() -> Given, Ask);

fn advances() -> [Verb; 4] {
    [
        ("baseline", discovered, baseline(Phase::InService)),
        ("activate", ready, activate()),
        ("resume", draining, resume()),
        ("validate", || quarantined().and(drained()), validate()),
    ]
}

fn safer() -> [Verb; 8] {
    [
        ("drain", in_service, drain()),
        ("quarantine in service", in_service, quarantine()),
        ("quarantine draining", draining, quarantine()),
        ("quarantine ready", ready, quarantine()),
        ("maintain in service", in_service, maintain()),
        ("maintain ready", ready, maintain()),
        ("end-maintenance", in_maintenance, end_maintenance()),
        ("hold", ready, hold("another")),
    ]
}

type Obstacle = (&'static str, fn() -> Given, &'static str);

fn obstacles() -> [Obstacle; 8] {
    let conflict = || seen(netbox().says(says("IdentityConflict", "True", "SerialShared")));
    [
        ("a hold", || asked(hold("h")), "held"),
        ("the vendor has it", || somehow(|d| d.owner = Owner::Vendor), "not-ours"),
        ("a person has it", || somehow(|d| d.owner = Owner::Operator), "not-ours"),
        ("the reference lags", || meanwhile(lags(true)), "reference-stale"),
        ("the site is frozen", || meanwhile(freezes("move", None)), "site-frozen"),
        ("SLURM is stale", || meanwhile(goes_stale("slurm")), "source-stale"),
        ("an identity conflict", conflict, "effect-forbids"),
        ("NetBox has it no more", || seen(gone()), "effect-forbids"),
    ]
}

#[test]
fn every_advance_has_them() {
    for (verb, before, ask) in advances() {
        for (obstacle, fact, code) in obstacles() {
            let story = given([before(), fact()]).when(ask.clone());
            let found = story.came().refusal.as_ref().map(|r| r.code);
            assert_eq!(found, Some(code), "{verb} with {obstacle}");
        }
        let story = given([before()]).when(ask.clone());
        assert_eq!(story.came().refusal, None, "{verb} without any");
    }
}

#[test]
fn no_safer_edge_has_them() {
    for (verb, before, ask) in safer() {
        for (obstacle, fact, _) in obstacles() {
            let story = given([before(), fact(), effect(Effect::PreventAutoAction)]).when(ask.clone());
            assert_eq!(story.came().refusal, None, "{verb} with {obstacle}");
        }
    }
}

#[test]
fn each_says_what_it_saw_and_what_helps() {
    let refused = |fact: Given, code: &str| given([ready(), fact]).when(activate()).then_refused(code);
    refused(somehow(|d| d.owner = Owner::Vendor), "not-ours").because("owner fleet", "vendor", "take the device back from its owner");
    refused(meanwhile(lags(true)), "reference-stale").because(
        "the site's streams read up to now",
        "reading lags",
        "try again in some seconds",
    );
    let mend = "mend the look at slurm; see `get sites`";
    refused(meanwhile(goes_stale("slurm")), "source-stale").because(
        "a fresh look at slurm",
        "slurm at lhr1: no complete look for 3 intervals of 60 s",
        mend,
    );
    refused(seen(gone()), "effect-forbids").because(
        "no condition with PreventStateChange",
        "InventoryVanished is True: deleted in NetBox by carol, noticed by the sweep, confirmed by GET 404",
        "end the condition",
    );
}

#[test]
fn a_source_that_was_never_looked_at_is_stale() {
    let never: Change = Box::new(|reference, _| {
        let site = std::sync::Arc::make_mut(reference.sites.get_mut(&at("lhr1")).unwrap());
        let slurm = site.sources.get_mut(&source("slurm")).unwrap();
        (slurm.fresh, slurm.problem) = (false, String::new());
    });
    let seen = "slurm at lhr1 was never looked at, or is silent";
    given([ready(), meanwhile(never)]).when(activate()).then_refused("source-stale").because(
        "a fresh look at slurm",
        seen,
        "mend the look at slurm; see `get sites`",
    );
    let none: Change = Box::new(|reference, _| {
        std::sync::Arc::make_mut(reference.sites.get_mut(&at("lhr1")).unwrap()).sources.clear();
    });
    given([ready(), meanwhile(none)]).when(activate()).then_refused("source-stale").because(
        "a fresh look at slurm",
        "lhr1 has no source slurm",
        "mend the look at slurm; see `get sites`",
    );
}

/// Only the sources that an edge reads: NetBox at the baseline alone, SLURM nowhere that has none.
#[test]
fn other_sources_may_be_stale() {
    given([discovered(), meanwhile(goes_stale("netbox"))]).when(baseline(Phase::InService)).then_refused("source-stale");
    given([seen(netbox().role("cpu")), meanwhile(goes_stale("netbox"))]).when(baseline(Phase::Ready)).then_refused("source-stale");
    given([ready(), meanwhile(goes_stale("netbox"))]).when(activate()).then_accepted();
    given([ready_without_slurm(), meanwhile(goes_stale("slurm"))]).when(activate()).then_accepted();
    given([seen(netbox().role("cpu")), meanwhile(goes_stale("slurm"))]).when(baseline(Phase::Ready)).then_accepted();
}

/// A problem counts until it is seen to have ended, also when its source falls silent.
#[test]
fn a_stale_problem_still_prevents() {
    let conflict = seen(netbox().says(says("IdentityConflict", "True", "SerialShared")));
    given([ready(), conflict, meanwhile(goes_stale("netbox"))]).when(activate()).then_refused("effect-forbids");
}
