//! A device that stands at another site: the site changes at once, everything else when somebody accepts it.

use crate::dsl::*;
use fleet_lifecycle::{Fleet, Reference};
use fleet_schemas::{Phase, Scheduler};

fn moved() -> Given {
    in_service().and(seen(netbox().site("ams1")))
}

#[test]
fn the_site_changes_at_once_and_a_hold_says_that_nobody_accepted_it() {
    let story = given([in_service()])
        .seen(netbox().site("ams1"))
        .then([
            "inventory: site",
            "moved lhr1 -> ams1",
            "hold moved by system:hub",
            "InventoryMatched=True Complete",
            "IdentityConflict=False SerialUnique",
        ])
        .and_plans(["Moved=True NotAccepted"])
        .stands_in(Phase::InService);
    assert_eq!(story.device().site, Some(at("ams1")));
    assert_eq!(story.device().condition("Moved").unwrap().message, "moved from lhr1 to ams1 in NetBox");
}

#[test]
fn unhold_moved_accepts_it() {
    let story = given([moved()])
        .when(activate())
        .then_refused("phase-forbids")
        .because("Ready", "InService", "drain, quarantine, maintain")
        .when(drain())
        .then_accepted()
        .when(resume())
        .then_refused("held")
        .because("no hold", "hold `moved` by system:hub: moved from lhr1 to ams1 in NetBox", "unhold --name moved")
        .when(unhold("moved"))
        .then(["hold moved lifted by alice"])
        .and_plans(["Moved=False Accepted"])
        .seen(slurm("IDLE").by("ams1"))
        .when(resume())
        .then_accepted();
    assert_eq!(story.device().profile_site, None);
}

/// At lhr1 the role has SLURM, at ams1 it has not.
#[test]
fn until_then_the_old_profile_applies() {
    let other: Change = Box::new(|reference: &mut Reference, _| {
        let ams1 = std::sync::Arc::make_mut(reference.sites.get_mut(&at("ams1")).unwrap());
        ams1.profiles.insert("gpu".into(), profile(Scheduler::None, &[]));
    });
    let story = given([meanwhile(other), moved()]);
    let scheduler = |story: &Story| {
        let (site, role) = story.device().profile_key().unwrap();
        story.run.reference.profile(site, role).unwrap().scheduler
    };
    assert_eq!(scheduler(&story), Scheduler::Slurm);
    assert_eq!(scheduler(&story.when(unhold("moved"))), Scheduler::None);
}

#[test]
fn the_new_sites_agents_count_at_once_and_the_old_sites_are_noted() {
    given([moved()])
        .seen(slurm("DOWN").by("lhr1"))
        .then_noted("wrong-site")
        .seen(slurm("DOWN").by("ams1"))
        .says_of_itself("SlurmSchedulable", "False Down")
        .seen(netbox().status("failed").by("ams1"))
        .then(["inventory: status"]);
}

#[test]
fn the_right_of_the_asker_must_reach_the_new_site() {
    given([moved()]).reaching(&["lhr1"]).when(drain()).then_refused("out-of-reach");
    given([moved()]).reaching(&["ams1"]).when(drain()).then_accepted();
}

#[test]
fn a_second_move_before_the_first_was_accepted_keeps_the_first_profile() {
    let story = given([moved()])
        .seen(netbox().site("lhr1"))
        .then([
            "inventory: site",
            "moved ams1 -> lhr1",
            "hold moved by system:hub",
            "InventoryMatched=True Complete",
            "IdentityConflict=False SerialUnique",
        ])
        .and_plans(["Moved=True NotAccepted"]);
    assert_eq!(story.device().profile_site, Some(at("lhr1")));
    let story = story.when(unhold("moved"));
    assert_eq!((story.device().site.clone(), story.device().profile_site.clone()), (Some(at("lhr1")), None));
}

#[test]
fn a_drain_is_not_proven_by_what_the_old_site_said() {
    given([draining(), asked(hold("h")), drained(), seen(netbox().site("ams1")), asked(unhold("h"))])
        .when(unhold("moved"))
        .stands_in(Phase::Draining)
        .has_open_plans([])
        .seen(slurm("IDLE+DRAIN").own().by("ams1"))
        .and_plans(["drain proven", "operation succeeded: no work runs"]);
}

#[test]
fn a_change_at_either_site_concerns_it() {
    let story = given([moved()]);
    for (site, concerned) in [("lhr1", true), ("ams1", true), ("fra1", false)] {
        let mut now = story.run.reference.clone();
        now.sites.insert(at(site), std::sync::Arc::new(fleet_lifecycle::Site::new(at(site))));
        assert_eq!(Fleet::concerned(&story.run.entity, &story.run.reference, &now), concerned, "{site}");
    }
    assert!(!Fleet::concerned(&story.run.entity, &story.run.reference, &story.run.reference));
}

fn by(story: &Story, look: Look, reach: &[&str]) -> Came {
    let mut run = story.run.clone();
    let sighting = look.sighting(&mut run);
    run.see_by(&sighting, reach.iter().map(|s| (*s).to_owned()).collect())
}

/// NetBox's clients may be many, each of some sites; the record that a client shows it says itself.
#[test]
fn a_client_that_does_not_reach_where_the_device_stands_can_neither_take_it_nor_end_it() {
    let story = given([in_service()]);
    for (look, reach) in [(netbox().site("ams1"), ["ams1"]), (gone().by("ams1"), ["ams1"]), (netbox().site("ams1").by("lhr1"), ["lhr1"])] {
        let came = by(&story, look, &reach);
        assert_eq!((came.note, came.all().count()), (Some("out-of-reach"), 0), "{reach:?}");
    }
    for look in [netbox().site("ams1"), gone().by("ams1")] {
        let came = by(&story, look, &["ams1", "lhr1"]);
        assert!(came.note.is_none() && came.all().count() > 0, "{came:?}");
    }
}

#[test]
fn a_first_sighting_needs_the_right_at_its_own_site_alone() {
    let came = by(&given([]), netbox().site("ams1"), &["ams1"]);
    assert!(came.note.is_none() && came.all().count() > 0, "{came:?}");
    assert_eq!(by(&given([]), netbox().site("ams1"), &["lhr1"]).note, Some("out-of-reach"));
}
