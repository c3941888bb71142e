//! A broker whose disk is full.

use crate::refused::spec;
use fleet_log::kafka::KafkaLog;
use fleet_log::{EventLog, Item, Record, TopicPartition};
use fleet_tests::Brokers;
use rand::Rng;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A disk of its own, small; it goes with the value.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: &Path) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(at).output().unwrap();
        assert!(done.status.success(), "a disk of its own needs root: {}", String::from_utf8_lossy(&done.stderr));
        Self(at.into())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Nothing is to be done about one that is still in use: it goes with the machine.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A full disk ends the broker. What was acknowledged is there afterwards, what was not is not said to be; and with room again, and the
/// broker started again, it goes on without anything being done to us.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing_that_was_acknowledged_and_heals() {
    let folder = TempDir::new().unwrap();
    let disk = Disk::mount(&folder.path().join("kafka/n1/data"));
    let brokers = Brokers::start(folder.path(), 1, "log.segment.bytes=8388608").unwrap();
    let log = KafkaLog::open(brokers.options()).await.unwrap();
    log.ensure(&[spec("t")]).await.unwrap();
    let at = TopicPartition::new("t", 0);
    let (mut told, mut open) = (0u64, None);
    for i in 0..4000u64 {
        let mut value = vec![7; 50_000];
        // Not to be compressed away.
        rand::rng().fill(&mut value[..]);
        value[..8].copy_from_slice(&i.to_be_bytes());
        let mut append = log.append(at.clone(), vec![Record { key: "k".into(), value: value.into() }]);
        match tokio::time::timeout(Duration::from_secs(5), &mut append).await {
            Ok(stored) => {
                stored.unwrap();
                told += 1;
            }
            Err(_) => {
                open = Some(append);
                break;
            }
        }
    }
    assert!(told > 100, "only {told} were stored");
    let open = open.expect("the disk was never full");
    // Room again: as a person would make it.
    let done = Command::new("mount").args(["-o", "remount,size=512m"]).arg(&disk.0).status().unwrap();
    assert!(done.success());
    brokers.signal(0, "KILL").unwrap();
    brokers.mend().unwrap();
    tokio::time::timeout(Duration::from_secs(60), open).await.expect("the append that waited ends").unwrap();
    let (mut reader, mut next) = (log.read(&[(at, 0)]), 0u64);
    while next <= told {
        match tokio::time::timeout(Duration::from_secs(30), reader.next()).await.unwrap() {
            Ok(Item::Record(r)) => {
                assert_eq!(r.record.value[..8], next.to_be_bytes(), "in order, none missing, none twice");
                next += 1;
            }
            Ok(Item::End { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    drop(brokers);
}
