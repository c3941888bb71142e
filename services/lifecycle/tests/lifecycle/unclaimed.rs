//! Things that no device claims.

use crate::dsl::*;
use fleet_schemas::Take;

const OPEN: &str = "64 CPUs, partitions batch";

#[test]
fn it_opens_says_what_changed_and_closes() {
    given_unclaimed([]).seen(nobodys(true, OPEN)).then(["unclaimed: 64 CPUs, partitions batch"]).seen(nobodys(true, OPEN)).then_nothing();
    let open = || given_unclaimed([seen(nobodys(true, OPEN))]);
    open().seen(nobodys(true, "32 CPUs")).then(["unclaimed: 32 CPUs"]);
    open().seen(nobodys(false, "")).then(["closed"]).seen(nobodys(false, "")).then_nothing();
    open().seen(nobodys(false, "")).seen(nobodys(true, OPEN)).then(["unclaimed: 64 CPUs, partitions batch"]);
}

#[test]
fn late_and_foreign_looks_have_no_effect() {
    let open = || given_unclaimed([seen(nobodys(true, OPEN).seq(2, 5))]);
    open().seen(nobodys(false, "").seq(2, 4)).then_noted("late");
    open().seen(nobodys(false, "").seq(1, 9)).then_noted("late");
    open().seen(nobodys(false, "").by("ams1")).then_noted("identity-mismatch");
    open().seen_by(nobodys(false, ""), &["ams1"]).then_noted("out-of-reach");
    open().seen(slurm("IDLE").node("gpu09").seq(2, 6)).then_noted("wrong-stream");
    given([discovered()]).seen(nobodys(true, OPEN)).then_noted("wrong-stream");
    given_site([]).seen(nobodys(true, OPEN)).then_noted("unknown-source");
}

#[test]
fn nothing_is_asked_of_it() {
    given_unclaimed([]).when(drain()).then_refused("wrong-stream");
    given_unclaimed([]).when(Take { device: device_id() }).then_refused("wrong-stream");
}
