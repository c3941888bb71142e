//! The embedded provider: the conformance suite, and what is its own (a lock, a full disk, a foreign file).

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use fleet_log::{AppendError, Cleanup, Durability, Error, EventLog, Faults, Item, Record, TopicPartition, TopicSpec, Unreliable, sqlite};
use std::{collections::BTreeMap, sync::Arc};
use tempfile::TempDir;

fn open(_: &'static str) -> Option<fleet_log::conformance::Opener> {
    let folder = Arc::new(TempDir::new().unwrap());
    Some(Box::new(move || {
        let folder = folder.clone();
        Box::pin(async move { Arc::new(sqlite::SqliteLog::open(folder.path()).unwrap()) as Arc<dyn EventLog> })
    }))
}

fleet_log::conformance!(open);

fn topic(partitions: u32) -> TopicSpec {
    TopicSpec {
        name: "t".into(),
        partitions,
        cleanup: Cleanup::Delete,
        durability: Durability::Full,
        retention: None,
        settings: BTreeMap::new(),
    }
}

fn record(size: usize) -> Record {
    Record { key: "k".into(), value: vec![7; size].into() }
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_folder() {
    let folder = TempDir::new().unwrap();
    let _first = sqlite::SqliteLog::open(folder.path()).unwrap();
    let second = sqlite::SqliteLog::open(folder.path()).err().unwrap();
    assert!(second.to_string().contains("in use by another process"), "{second}");
}

#[tokio::test]
async fn tools_read_beside_the_owner_and_cannot_write() {
    let folder = TempDir::new().unwrap();
    let owner = sqlite::SqliteLog::open(folder.path()).unwrap();
    owner.ensure(&[topic(1)]).await.unwrap();
    let at = TopicPartition::new("t", 0);
    owner.append(at.clone(), vec![record(3)]).await.unwrap();
    let tool = sqlite::SqliteLog::open_read_only(folder.path()).unwrap();
    assert!(matches!(tool.read(&[(at.clone(), 0)]).next().await, Ok(Item::Record(_))));
    assert!(matches!(tool.append(at, vec![record(3)]).await, Err(AppendError::NotStored(_))));
}

#[tokio::test]
async fn a_full_disk_stores_nothing_of_the_refused_append_and_heals() {
    let folder = TempDir::new().unwrap();
    let at = TopicPartition::new("t", 0);
    let acknowledged = {
        let log = sqlite::SqliteLog::open_with(folder.path(), sqlite::Limits { max_pages: Some(200) }).unwrap();
        log.ensure(&[topic(1)]).await.unwrap();
        let mut acknowledged = 0;
        loop {
            match log.append(at.clone(), vec![record(20_000)]).await {
                Ok(()) => acknowledged += 1,
                Err(AppendError::NotStored(why)) => {
                    assert!(why.contains("full"), "{why}");
                    break acknowledged;
                }
                Err(other) => panic!("{other}"),
            }
        }
    };
    assert!(acknowledged > 5);
    let log = sqlite::SqliteLog::open(folder.path()).unwrap();
    assert_eq!(log.bounds(at.clone()).await.unwrap(), 0..acknowledged);
    log.append(at.clone(), vec![record(20_000)]).await.unwrap();
    assert_eq!(log.bounds(at).await.unwrap(), 0..acknowledged + 1);
}

#[test]
fn a_foreign_file_is_refused() {
    let folder = TempDir::new().unwrap();
    let other = rusqlite::Connection::open(folder.path().join("log.sqlite")).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    drop(other);
    let refused = sqlite::SqliteLog::open(folder.path()).err().unwrap();
    assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
}

/// What became of 400 appends of three records each, and which of them can be read.
async fn weathered(seed: u64) -> (Vec<&'static str>, Vec<u64>) {
    let folder = TempDir::new().unwrap();
    let inner: Arc<dyn EventLog> = Arc::new(sqlite::SqliteLog::open(folder.path()).unwrap());
    inner.ensure(&[topic(1)]).await.unwrap();
    let at = TopicPartition::new("t", 0);
    // Nothing comes late: when that is stored is the machine's to say.
    let log = Unreliable::new(inner.clone(), "t", seed, Faults { late: 0, ..Faults::storm() });
    let mut told = Vec::new();
    for n in 0..400u64 {
        let records = (0..3).map(|i| Record { key: "k".into(), value: (3 * n + i).to_string().into() }).collect();
        told.push(match log.append(at.clone(), records).await {
            Ok(()) => "stored",
            Err(AppendError::NotStored(_)) => "not stored",
            Err(AppendError::Unknown(_)) => "unknown",
        });
    }
    let (mut reader, mut there) = (inner.read(&[(at, 0)]), Vec::new());
    while let Ok(Item::Record(r)) = reader.next().await {
        there.push(std::str::from_utf8(&r.record.value).unwrap().parse().unwrap());
    }
    (told, there)
}

/// The wrapper does what it says: with the same seed the same, every fate occurs, and what it calls stored can be read.
#[tokio::test]
async fn the_fault_wrapper_keeps_its_word() {
    let (told, there) = weathered(7).await;
    assert_eq!((told.clone(), there.clone()), weathered(7).await, "the same seed");
    assert_ne!(told, weathered(8).await.0, "another seed");
    let mut fates = std::collections::BTreeMap::<(&str, usize), usize>::new();
    for (n, told) in told.iter().enumerate() {
        let copies = there.iter().filter(|v| **v / 3 == n as u64).count();
        *fates.entry((told, copies)).or_default() += 1;
    }
    let seen: std::collections::BTreeSet<_> = fates.keys().copied().collect();
    for fate in [("stored", 3), ("stored", 6), ("not stored", 0), ("unknown", 0), ("unknown", 3)] {
        assert!(seen.contains(&fate), "{fate:?} never came about: {fates:?}");
    }
    assert!(seen.iter().any(|(told, copies)| *told == "unknown" && matches!(copies, 1 | 2)), "no append was half stored: {fates:?}");
    assert!(seen.iter().all(|(told, copies)| *told != "stored" || *copies >= 3), "told stored, and not there: {fates:?}");
    assert!(seen.iter().all(|(told, copies)| *told != "not stored" || *copies == 0), "told not stored, and there: {fates:?}");
}
