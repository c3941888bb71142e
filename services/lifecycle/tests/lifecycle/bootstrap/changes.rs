//! A configuration's own life.

use super::*;
use fleet_lifecycle::bootstrap::not_adoptable;

fn missing(fields: &BootstrapFields) -> Vec<&'static str> {
    not_adoptable(fields).iter().map(|n| n.field).collect()
}

#[test]
fn created_once_and_a_second_is_refused() {
    let story = given_config([]).when(create(full())).then(["created version 1 by alice"]).and_plans(nothing());
    assert_eq!((story.config().standing, story.config().version, &story.config().fields), (true, 1, &full()));
    assert_eq!(missing(&story.config().fields), Vec::<&str>::new());
    let told = "change it, or retire it first";
    story.when(create(full())).then_refused("already-exists").because("no bootstrap configuration of gpu at lhr1", "version 1", told);
}

/// Field report 18: null is accepted, and said.
#[test]
fn null_image_or_flavor_is_accepted_and_not_adoptable() {
    for (fields, expected) in
        [(boots(None, Some("f")), vec!["image"]), (boots(Some("i"), None), vec!["flavor"]), (boots(None, None), vec!["image", "flavor"])]
    {
        let story = given_config([]).when(create(fields.clone())).then(["created version 1 by alice"]);
        assert_eq!(missing(&story.config().fields), expected);
        let story = given_config([asked(create(full()))]).when(patch(&["image", "flavor"], fields));
        assert_eq!(missing(&story.then_accepted().config().fields), expected);
    }
}

#[test]
fn a_patch_sets_clears_and_leaves() {
    let other = BootstrapFields { image: None, flavor: Some("bm.h200".into()), features: vec![], gres: None };
    let patched = |set: &[&str]| given_config([asked(create(full()))]).when(patch(set, other.clone()));
    let rows: [(&str, BootstrapFields); 4] = [
        ("image", BootstrapFields { image: None, ..full() }),
        ("flavor", BootstrapFields { flavor: Some("bm.h200".into()), ..full() }),
        ("features", BootstrapFields { features: vec![], ..full() }),
        ("gres", BootstrapFields { gres: None, ..full() }),
    ];
    for (name, expected) in rows {
        let story = patched(&[name]).then([format!("version 2 by alice: {name}").as_str()]);
        assert_eq!((&story.config().fields, story.config().user_data.as_ref().map(|u| u.version)), (&expected, Some(1)), "{name}");
    }
    assert_eq!(patched(&["image", "flavor", "features", "gres"]).then_accepted().config().fields, other);
    patched(&["colour"]).then_refused("invalid").because(
        "image, flavor, features, gres, user_data",
        "colour",
        "name a field of a configuration",
    );
}

#[test]
fn user_data_is_set_cleared_and_left_by_what_it_is_not_by_its_bytes() {
    let story = || given_config([asked(create(full()))]);
    let of = |story: &Story| story.config().user_data.as_ref().map(|u| (u.version, u.digest));
    let kept = story().when(patch(&["gres"], boots(None, None)));
    assert_eq!(of(&kept), Some((1, Hash([1; 32]))), "a patch that does not name it leaves it");
    story().when(patch_data(&["user_data"], full(), Some(sealed(1, 1)))).then_nothing();
    let set = story().when(patch_data(&["user_data"], full(), Some(sealed(1, 2)))).then(["version 2 by alice: user_data"]);
    assert_eq!(of(&set), Some((2, Hash([2; 32]))));
    let anew = story().when(patch_data(&["user_data"], full(), Some(sealed(9, 1)))).then(["version 2 by alice: user_data"]);
    assert_eq!(of(&anew), Some((2, Hash([1; 32]))), "under another key it cannot be told equal");
    let cleared = story().when(patch(&["user_data"], full())).then(["version 2 by alice: user_data"]);
    assert_eq!(of(&cleared), None);
    cleared.when(patch(&["user_data"], full())).then_nothing();
    let unnamed = story().when(patch_data(&[], full(), Some(sealed(1, 7)))).then_nothing();
    assert_eq!(of(&unnamed), Some((1, Hash([1; 32]))));
}

#[test]
fn what_changes_nothing_is_no_version() {
    let story = given_config([asked(create(full()))]).when(patch(&["image", "flavor", "features", "gres"], full())).then_nothing();
    let story = story.when(patch(&[], boots(None, None))).then_nothing();
    assert_eq!((story.config().version, story.run.version), (1, 1));
}

#[test]
fn retired_it_is_gone_and_created_again_it_counts_on() {
    let story = given_config([asked(create(full())), asked(patch(&["gres"], boots(None, None)))]);
    let story = story.when(patch(&["image"], boots(None, None))).then(["version 2 by alice: image"]);
    let story = story.when(retire()).then(["retired version 3 by alice"]);
    assert!(!story.config().standing);
    let story = story.when(retire()).then_refused("unknown-config").because(
        "a bootstrap configuration of gpu at lhr1",
        "it was retired as version 3",
        "create one",
    );
    let story = story.when(patch(&["gres"], full())).then_refused("unknown-config").because(
        "a bootstrap configuration of gpu at lhr1",
        "it was retired as version 3",
        "create one",
    );
    let story = story.when(create(boots(None, None))).then(["created version 4 by alice"]);
    assert_eq!((story.config().standing, story.config().fields.image.as_ref()), (true, None));
    assert_eq!(story.config().created_at, story.config().updated_at);
}

#[test]
fn a_configuration_that_the_role_is_installed_from_stays() {
    let nova = || RoleProfile { provisioner: Provisioner::Nova, ..profile(Scheduler::Slurm, &["slurm-idle"]) };
    let story = given_config([asked(create(full())), meanwhile(gives_profile("gpu", nova()))]).when(retire());
    let story = story.then_refused("in-use").because(
        "no role profile that installs gpu at lhr1",
        "its role profile has provisioner nova",
        "give the role another provisioner first",
    );
    story.reference_changes(gives_profile("gpu", profile(Scheduler::Slurm, &[]))).when(retire()).then_accepted();
    let elsewhere = given_config([asked(create(full())), meanwhile(gives_profile("cpu", nova()))]);
    elsewhere.when(retire()).then(["retired version 2 by alice"]);
}

#[test]
fn another_version_than_was_expected_and_a_site_out_of_reach() {
    let story = given_config([asked(create(full()))]).expecting_version(7).when(patch(&["image"], boots(None, None)));
    let story = story.then_refused("version-conflict").because("version 7", "version 1", "read the configuration again and decide anew");
    let story = story.reaching(&["ams1"]);
    for ask in [patch(&["image"], boots(None, None)), retire(), create(full()), read(1)] {
        story.clone().when(ask).then_refused("out-of-reach").because("a right at lhr1", "ams1", "ask the site's owner");
    }
}

#[test]
fn a_site_that_is_not_registered() {
    let unknown: Change = Box::new(|reference, _| drop(reference.sites.remove(&at("lhr1"))));
    given_config([meanwhile(unknown)]).when(create(full())).then_refused("unknown-site").because(
        "a registered site",
        "lhr1",
        "register the site in the configuration",
    );
}

/// A read changes nothing, whoever reads, and asks for a version that there is.
#[test]
fn a_read_of_user_data_is_no_change() {
    let story = given_config([asked(create(full())), asked(patch(&["image"], boots(None, None)))]);
    let story = story.when(read(1)).then_nothing().when(read(2)).then_nothing();
    assert_eq!(story.run.version, 2);
    for version in [0, 3, u64::MAX >> 1] {
        story.clone().when(read(version)).then_refused("unknown-config");
    }
    given_config([]).when(read(1)).then_refused("unknown-config");
}

#[test]
fn fields_that_cannot_be_so() {
    let long = "x".repeat(256);
    let many: Vec<String> = (0..65).map(|i| format!("f{i}")).collect();
    let bad = [
        BootstrapFields { image: Some(String::new()), ..full() },
        BootstrapFields { image: Some("a\u{7}b".into()), ..full() },
        BootstrapFields { flavor: Some(long), ..full() },
        BootstrapFields { gres: Some(" ".into()), ..full() },
        BootstrapFields { features: vec!["a b".into()], ..full() },
        BootstrapFields { features: vec!["a,b".into()], ..full() },
        BootstrapFields { features: vec![String::new()], ..full() },
        BootstrapFields { features: vec!["a".into(), "a".into()], ..full() },
        BootstrapFields { features: many, ..full() },
    ];
    for fields in bad {
        given_config([]).when(create(fields.clone())).then_refused("invalid");
        given_config([asked(create(full()))]).when(patch(&["image", "flavor", "features", "gres"], fields)).then_refused("invalid");
    }
}
