//! The provider on Apache Kafka, on a real one: the conformance suite, and what is its own. `FM_TEST_KAFKA` names the brokers
//! (`tests/labs/kafka.sh up` starts them); without it nothing here can be shown, and each test says so.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_log::{EventLog, kafka::KafkaLog, kafka::Options};
use std::sync::Arc;

/// The brokers to test on, with a prefix that no other test has.
fn options() -> Option<Options> {
    let Ok(bootstrap) = std::env::var("FM_TEST_KAFKA") else {
        eprintln!("skipped: FM_TEST_KAFKA names no brokers");
        return None;
    };
    let copies = if bootstrap.contains(',') { (3, 2) } else { (1, 1) };
    let prefix = format!("t{:016x}.", rand::random::<u64>());
    Some(Options { prefix, replication: copies.0, min_insync: copies.1, ..Options::plain(&bootstrap) })
}

fn open(_: &'static str) -> Option<fleet_log::conformance::Opener> {
    let options = options()?;
    Some(Box::new(move || {
        let options = options.clone();
        Box::pin(async move { Arc::new(KafkaLog::open(options).await.unwrap()) as Arc<dyn EventLog> })
    }))
}

fleet_log::conformance!(open);
