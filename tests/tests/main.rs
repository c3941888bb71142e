//! One test binary for everything that is tested over several crates or as whole processes.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

mod fmctl;
