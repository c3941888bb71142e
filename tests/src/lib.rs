//! The harness: whole processes ([`Running`]), their API ([`Api`]), and waiting for what must come to be ([`until`]). For the lab tests
//! the real systems ([`labs`]), and what passes between the product and them ([`recorder`]).
//!
//! A test that needs a process asks for [`Running::start`]; the process ends with the value. Nothing here decides by a sleep.

mod api;
mod brokers;
mod configured;
mod database;
mod downstream;
mod fleet;
pub mod labs;
mod load;
mod pair;
mod proxy;
pub mod recorder;
pub mod redecide;
mod running;
mod simulated;
mod stand;
mod waiting;

pub use api::{Answer, Api, ask_token, assertion, encoded};
pub use brokers::{Brokers, PASSWORD};
pub use configured::{kafka_options, log_toml};
pub use database::Database;
pub use downstream::Consumer;
pub use fleet::Fleet;
pub use load::{Done, Load};
pub use pair::{Pair, Place, Rhythm, World, free_port};
pub use proxy::{Proxy, Way};
pub use running::{Running, binary};
pub use simulated::{configure, ids};
pub use stand::Stand;
pub use waiting::{until, until_within};

/// Installs the one provider of cryptography; to be called first in every test that speaks HTTP or signs.
pub fn crypto() {
    // A second installation in the same test binary is refused, which is fine.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// The seed of a random test: `FM_SEED`, else this one. Printed, so that a failure can be repeated.
pub fn seed(default: u64) -> u64 {
    let seed = std::env::var("FM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(default);
    println!("FM_SEED={seed}");
    seed
}

/// A file or folder of the repository.
pub fn repository(path: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}
