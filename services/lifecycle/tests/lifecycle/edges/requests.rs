//! What is refused before any edge is looked at.

use crate::dsl::*;
use fleet_schemas::{Ask, BootId, ClaimEpoch, Phase, ReadUserData, RegisterSite, RetireBootstrapConfig, Scheduler, SetRoleProfile, verbs};

#[test]
fn a_device_that_netbox_never_had() {
    given([]).when(drain()).then_refused("unknown-device").because(
        "a device that NetBox has",
        &format!("device/{}", device_id()),
        "look the device up by name",
    );
    given([seen(slurm("IDLE"))]).when(hold("h")).then_refused("unknown-device");
}

#[test]
fn a_site_out_of_reach() {
    let story = || given([in_service()]);
    story().reaching(&["ams1"]).when(drain()).then_refused("out-of-reach").because(
        "a right at lhr1",
        "ams1",
        "ask the site's owner for access",
    );
    story().reaching(&[]).when(hold("h")).then_refused("out-of-reach").because(
        "a right at lhr1",
        "no site",
        "ask the site's owner for access",
    );
    story().reaching(&["ams1"]).when(not_built("cancel")).then_refused("out-of-reach");
    story().reaching(&["ams1", "lhr1"]).when(drain()).then_accepted();
}

#[test]
fn another_version_than_was_expected() {
    let story = given([in_service()]);
    let version = story.run.version;
    story
        .expecting_version(version + 1)
        .when(drain())
        .then_refused("version-conflict")
        .because(&format!("version {}", version + 1), &format!("version {version}"), "read the device again and decide anew")
        .expecting_version(version)
        .when(drain())
        .then_accepted()
        .expecting_version(version)
        .when(resume())
        .then_refused("version-conflict");
}

#[test]
fn a_role_without_profile() {
    let told = "role `storage` has none at lhr1";
    for ask in [baseline(Phase::Ready), activate(), drain(), resume(), quarantine(), validate(), maintain(), end_maintenance()] {
        given([seen(netbox().role("storage"))]).when(ask).then_refused("no-role-profile").because(
            "a role profile at the device's site",
            told,
            "give the role a profile in the site's configuration",
        );
    }
}

#[test]
fn what_belongs_to_another_stream() {
    let profile = profile(Scheduler::None, &[]);
    let sites: [Ask; 5] = [
        RegisterSite { sources: sources() }.into(),
        SetRoleProfile { role: "gpu".into(), profile }.into(),
        ClaimEpoch { source: source("slurm"), boot: BootId(uuid::Uuid::nil()) }.into(),
        fleet_schemas::PlaceFreeze { name: "a".into(), until: None }.into(),
        fleet_schemas::LiftFreeze { name: "a".into() }.into(),
    ];
    for ask in sites {
        let told = format!("`{}` for a device", verbs::name_of(&ask));
        given([in_service()]).when(ask).then_refused("wrong-stream").because("a site", &told, "name a site");
    }
    for ask in [RetireBootstrapConfig {}.into(), Ask::from(ReadUserData { version: 1 })] {
        let told = |what: &str| format!("`{}` for a {what}", verbs::name_of(&ask));
        let (expected, helps) = ("a bootstrap configuration", "name a bootstrap configuration");
        given([in_service()]).when(ask.clone()).then_refused("wrong-stream").because(expected, &told("device"), helps);
        given_site([]).when(ask.clone()).then_refused("wrong-stream").because(expected, &told("site"), helps);
    }
    for verb in verbs::TABLE {
        let ask = verbs::plain(verb.name).unwrap();
        let told = format!("`{}` for a bootstrap configuration", verb.name);
        given_config([]).when(ask).then_refused("wrong-stream").because("a device", &told, "name a device");
    }
    for verb in verbs::TABLE {
        let ask = verbs::plain(verb.name).unwrap();
        let told = format!("`{}` for a site", verb.name);
        given_site([]).when(ask).then_refused("wrong-stream").because("a device", &told, "name a device");
    }
}

/// Every verb of the table is built, or is refused as such in every phase, and never the other way round.
#[test]
fn built_or_refused_as_not_available() {
    for verb in verbs::TABLE {
        for phase in Phase::ALL {
            let ask = verbs::plain(verb.name).unwrap();
            let story = given([discovered(), put(*phase, None)]).when(ask);
            let refused = story.came().refusal.as_ref().is_some_and(|r| r.code == "not-available");
            assert_eq!(refused, !verb.built, "{} in {phase}", verb.name);
        }
    }
    given([seen(netbox().role("storage"))]).when(not_built("waive")).then_refused("not-available").because(
        "something this version can do",
        "`waive`",
        "a later version; see the release notes",
    );
}
