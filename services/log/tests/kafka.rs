//! The provider on Apache Kafka, on a real one: the conformance suite, and what is its own. `FM_TEST_KAFKA` names the brokers
//! (`tests/labs/kafka.sh up` starts them); without it nothing here can be shown, and each test says so.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_log::{Cleanup, Durability, EventLog, Item, Reader, Record, TopicPartition, TopicSpec, kafka::KafkaLog, kafka::Options};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

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

const PATIENCE: Duration = Duration::from_secs(30);

/// Reads `count` records, which must be those from `from` on, and then to the end.
async fn read(reader: &mut dyn Reader, from: u64, count: u64) {
    let (mut next, mut ended) = (from, false);
    while next < from + count || !ended {
        match tokio::time::timeout(PATIENCE, reader.next()).await.unwrap().unwrap() {
            Item::Record(stored) => {
                assert_eq!((stored.offset, &*stored.record.value), (next, next.to_string().as_bytes()));
                (next, ended) = (next + 1, false);
            }
            Item::End { next: end, .. } => ended = end == from + count,
        }
    }
}

/// Who is level shares one place; one that is slower than what is kept misses nothing, and one that goes takes nothing with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_are_level_are_brought_each_record_once() {
    let Some(options) = options() else { return };
    let log = KafkaLog::open(options).await.unwrap();
    let spec = TopicSpec {
        name: "shared.v1".into(),
        partitions: 1,
        cleanup: Cleanup::Delete,
        durability: Durability::Full,
        retention: None,
        settings: BTreeMap::new(),
    };
    log.ensure(&[spec]).await.unwrap();
    let at = TopicPartition::new("shared.v1", 0);
    let append = async |from: u64, count: u64| {
        let records = (from..from + count).map(|n| Record { key: "k".into(), value: n.to_string().into_bytes().into() });
        log.append(at.clone(), records.collect()).await.unwrap();
    };
    append(0, 100).await;
    let mut readers: Vec<_> = (0..3).map(|_| log.read(&[(at.clone(), 0)])).collect();
    for reader in &mut readers {
        read(&mut **reader, 0, 100).await;
    }
    let started = tokio::time::Instant::now();
    while log.places() != 1 {
        assert!(started.elapsed() < PATIENCE, "{} places for three who are level", log.places());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    append(100, 50).await;
    for reader in &mut readers {
        read(&mut **reader, 100, 50).await;
    }
    assert_eq!(log.places(), 1);
    append(150, 5000).await;
    read(&mut *readers[0], 150, 5000).await;
    readers.swap_remove(0);
    for reader in &mut readers {
        read(&mut **reader, 150, 5000).await;
    }
    append(5150, 10).await;
    for reader in &mut readers {
        read(&mut **reader, 5150, 10).await;
    }
}
