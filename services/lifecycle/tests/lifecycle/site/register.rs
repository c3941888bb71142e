//! Registration and profiles: what is the same changes nothing, what this build cannot do is refused by name.

use super::{config, registered};
use crate::dsl::*;
use fleet_schemas::{ChangeRoleProfile, Dhcp, FirstRoleProfile, Mode, Provisioner, RegisterSite, RoleProfile, Scheduler, SetRoleProfile};

#[test]
fn it_is_registered_once() {
    given_site([])
        .when(RegisterSite { sources: sources() })
        .then(["registered: netbox every 60 s, slurm every 60 s"])
        .and_plans(nothing())
        .when(RegisterSite { sources: sources() })
        .then_nothing()
        .when(config(|s| s.reverse()))
        .then_nothing()
        .when(config(|s| s[0].interval_seconds = 300))
        .then(["registered: netbox every 300 s, slurm every 60 s"])
        .when(config(|_| ()))
        .then(["registered: netbox every 60 s, slurm every 60 s"])
        .when(config(|s| s.truncate(1)))
        .then(["registered: netbox every 60 s"]);
    let story =
        given_site([]).when(RegisterSite { sources: vec![] }).then(["registered: "]).when(RegisterSite { sources: vec![] }).then_nothing();
    assert!(story.site().registered && story.site().sources.is_empty());
}

#[test]
fn another_interval_keeps_what_is_known_of_a_source() {
    let story = given_site([registered()]).seen(sweep(source("slurm")));
    let story = story.when(config(|s| s.iter_mut().for_each(|c| c.interval_seconds = 30)));
    let slurm = &story.site().sources[&source("slurm")];
    assert_eq!((slurm.fresh, slurm.config.interval_seconds), (true, 30));
}

#[test]
fn this_version_only_observes() {
    for mode in [Mode::Mirror, Mode::Act] {
        let told = format!("mode `{mode}` of slurm: this version only observes");
        given_site([]).when(config(|s| s[1].mode = mode)).then_refused("not-available").because(
            "something this version can do",
            &told,
            "a later version; see the release notes",
        );
    }
}

#[test]
fn an_interval_that_cannot_be() {
    for seconds in [0, -1, i64::MIN, 86_401, i64::MAX] {
        let told = format!("{seconds} s for netbox");
        given_site([]).when(config(|s| s[0].interval_seconds = seconds)).then_refused("invalid").because(
            "1 to 86,400 s between looks",
            &told,
            "correct the site's configuration",
        );
    }
    for seconds in [1, 86_400] {
        given_site([]).when(config(|s| s[0].interval_seconds = seconds)).then_accepted();
    }
}

fn ask(change: impl FnOnce(&mut RoleProfile)) -> SetRoleProfile {
    let mut profile = profile(Scheduler::Slurm, &["slurm-idle"]);
    change(&mut profile);
    SetRoleProfile { role: "gpu".into(), profile }
}

#[test]
fn a_profile_is_set_once() {
    given_site([registered()])
        .when(ask(|_| ()))
        .then(["profile of gpu"])
        .when(ask(|_| ()))
        .then_nothing()
        .when(ask(|p| p.workload_proofs.clear()))
        .then(["profile of gpu"])
        .when(ask(|p| p.dhcp = Dhcp::Kea))
        .then(["profile of gpu"]);
    let story = given_site([registered()]).when(ask(|_| ()));
    assert_eq!(story.site().profiles["gpu"], profile(Scheduler::Slurm, &["slurm-idle"]));
}

/// A configuration says it at every start; what people set meanwhile stands.
#[test]
fn a_first_profile_is_set_where_there_is_none() {
    let first = |dhcp: Dhcp| FirstRoleProfile { role: "gpu".into(), profile: RoleProfile { dhcp, ..profile(Scheduler::Slurm, &[]) } };
    let story = given_site([registered()]).when(first(Dhcp::None)).then(["profile of gpu"]);
    let story = story.when(first(Dhcp::Kea)).then_nothing();
    assert_eq!(story.site().profiles["gpu"].dhcp, Dhcp::None);
    given_site([]).when(first(Dhcp::None)).then_refused("unknown-site");
    let far = RoleProfile { bom: Some("sku@1".into()), ..profile(Scheduler::Slurm, &[]) };
    given_site([registered()]).when(FirstRoleProfile { role: "gpu".into(), profile: far }).then_refused("not-available");
}

#[test]
fn a_change_of_a_profile_is_merged_with_what_stands() {
    let change = |set: &[&str], profile: RoleProfile| ChangeRoleProfile {
        role: "gpu".into(),
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        profile,
    };
    let kea = || RoleProfile { dhcp: Dhcp::Kea, ..profile(Scheduler::None, &[]) };
    let story = given_site([registered(), asked(ask(|_| ()))]).when(change(&["dhcp"], kea())).then(["profile of gpu"]);
    assert_eq!(story.site().profiles["gpu"], RoleProfile { dhcp: Dhcp::Kea, ..profile(Scheduler::Slurm, &["slurm-idle"]) });
    let story = story.when(change(&["dhcp"], kea())).then_nothing().when(change(&["workload_proofs", "scheduler"], kea()));
    assert_eq!(story.site().profiles["gpu"], kea());
    given_site([registered()]).when(change(&["provisioner", "scheduler"], kea())).then_refused("invalid").because(
        "a value: the role has no profile yet",
        "none",
        "name `dhcp`",
    );
    given_site([registered()]).when(change(&["provisioner", "scheduler", "dhcp"], kea())).then(["profile of gpu"]);
    story.when(change(&["colour"], kea())).then_refused("invalid");
    let bom = RoleProfile { bom: Some("sku@1".into()), ..kea() };
    given_site([registered(), asked(ask(|_| ()))]).when(change(&["bom"], bom)).then_refused("not-available");
}

/// A stage that is named and never runs would be a lie.
#[test]
fn what_this_build_cannot_do_is_refused_by_name() {
    type Row = (fn(&mut RoleProfile), &'static str);
    let rows: [Row; 8] = [
        (|p| p.bom = Some("sku@1".into()), "bom: sku@1; only `none` so far"),
        (|p| p.firmware = Some("base@2".into()), "firmware: base@2; only `none` so far"),
        (|p| p.validation = Some("hpl@3".into()), "validation: hpl@3; only `none` so far"),
        (|p| p.burn_in = Some("soak@4".into()), "burn_in: soak@4; only `none` so far"),
        (|p| p.provisioner = Provisioner::Nova, "provisioner: nova; only `external` so far"),
        (|p| p.provisioner = Provisioner::Ironic, "provisioner: ironic; only `external` so far"),
        (|p| p.workload_proofs = vec!["slurm-idle".into(), "person".into()], "workload proof `person`; known: slurm-idle"),
        (|p| p.workload_proofs = vec!["slurm-Idle".into()], "workload proof `slurm-Idle`; known: slurm-idle"),
    ];
    for (change, told) in rows {
        given_site([registered()]).when(ask(change)).then_refused("not-available").because(
            "something this version can do",
            told,
            "a later version; see the release notes",
        );
    }
}

#[test]
fn a_site_that_is_not_registered_or_not_in_reach() {
    let refused = |story: Story| story.when(ask(|_| ())).then_refused("unknown-site");
    refused(given_site([])).because("a registered site", "lhr1", "register the site in the configuration");
    given_site([]).reaching(&["ams1", "fra1"]).when(RegisterSite { sources: sources() }).then_refused("out-of-reach").because(
        "a right at lhr1",
        "ams1, fra1",
        "ask the site's owner",
    );
    given_site([registered()]).expecting_version(7).when(ask(|_| ())).then_refused("version-conflict");
}
