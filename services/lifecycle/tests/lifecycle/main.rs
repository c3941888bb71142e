//! The deciders: each edge with its guards, conditions and marks, NetBox and its people, deadlines, the site; the whole of phase ×
//! verb as one table; and laws over random histories.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

#[path = "../dsl/mod.rs"]
mod dsl;

mod bootstrap;
mod conditions;
mod deadlines;
mod edges;
mod exclusive;
mod folds;
mod laws;
mod matrix;
mod netbox;
mod site;
mod slurm;
mod unclaimed;
mod ways_out;
mod why;
