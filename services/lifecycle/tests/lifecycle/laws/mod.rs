//! What holds of every history, however it came about. Random sequences of everything that can happen run through the same steps as
//! the journal's; a failure prints the shortest history that fails, and stores its seed in `proptest-regressions`.
//! `PROPTEST_CASES=100000 cargo test -p fleet-lifecycle laws` looks longer.
//!
//! That one input gives the same bytes twice, that every event survives its encoding, and that planning again gives nothing, is
//! checked of every step of every test (`dsl::run`).

mod any_event;
mod devices;
mod happenings;
mod reports;
mod sites;
mod steps;

use proptest::test_runner::{Config, RngAlgorithm};

/// XorShift, since without optimisation the usual generator takes more time than the laws.
const RANDOM: RngAlgorithm = RngAlgorithm::XorShift;

pub(crate) fn config() -> Config {
    let usual = Config::default();
    Config { cases: usual.cases.max(2_000), max_shrink_iters: 20_000, rng_algorithm: RANDOM, ..usual }
}
