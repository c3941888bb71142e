//! One test binary for everything that is tested over several crates or as whole processes.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod api;
mod bootstrap;
mod documents;
mod exclusive;
mod fmctl;
mod orphans;
mod rebuild;
mod scenarios;
mod tidy;
#[allow(dead_code, reason = "shared with the journal's own tests, which use all of it")]
#[path = "../../services/journal/tests/journal/world.rs"]
mod world;
