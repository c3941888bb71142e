//! `make kafka`: what a Kafka cluster can do to us, with real brokers: topics that are missing or differ, users and certificates that are
//! wrong, records too large, brokers that are gone. Each ends with a message that a person can act on.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod disk;
mod hubs;
mod paused;
mod refused;
mod registry;
mod shutdown;
mod topics;
