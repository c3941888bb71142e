//! Teams, freezes, and a site's own types of conditions.

use super::registered;
use crate::dsl::*;
use fleet_lifecycle::{EXTERNAL, condition_types};
use fleet_schemas::{
    Ask, ChangeSite, DAY, Effect, HOUR, LiftFreeze, Mode, PlaceFreeze, RegisterType, RoleTeam, Sense, Severity, SourceMode, SourceTeam,
    Timestamp, TypeDefinition,
};

fn freeze(name: &str, until: Option<Timestamp>) -> Ask {
    PlaceFreeze { name: name.into(), until }.into()
}

fn unfreeze(name: &str) -> Ask {
    LiftFreeze { name: name.into() }.into()
}

fn change(modes: &[(&str, Mode)], sources: &[(&str, Option<&str>)], roles: &[(&str, Option<&str>)]) -> Ask {
    let team = |t: &Option<&str>| t.map(str::to_owned);
    ChangeSite {
        modes: modes.iter().map(|(s, mode)| SourceMode { source: source(s), mode: *mode }).collect(),
        source_teams: sources.iter().map(|(s, t)| SourceTeam { source: source(s), team: team(t) }).collect(),
        role_teams: roles.iter().map(|(r, t)| RoleTeam { role: (*r).to_owned(), team: team(t) }).collect(),
    }
    .into()
}

#[test]
fn a_freeze_stands_until_it_is_lifted_or_its_time_is_up() {
    given_site([registered()])
        .when(freeze("move", None))
        .then(["freeze move by alice"])
        .when(freeze("move", None))
        .then_nothing()
        .after(365 * DAY)
        .then_nothing()
        .when(unfreeze("move"))
        .then(["unfrozen move by alice"])
        .when(unfreeze("move"))
        .then_refused("no-such-freeze")
        .because("a freeze named `move`", "no freeze", "name a freeze that stands");
    given_site([registered()])
        .when(freeze("b", Some(START.plus(2 * HOUR))))
        .when(freeze("a", Some(START.plus(HOUR))))
        .after(HOUR)
        .then(["unfrozen a by expiry"])
        .after(HOUR)
        .then(["unfrozen b by expiry"])
        .after(DAY)
        .then_nothing();
    // A later end takes the place of the one before.
    given_site([registered()])
        .when(freeze("a", Some(START.plus(HOUR))))
        .when(freeze("a", Some(START.plus(3 * HOUR))))
        .after(2 * HOUR)
        .then_nothing()
        .after(HOUR)
        .then(["unfrozen a by expiry"]);
}

#[test]
fn what_is_no_freeze_is_named() {
    for name in ["", "  ", "a\u{7}", &"x".repeat(65)] {
        given_site([registered()]).when(freeze(name, None)).then_refused("invalid");
    }
    for until in [START, START.plus(-DAY)] {
        let story = given_site([registered()]).when(freeze("a", Some(until))).then_refused("invalid");
        story.because("a time to come", &until.to_string(), "correct `until`");
    }
    given_site([]).when(freeze("a", None)).then_refused("unknown-site");
    given_site([registered()]).reaching(&["ams1"]).when(freeze("a", None)).then_refused("out-of-reach");
}

/// Nothing advances; what leads to the safe side does; and what was kept back goes on by itself.
#[test]
fn a_frozen_site_advances_nothing_and_thaws() {
    given([ready(), meanwhile(freezes("move", Some(START.plus(DAY))))])
        .when(activate())
        .then_refused("site-frozen")
        .because(
            "no freeze at its site",
            &format!("freeze `move` of lhr1 by alice: the hall moves, until {}", START.plus(DAY)),
            "wait for its end, or let the site's owner lift it",
        )
        .when(quarantine())
        .then_accepted();
    given([in_service(), meanwhile(freezes("move", None))])
        .when(drain())
        .then_accepted()
        .seen(slurm("IDLE+DRAIN").own())
        .stands_in(fleet_schemas::Phase::Draining);
    given([in_service(), meanwhile(freezes("move", None)), asked(drain())])
        .seen(slurm("IDLE+DRAIN").own())
        .reference_changes(thaws("move"))
        .and_plans(["drain proven", "operation succeeded: no work runs"]);
}

#[test]
fn teams_answer_for_sources_and_roles() {
    let story = given_site([registered()])
        .when(change(&[], &[("slurm", Some("hpc"))], &[("gpu", Some("hall")), ("cpu", Some("hall"))]))
        .then(["teams: slurm=hpc, gpu=hall, cpu=hall"])
        .when(change(&[], &[("slurm", Some("hpc"))], &[("gpu", None), ("cpu", Some("hall"))]))
        .then(["teams: gpu=nobody"])
        .when(change(&[], &[("netbox", None)], &[]))
        .then_nothing();
    assert_eq!((story.site().source_teams.len(), story.site().role_teams.len()), (1, 1));
    let mut reference = reference();
    reference.sites.insert(at("lhr1"), std::sync::Arc::new(story.site().clone()));
    let team = |source: Option<&str>, role| reference.team(&at("lhr1"), source.map(super::super::dsl::source), role);
    assert_eq!(
        [team(Some("slurm"), "cpu"), team(Some("netbox"), "cpu"), team(None, "cpu"), team(None, "gpu")],
        [Some("hpc"), Some("hall"), Some("hall"), None]
    );
    given_site([registered()]).when(change(&[], &[("slurm", Some(""))], &[])).then_refused("invalid");
}

#[test]
fn modes_above_observe_are_not_there_yet() {
    given_site([registered()]).when(change(&[("slurm", Mode::Observe)], &[], &[])).then_nothing();
    for mode in [Mode::Mirror, Mode::Act] {
        let told = format!("mode `{mode}` of slurm: this version only observes");
        let asked = change(&[("slurm", mode)], &[("slurm", Some("hpc"))], &[]);
        given_site([registered()]).when(asked).then_refused("not-available").because(
            "something this version can do",
            &told,
            "a later version; see the release notes",
        );
    }
}

fn leak(edit: impl FnOnce(&mut TypeDefinition)) -> Ask {
    let mut definition = TypeDefinition {
        name: "CoolantLeak".into(),
        sense: Sense::Problem,
        effects: vec![Effect::PreventAllocation],
        severity: Severity::Critical,
        ttl_seconds: Some(600),
        writers: vec!["leak-detector".into()],
        about: "coolant where none should be".into(),
    };
    edit(&mut definition);
    RegisterType { definition }.into()
}

#[test]
fn a_type_is_registered_and_counts_at_its_site_alone() {
    let story = given_site([registered()])
        .when(leak(|_| ()))
        .then(["type CoolantLeak"])
        .when(leak(|_| ()))
        .then_nothing()
        .when(leak(|d| d.writers.push("another".into())))
        .then(["type CoolantLeak"])
        .when(leak(|d| (d.sense, d.effects) = (Sense::Fact, vec![])))
        .then_refused("type-exists")
        .because("a name of its own", "a problem has it", "take another name");
    let known = story.site().condition_type("CoolantLeak").unwrap();
    assert_eq!((known.source, known.severity, known.ttl_seconds), (EXTERNAL, Severity::Critical, Some(600)));
    assert!(known.writes("leak-detector") && known.writes("another") && !known.writes("slurm-agent-lhr1"));
    let mut reference = reference();
    reference.sites.insert(at("lhr1"), std::sync::Arc::new(story.site().clone()));
    assert!(reference.condition_type(&at("lhr1"), "CoolantLeak").is_some() && reference.registers("CoolantLeak"));
    assert!(reference.condition_type(&at("ams1"), "CoolantLeak").is_none());
    for built_in in condition_types() {
        let known = reference.condition_type(&at("ams1"), built_in.name).unwrap();
        assert_eq!((known.source, known.effects), (built_in.source, built_in.effects));
        assert!(!known.writes("leak-detector"));
    }
}

#[test]
fn what_is_no_type_is_refused() {
    type Row = (fn(&mut TypeDefinition), &'static str);
    let rows: [Row; 12] = [
        (|d| d.name = "leak".into(), "invalid"),
        (|d| d.name = "Coolant-Leak".into(), "invalid"),
        (|d| d.name = "X".repeat(65), "invalid"),
        (|d| d.name = "SlurmMember".into(), "type-exists"),
        (|d| d.sense = Sense::Readiness, "invalid"),
        (|d| d.effects.push(Effect::Fatal), "not-available"),
        (|d| d.effects.push(Effect::RequireDrain), "not-available"),
        (|d| d.ttl_seconds = Some(59), "invalid"),
        (|d| d.ttl_seconds = Some(i64::MAX), "invalid"),
        (|d| d.writers.clear(), "invalid"),
        (|d| d.writers = vec![String::new()], "invalid"),
        (|d| d.about.clear(), "invalid"),
    ];
    for (edit, code) in rows {
        given_site([registered()]).when(leak(edit)).then_refused(code);
    }
}
