//! What every provider must pass. A provider's tests say `fleet_log::conformance!(open)`, where `open(name)` returns an [`Opener`]: a
//! store of its own for the test `name`, which can be opened again; or none, where there is nothing to test on.

use crate::port::{
    AppendError, Cleanup, Durability, Error, EventLog, Fut, Item, Offset, ReadFault, Reader, Record, TopicPartition, TopicSpec,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Opens the same store, again and again; the one before is dropped by then.
pub type Opener = Box<dyn Fn() -> Fut<'static, Arc<dyn EventLog>> + Send + Sync>;

/// Makes one test of each case.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!($open; order_and_offsets, live_reader_is_woken, end_is_said_once_per_arrival, partitions_do_not_block_each_other,
            absolute_offsets, empty_key_is_refused_whole, ensure_creates_and_verifies, appends_keep_call_order, a_dropped_append_harms_nobody,
            trim_lets_go_of_the_old, reopening_keeps_everything, large_records, next_is_cancel_safe);
    };
    ($open:path; $($case:ident),*) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            if let Some(open) = $open(stringify!($case)) {
                $crate::conformance::$case(open).await;
            }
        }
    )* };
}

const PATIENCE: Duration = Duration::from_secs(30);

fn topic(name: &str, partitions: u32) -> TopicSpec {
    TopicSpec {
        name: name.into(),
        partitions,
        cleanup: Cleanup::Delete,
        durability: Durability::Full,
        retention: None,
        settings: BTreeMap::new(),
    }
}

fn at(partition: u32) -> TopicPartition {
    TopicPartition::new("conformance.v1", partition)
}

fn record(text: impl ToString) -> Record {
    Record { key: "k".into(), value: text.to_string().into_bytes().into() }
}

async fn log(open: &Opener, partitions: u32) -> Arc<dyn EventLog> {
    let log = open().await;
    accept(log.ensure(&[topic("conformance.v1", partitions)]).await);
    log
}

fn accept<T, E: std::fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(e) => panic!("refused: {e:?}"),
    }
}

async fn next(reader: &mut dyn Reader) -> Result<Item, crate::ReadError> {
    match tokio::time::timeout(PATIENCE, reader.next()).await {
        Ok(item) => item,
        Err(_) => panic!("the reader met nothing for {PATIENCE:?}"),
    }
}

/// Reads up to the end of every partition asked for.
async fn drain(log: &dyn EventLog, from: &[(TopicPartition, Offset)]) -> Vec<(u32, Offset, String)> {
    let (mut reader, mut ends, mut out) = (log.read(from), 0, Vec::new());
    while ends < from.len() {
        match accept(next(reader.as_mut()).await) {
            Item::Record(r) => out.push((r.at.partition, r.offset, String::from_utf8_lossy(&r.record.value).into_owned())),
            Item::End { .. } => ends += 1,
        }
    }
    out
}

/// Offsets are dense from 0 and records come back in the order they were appended.
pub async fn order_and_offsets(open: Opener) {
    let log = log(&open, 1).await;
    for i in 0..50 {
        accept(log.append(at(0), vec![record(i * 2), record(i * 2 + 1)]).await);
    }
    let read = drain(&*log, &[(at(0), 0)]).await;
    assert_eq!(read, (0..100).map(|i| (0, i, i.to_string())).collect::<Vec<_>>());
    assert_eq!(accept(log.bounds(at(0)).await), 0..100);
}

/// A reader that waits at the end sees what is appended then.
pub async fn live_reader_is_woken(open: Opener) {
    let log = log(&open, 1).await;
    let mut reader = log.read(&[(at(0), 0)]);
    assert_eq!(accept(next(reader.as_mut()).await), Item::End { at: at(0), next: 0 });
    for i in 0..20u64 {
        let (item, appended) = tokio::join!(next(reader.as_mut()), log.append(at(0), vec![record(i)]));
        accept(appended);
        let Item::Record(r) = accept(item) else { panic!("no record") };
        assert_eq!((r.offset, &r.record.value[..]), (i, i.to_string().as_bytes()));
        assert_eq!(accept(next(reader.as_mut()).await), Item::End { at: at(0), next: i + 1 });
    }
}

/// `End` is said when the end is reached, and not again before something new was read.
pub async fn end_is_said_once_per_arrival(open: Opener) {
    let log = log(&open, 1).await;
    let mut reader = log.read(&[(at(0), 0)]);
    assert!(matches!(accept(next(reader.as_mut()).await), Item::End { next: 0, .. }));
    assert!(tokio::time::timeout(Duration::from_millis(100), reader.next()).await.is_err(), "End was said twice");
}

/// A partition that cannot be read says so once; the others go on.
pub async fn partitions_do_not_block_each_other(open: Opener) {
    let log = log(&open, 3).await;
    accept(log.append(at(2), vec![record("two")]).await);
    let mut reader = log.read(&[(at(0), 7), (at(1), 0), (at(2), 0)]);
    let (mut faults, mut records, mut ends) = (0, 0, 0);
    while ends < 2 || faults < 1 {
        match next(reader.as_mut()).await {
            Ok(Item::Record(_)) => records += 1,
            Ok(Item::End { .. }) => ends += 1,
            Err(e) => {
                assert_eq!((e.at, e.fault), (at(0), ReadFault::BeyondEnd { wanted: 7, end: 0 }));
                faults += 1;
            }
        }
    }
    accept(log.append(at(1), vec![record("one")]).await);
    assert!(matches!(accept(next(reader.as_mut()).await), Item::Record(r) if r.at == at(1)));
    assert_eq!((faults, records), (1, 1));
}

/// Reading starts exactly where asked.
pub async fn absolute_offsets(open: Opener) {
    let log = log(&open, 1).await;
    accept(log.append(at(0), (0..2500).map(record).collect()).await);
    for from in [0, 1, 999, 1000, 1001, 2499, 2500] {
        let read = drain(&*log, &[(at(0), from)]).await;
        assert_eq!(read.len() as u64, 2500 - from);
        assert_eq!(read.first().map(|r| r.1), (from < 2500).then_some(from));
    }
}

/// An empty key is refused before anything is stored.
pub async fn empty_key_is_refused_whole(open: Opener) {
    let log = log(&open, 1).await;
    let keyless = Record { key: bytes::Bytes::new(), value: "x".into() };
    let refused = log.append(at(0), vec![record("fine"), keyless]).await;
    assert!(matches!(refused, Err(AppendError::NotStored(_))), "{refused:?}");
    assert!(matches!(log.append(at(9), vec![record("x")]).await, Err(AppendError::NotStored(_))), "a partition that is not there");
    assert_eq!(accept(log.bounds(at(0)).await), 0..0);
}

/// `ensure` can be repeated, adds what is missing, and refuses what differs without changing anything.
pub async fn ensure_creates_and_verifies(open: Opener) {
    let log = log(&open, 2).await;
    accept(log.ensure(&[topic("conformance.v1", 2)]).await);
    let refused = log.ensure(&[topic("conformance-other.v1", 1), topic("conformance.v1", 3)]).await;
    let Err(Error::Differs { topic: name, what, found, wanted }) = refused else { panic!("{refused:?}") };
    assert!(name.ends_with("conformance.v1"), "{name}");
    assert_eq!((what.as_str(), found.as_str(), wanted.as_str()), ("partition count", "2", "3"));
    assert!(log.bounds(TopicPartition::new("conformance-other.v1", 0)).await.is_err(), "nothing may be changed by a refused ensure");
}

/// Appends stand in the order in which `append` was called, whoever is awaited first.
pub async fn appends_keep_call_order(open: Opener) {
    let log = log(&open, 1).await;
    let mut appends: Vec<_> = (0..200).map(|i| log.append(at(0), vec![record(i)])).collect();
    while let Some(append) = appends.pop() {
        accept(append.await);
    }
    let read: Vec<_> = drain(&*log, &[(at(0), 0)]).await.into_iter().map(|r| r.2).collect();
    assert_eq!(read, (0..200).map(|i| i.to_string()).collect::<Vec<_>>());
}

/// A dropped future leaves its records stored or not, and everything else whole.
pub async fn a_dropped_append_harms_nobody(open: Opener) {
    let log = log(&open, 1).await;
    for i in 0..20 {
        drop(log.append(at(0), vec![record(format!("dropped {i}"))]));
        accept(log.append(at(0), vec![record(format!("kept {i}"))]).await);
    }
    let read = drain(&*log, &[(at(0), 0)]).await;
    let kept: Vec<_> = read.iter().filter(|r| r.2.starts_with("kept")).map(|r| r.2.clone()).collect();
    assert_eq!(kept, (0..20).map(|i| format!("kept {i}")).collect::<Vec<_>>());
    assert_eq!(read.iter().map(|r| r.1).collect::<Vec<_>>(), (0..read.len() as u64).collect::<Vec<_>>());
}

/// What was trimmed is gone, the rest stays, offsets go on.
pub async fn trim_lets_go_of_the_old(open: Opener) {
    let log = log(&open, 1).await;
    accept(log.append(at(0), (0..3000).map(record).collect()).await);
    accept(log.trim(at(0), 2500).await);
    let patience = tokio::time::Instant::now() + PATIENCE;
    while accept(log.bounds(at(0)).await) != (2500..3000) {
        assert!(tokio::time::Instant::now() < patience, "not trimmed: {:?}", log.bounds(at(0)).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut reader = log.read(&[(at(0), 2499)]);
    let gone = next(reader.as_mut()).await.map_err(|e| e.fault);
    assert_eq!(gone, Err(ReadFault::Gone { wanted: 2499, start: 2500 }));
    accept(log.append(at(0), vec![record("new")]).await);
    assert_eq!(drain(&*log, &[(at(0), 2500)]).await.len(), 501);
}

/// A store opened again has every record and its offsets.
pub async fn reopening_keeps_everything(open: Opener) {
    for round in 0..3u64 {
        let log = log(&open, 2).await;
        let before = drain(&*log, &[(at(0), 0)]).await;
        assert_eq!(before.len() as u64, round * 3);
        accept(log.append(at(0), (0..3).map(record).collect()).await);
        accept(log.append(at(1), vec![record(round)]).await);
        drop(log);
    }
    let log = log(&open, 2).await;
    assert_eq!(drain(&*log, &[(at(0), 0), (at(1), 0)]).await.len(), 12);
}

/// Records of 512 KiB go through.
pub async fn large_records(open: Opener) {
    let log = log(&open, 1).await;
    let big = "x".repeat(512 << 10);
    accept(log.append(at(0), vec![record(&big), record("small"), record(&big)]).await);
    let sizes: Vec<_> = drain(&*log, &[(at(0), 0)]).await.into_iter().map(|r| r.2.len()).collect();
    assert_eq!(sizes, [512 << 10, 5, 512 << 10]);
}

/// A `next` that is dropped half-way loses nothing.
pub async fn next_is_cancel_safe(open: Opener) {
    let log = log(&open, 1).await;
    accept(log.append(at(0), (0..5000).map(record).collect()).await);
    let (mut reader, mut seen, mut dropped) = (log.read(&[(at(0), 0)]), 0, 0);
    while seen < 5000 {
        // Polled once; dropped where it is not ready.
        let polled = tokio::select! { biased; item = reader.next() => Some(item), () = std::future::ready(()) => None };
        match polled {
            Some(item) => {
                if let Item::Record(r) = accept(item) {
                    assert_eq!(r.offset, seen);
                    seen += 1;
                }
            }
            None => {
                dropped += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
    assert!(dropped > 0, "no `next` was ever dropped half-way");
}
