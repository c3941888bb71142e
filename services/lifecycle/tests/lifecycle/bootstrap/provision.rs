//! Field report 18: installing is refused at command time, naming the field that is null.

use super::*;

fn refused(config: Option<BootstrapFields>, seen: &str, helps: &str) {
    let story = given([discovered(), meanwhile(gives_config("gpu", config))]).when(not_built("provision"));
    story.then_refused("bootstrap-config-not-adoptable").because(
        "a bootstrap configuration of gpu at lhr1 with image and flavor",
        seen,
        helps,
    );
}

#[test]
fn provision_is_refused_with_the_field_that_is_null() {
    refused(Some(boots(None, Some("f"))), "version 1: image is null", "give gpu image");
    refused(Some(boots(Some("i"), None)), "version 1: flavor is null", "give gpu flavor");
    refused(Some(boots(None, None)), "version 1: image is null, flavor is null", "give gpu image and flavor");
    refused(None, "none", "create the configuration of gpu");
}

#[test]
fn a_role_without_configuration_or_with_a_name_that_none_can_have() {
    for role in ["cpu", "GPU node"] {
        let story = given([seen(netbox().role(role))]).when(not_built("provision")).then_refused("bootstrap-config-not-adoptable");
        let expected = format!("a bootstrap configuration of {role} at lhr1 with image and flavor");
        story.because(&expected, "none", &format!("create the configuration of {role}"));
    }
}

/// With a configuration it is only not built yet; and no other verb asks for one.
#[test]
fn an_adoptable_one_leaves_the_verb_to_a_later_version() {
    given([discovered()]).when(not_built("provision")).then_refused("not-available");
    let none = || meanwhile(gives_config("gpu", None));
    given([discovered(), none()]).when(not_built("release")).then_refused("not-available");
    given([in_service(), none()]).when(drain()).then_accepted();
}

/// A configuration is no reason to plan anything: nobody is woken by it.
#[test]
fn a_change_of_a_configuration_concerns_no_plan() {
    given([in_service()]).reference_changes(gives_config("gpu", None)).then_nothing();
}
