//! One test binary for everything that is tested over several crates or as whole processes.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod access;
mod api;
mod attention;
mod bootstrap;
mod canaries;
mod denials;
mod documents;
mod exclusive;
mod filters;
mod fmctl;
mod gateway;
mod generations;
mod limits;
mod oidc;
mod openapi;
mod orphans;
mod outage;
mod past;
mod place;
mod postgres;
mod rebuild;
mod rhythm;
mod satellite;
mod scenarios;
mod settings;
mod tidy;
#[allow(dead_code, reason = "shared with the journal's own tests, which use all of it")]
#[path = "../../services/journal/tests/journal/world.rs"]
mod world;
