//! Epochs: which run of an agent counts.

use super::{config, registered};
use crate::dsl::*;
use fleet_schemas::{BootId, ClaimEpoch, LookFault};
use uuid::Uuid;

fn claim(source_name: &str, boot: u128) -> ClaimEpoch {
    ClaimEpoch { source: source(source_name), boot: BootId(Uuid::from_u128(boot)) }
}

#[test]
fn the_same_boot_has_the_same_epoch_and_a_new_one_a_higher() {
    given_site([registered()])
        .when(claim("slurm", 1))
        .then(["epoch 1 of slurm"])
        .when(claim("slurm", 1))
        .then_nothing()
        .when(claim("slurm", 2))
        .then(["epoch 2 of slurm"])
        .when(claim("slurm", 1))
        .then(["epoch 3 of slurm"])
        .when(claim("netbox", 1))
        .then(["epoch 1 of netbox"]);
}

#[test]
fn it_outlives_a_change_of_the_configuration() {
    given_site([registered(), asked(claim("slurm", 1)), asked(config(|s| s[1].interval_seconds = 30))])
        .when(claim("slurm", 1))
        .then_nothing()
        .when(claim("slurm", 2))
        .then(["epoch 2 of slurm"]);
}

/// Somebody takes a source out of the configuration and puts it back: its agent goes on as if nothing had been.
#[test]
fn it_outlives_that_the_source_is_taken_away_for_a_while() {
    let away = || [registered(), asked(claim("slurm", 1)), asked(claim("slurm", 2)), asked(config(|s| s.truncate(1)))];
    given_site(away()).when(claim("slurm", 2)).then_refused("unknown-source");
    let back = || given_site(away()).when(config(|_| ()));
    back().when(claim("slurm", 2)).then_nothing();
    back().when(claim("slurm", 3)).then(["epoch 3 of slurm"]);
    back().seen(sweep(source("slurm")).seq(1, 99)).then_noted("superseded");
    back().seen(sweep(source("slurm")).seq(2, 1)).then(["slurm fresh, looked +0s"]);
}

#[test]
fn a_source_that_the_site_does_not_have() {
    given_site([asked(config(|s| s.truncate(1)))]).when(claim("slurm", 1)).then_refused("unknown-source").because(
        "a source that the site has",
        "slurm; it has: netbox",
        "add the source to the site's configuration",
    );
    given_site([]).when(claim("slurm", 1)).then_refused("unknown-site");
    given_site([asked(config(|s| s.truncate(1)))]).seen(sweep(source("slurm"))).then_noted("unknown-source");
}

#[test]
fn what_an_old_run_says_is_superseded() {
    let story = || given_site([registered(), asked(claim("slurm", 1)), asked(claim("slurm", 2))]);
    story().seen(sweep(source("slurm")).seq(1, 99)).then_noted("superseded");
    story().seen(fails(source("slurm"), LookFault::TokenExpired).seq(1, 99)).then_noted("superseded");
    story().seen(sweep(source("slurm")).seq(2, 1)).then(["slurm fresh, looked +0s"]);
}
