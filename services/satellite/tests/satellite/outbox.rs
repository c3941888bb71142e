//! What is kept, what is dropped, in which order it goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fleet_satellite::{ClientError, Complete, ErrorClass, Outbox, SendError, Sweep};
use fleet_schemas::{Fact, LookFault, Source, StreamId};

use crate::harness::{Hub, Stage, eventually, site, sweep};

#[tokio::test]
async fn unchanged_is_dropped_and_the_latest_truth_never() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    stage.drain();
    for reason in ["A", "A", "B", "B", "A", "A"] {
        stage.say(Ok(sweep(&[("s1/n1", reason)]))).await;
    }
    stage.sent().await;
    assert_eq!(stage.hub.said(), ["n1 A", "n1 B", "n1 A"]);
    // The same from another site, or under another name, is another statement about the device.
    let mut moved = sweep(&[("s1/n1", "A")]);
    moved.observations[0].native_id = "n2".into();
    stage.say(Ok(moved)).await;
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    stage.sent().await;
    assert_eq!(stage.hub.said()[3..], ["n2 A", "n1 A"]);
    stage.stop().await;
}

#[tokio::test]
async fn everything_is_sent_again_after_the_resync_span_but_not_while_it_waits() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    *stage.hub.refuse.lock().unwrap() = Some(SendError::Retry("away".into()));
    stage.drain();
    let all = [("s1/n1", "A"), ("s1/n2", "A")];
    stage.say(Ok(sweep(&all))).await;
    for _ in 0..3 {
        // An outage of 45 minutes: repetitions of what waits already are worth nothing.
        stage.later(900).await;
        stage.say(Ok(sweep(&all))).await;
    }
    assert_eq!(stage.outbox.waiting(Source::Slurm).unwrap(), 2);
    *stage.hub.refuse.lock().unwrap() = None;
    stage.sent().await;
    // The first look after it says everything again, so that the hub can confirm; then it is quiet for a span.
    for (seconds, expected) in [(1, 4), (898, 4), (2, 6), (899, 6), (-5000, 8)] {
        stage.later(seconds).await;
        stage.say(Ok(sweep(&all))).await;
        stage.sent().await;
        assert_eq!(stage.hub.said().len(), expected, "{seconds}");
    }
    stage.stop().await;
}

#[tokio::test]
async fn a_look_is_kept_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outbox");
    let mut stage = Stage::new(&file, Arc::default(), &["s1"]);
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    // The disk fails at the last write of the transaction: what the agent remembers.
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("CREATE TRIGGER full BEFORE INSERT ON memory BEGIN SELECT RAISE(ABORT, 'disk full'); END").unwrap();
    let mut second = sweep(&[("s1/n1", "B"), ("s1/n2", "B")]);
    second.memory.put("cursor", &2);
    stage.script.send(Ok(second)).unwrap();
    let stopped = (&mut stage.agent).await.unwrap().unwrap_err();
    assert!(stopped.to_string().contains("disk full"), "{stopped}");
    assert_eq!(stage.outbox.waiting(Source::Slurm).unwrap(), 1);
    assert_eq!(stage.outbox.memory(Source::Slurm).unwrap(), Default::default());
    // After the restart the same look is news still, and the cursor goes with it.
    drop(stage);
    other.execute_batch("DROP TRIGGER full").unwrap();
    let mut stage = Stage::new(&file, Arc::default(), &["s1"]);
    stage.drain();
    let mut second = sweep(&[("s1/n1", "B"), ("s1/n2", "B")]);
    second.memory.put("cursor", &2);
    stage.say(Ok(second)).await;
    stage.sent().await;
    assert_eq!(stage.hub.said(), ["n1 A", "n1 B", "n2 B"]);
    assert_eq!(stage.remembered.lock().unwrap().get::<i64>("cursor"), Some(2));
    let mut third = Sweep::default();
    third.memory.remove("cursor");
    stage.say(Ok(third)).await;
    assert_eq!(stage.outbox.memory(Source::Slurm).unwrap(), Default::default());
    stage.stop().await;
}

#[tokio::test]
async fn a_reopened_outbox_sends_what_it_had_under_its_own_epoch_before_a_new_one_is_claimed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outbox");
    let hub = Arc::<Hub>::default();
    let mut stage = Stage::new(&file, hub.clone(), &["s1", "s2"]);
    stage.say(Ok(sweep(&[("s2/n1", "A"), ("s1/n2", "A")]))).await;
    stage.stop().await;
    assert_eq!(Outbox::open(&file, std::time::Duration::ZERO, crate::harness::KEEP).unwrap().waiting(Source::Slurm).unwrap(), 2);
    *hub.refuse.lock().unwrap() = Some(SendError::Retry("503".into()));
    let mut stage = Stage::new(&file, hub.clone(), &["s1", "s2"]);
    stage.drain();
    eventually("two refusals", || hub.refused.load(Ordering::SeqCst) >= 2).await;
    assert_eq!((hub.epochs.load(Ordering::SeqCst), stage.looked.load(Ordering::SeqCst)), (2, 0), "it waits for what the first run left");
    *hub.refuse.lock().unwrap() = None;
    stage.say(Ok(sweep(&[("s2/n1", "A"), ("s1/n2", "B")]))).await;
    stage.sent().await;
    assert_eq!(hub.said(), ["n2 A", "n1 A", "n2 B", "n1 A"], "a new epoch says everything once");
    let taken = hub.taken.lock().unwrap().clone();
    let seqs: Vec<_> = taken.iter().map(|o| (o.site.as_str(), o.source_seq.epoch, o.source_seq.counter)).collect();
    assert_eq!(seqs, [("s1", 1, 1), ("s2", 2, 1), ("s1", 3, 1), ("s2", 4, 1)]);
    let ids: BTreeSet<_> = taken.iter().map(|o| o.id).collect();
    assert_eq!(ids.len(), 4);
    assert!(taken.iter().all(|o| o.sent_at.0 > 0 && o.observed_at.0 > 0));
    stage.stop().await;
}

/// The first delays are 200 and 400 ms: what is asked again sooner than the hub said did not heed it.
#[tokio::test]
async fn a_hub_that_says_when_is_not_asked_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    let (after, started) = (std::time::Duration::from_secs(1), std::time::Instant::now());
    *stage.hub.refuse.lock().unwrap() = Some(SendError::Later("429".into(), after));
    stage.drain();
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    eventually("two refusals", || stage.hub.refused.load(Ordering::SeqCst) >= 2).await;
    assert!(started.elapsed() >= after, "asked again after {:?}", started.elapsed());
    *stage.hub.refuse.lock().unwrap() = None;
    stage.sent().await;
    stage.stop().await;
}

#[tokio::test]
async fn a_hub_that_refuses_is_asked_again_and_the_order_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    *stage.hub.refuse.lock().unwrap() = Some(SendError::Retry("503".into()));
    stage.drain();
    let things: Vec<(String, String)> = (0..1200).map(|i| (format!("s1/n{i:04}"), format!("R{i}"))).collect();
    let things: Vec<(&str, &str)> = things.iter().map(|(t, r)| (t.as_str(), r.as_str())).collect();
    stage.say(Ok(sweep(&things))).await;
    eventually("three refusals", || stage.hub.refused.load(Ordering::SeqCst) >= 3).await;
    *stage.hub.refuse.lock().unwrap() = None;
    stage.sent().await;
    let expected: Vec<String> = (0..1200).map(|i| format!("n{i:04} R{i}")).collect();
    assert_eq!(stage.hub.said(), expected);
    assert_eq!(*stage.hub.batches.lock().unwrap(), [500, 500, 200]);
    let counters: Vec<u64> = stage.hub.taken.lock().unwrap().iter().map(|o| o.source_seq.counter).collect();
    assert_eq!(counters, (1..=1200).collect::<Vec<_>>());
    stage.stop().await;
}

#[tokio::test]
async fn batches_are_cut_before_they_are_a_mebibyte_on_the_wire_but_hold_at_least_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    let (half, huge) = ("h".repeat(300_000), "H".repeat(1_500_000));
    stage.say(Ok(sweep(&[("s1/n1", &half), ("s1/n2", &half), ("s1/n3", &half), ("s1/n4", &huge), ("s1/n5", "x")]))).await;
    stage.drain();
    stage.sent().await;
    assert_eq!(*stage.hub.batches.lock().unwrap(), [2, 1, 1, 1]);
    stage.stop().await;
}

#[tokio::test]
async fn the_end_of_a_sweep_follows_its_observations_and_a_failure_says_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1", "s2"]);
    stage.drain();
    let complete = ["s1", "s2"].map(|s| Complete { site: site(s), count: 5 }).to_vec();
    stage.say(Ok(Sweep { complete, ..sweep(&[("s2/n1", "A"), ("s1/n2", "A")]) })).await;
    stage.say(Err(ClientError::new(ErrorClass::Transient, "GET /x", "502 bad", LookFault::ControllerDown))).await;
    stage.sent().await;
    assert_eq!(stage.hub.said(), ["n2 A", "n1 A", "SweepCompleted", "SweepCompleted", "LookFailed", "LookFailed"]);
    let taken = stage.hub.taken.lock().unwrap().clone();
    assert_eq!((&taken[2].stream, taken[2].native_id.as_str(), taken[2].source_seq.counter), (&StreamId::Site(site("s1")), "s1", 2));
    let Fact::SweepCompleted(end) = Fact::decode(&taken[2].fact).unwrap() else { panic!() };
    assert_eq!((end.source, end.count, end.interval_seconds), (Source::Slurm, 5, 1));
    let Fact::LookFailed(failed) = Fact::decode(&taken[5].fact).unwrap() else { panic!() };
    assert_eq!((failed.fault, failed.message.as_str()), (LookFault::ControllerDown, "GET /x: 502 bad"));
    assert_eq!(taken[5].stream, StreamId::Site(site("s2")));
    stage.stop().await;
}
