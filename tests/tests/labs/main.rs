//! Against the real systems: NetBox with 200 devices at four sites, SLURM 22.05 and 24.11 with sixteen nodes each, four of them devices
//! of the site that is bound to the cluster. `tests/labs/run` starts everything and runs this. The product is two processes, hub and
//! satellite, which know each other by private_key_jwt; what passes between them is recorded, too.
//!
//! dc1 is bound to 22.05 and dc2 to 24.11; dc3 has a role profile without a scheduler, dc4 none at all. Everything that the product asks
//! of an outside system passes a recorder, which says when an answer showed a change, and in the end that nothing but reads was sent.
//! What the tests themselves ask and do goes past it. Both tests change the labs step by step and rely on that order.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test says what failed by panicking")]

mod apart;
mod baseline;
mod bulk;
mod drain;
mod netbox_edits;
mod slurm_faults;
mod story;
mod truth;

use story::Story;

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_story() {
    let story = Story::begin(30).await;
    truth::equals(&story, "the first look").await;
    baseline::each_phase_with_its_evidence(&story).await;
    drain::a_foreign_drain_is_its_owners_to_lift(&story).await;
    drain::a_drain_is_followed_to_its_end(&story).await;
    tokio::join!(slurm_faults::a_killed_slurmd(&story), netbox_edits::renames_and_moves(&story));
    netbox_edits::status_edits_become_commands(&story).await;
    netbox_edits::a_deleted_device_stays_listed(&story).await;
    slurm_faults::an_expired_token(&story).await;
    slurm_faults::a_controller_that_is_down(&story).await;
    apart::a_hub_that_was_away(&story).await;
    apart::a_satellite_that_was_away(&story).await;
    apart::a_satellite_whose_disk_was_lost(&story).await;
    apart::two_satellites_at_once(&story).await;
    apart::a_way_that_was_cut(&story).await;
    truth::equals(&story, "the end").await;
    story.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bulk_transaction_loses_nothing() {
    // No sweep is due while the test lasts: what is seen came by the change feed.
    let story = Story::begin(900).await;
    truth::equals(&story, "the first look").await;
    bulk::overtaken_by_other_edits(&story).await;
    truth::equals(&story, "after the bulk").await;
    bulk::no_sweep_since_the_first(&story);
    story.end().await;
}
