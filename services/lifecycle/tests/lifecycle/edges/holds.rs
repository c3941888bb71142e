//! Holds: no advance while one stands.

use crate::dsl::*;
use fleet_schemas::{HOUR, SECOND};

#[test]
fn placed_and_lifted() {
    given([ready()])
        .when(hold("ticket-7"))
        .then(["hold ticket-7 by alice"])
        .and_plans(nothing())
        .when(activate())
        .then_refused("held")
        .because("no hold", "hold `ticket-7` by alice: on purpose", "unhold --name ticket-7")
        .when(unhold("ticket-7"))
        .then(["hold ticket-7 lifted by alice"])
        .when(activate())
        .then_accepted();
}

#[test]
fn every_one_must_be_lifted() {
    given([ready(), asked(hold("a")), asked(hold("b"))]).when(unhold("a")).when(activate()).then_refused("held").because(
        "no hold",
        "hold `b` by alice: on purpose",
        "unhold --name b",
    );
}

#[test]
fn its_time_ends_it() {
    given([ready()])
        .when(hold_until("short", START.plus(HOUR)))
        .then(["hold short by alice, until +3594s", "wait hold-expiry short +3594s"])
        .after(HOUR / 2)
        .then_nothing()
        .after(HOUR)
        .then(["hold short lifted by expiry"])
        .after(HOUR)
        .then_nothing();
}

#[test]
fn lifted_before_its_time_nothing_is_left_to_expire() {
    given([ready(), asked(hold_until("short", START.plus(HOUR)))]).when(unhold("short")).after(2 * HOUR).then_nothing();
}

#[test]
fn a_longer_time_replaces_a_shorter() {
    given([ready(), asked(hold_until("h", START.plus(HOUR))), asked(hold_until("h", START.plus(3 * HOUR)))])
        .after(2 * HOUR)
        .then_nothing()
        .after(2 * HOUR)
        .then(["hold h lifted by expiry"]);
}

/// One without an end is not lifted by the time of the one that it replaced.
#[test]
fn no_end_replaces_an_end() {
    given([ready(), asked(hold_until("h", START.plus(HOUR))), asked(hold("h"))]).after(2 * HOUR).then_nothing();
}

#[test]
fn what_cannot_be() {
    given([ready()]).when(unhold("h")).then_refused("no-such-hold").because("a hold named `h`", "no hold", "name a hold that stands");
    given([ready(), asked(hold("a")), asked(hold("b"))]).when(unhold("h")).then_refused("no-such-hold").because(
        "a hold named `h`",
        "a, b",
        "name a hold that stands",
    );
    let when_it_is_asked = given([ready()]).run.now.plus(SECOND);
    given([ready()]).when(hold_until("h", when_it_is_asked)).then_refused("invalid");
    given([ready()]).when(hold_until("h", START)).then_refused("invalid").because("a time to come", "the past", "give a later time");
    given([ready()]).when(hold("moved")).then_refused("invalid").because(
        "a name other than `moved`",
        "moved",
        "that hold is placed by a move alone",
    );
}

/// Whoever keeps an eye on a device may do so whatever it is.
#[test]
fn on_any_device_that_netbox_has() {
    given([seen(netbox().role("storage"))]).when(hold("h")).then(["hold h by alice"]);
}
