//! The journal on the embedded log: what is decided, what survives, what is never decided twice.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod basics;
mod contenders;
mod deadlines;
mod defects;
mod hubs;
mod reactions;
mod restarts;
mod world;
