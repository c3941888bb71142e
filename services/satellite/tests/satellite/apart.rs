//! What a run leaves behind, what a hub will not take, and who else has the folder.

use crate::harness::{Hub, KEEP, Stage, eventually, site, sweep};
use fleet_satellite::{Outbox, OutboxError, Seen, SendError, Sweep};
use fleet_schemas::{Fact, Source, StreamId, Timestamp, UnclaimedSeen};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn orphan_gone(name: &str) -> Sweep {
    let seen = Seen {
        stream: StreamId::Unclaimed { site: site("s1"), source: Source::Slurm, native_id: name.into() },
        site: site("s1"),
        native_id: name.into(),
        fact: UnclaimedSeen { present: false, detail: String::new() }.into(),
        observed_at: Timestamp(7),
    };
    Sweep { observations: vec![seen], ..Sweep::default() }
}

#[tokio::test]
async fn two_processes_never_share_an_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outbox");
    let first = Outbox::open(&file, Duration::from_secs(900), KEEP).unwrap();
    let second = Outbox::open(&file, Duration::from_secs(900), KEEP);
    assert!(matches!(second, Err(OutboxError::InUse(_))), "{:?}", second.err());
    drop(first);
    Outbox::open(&file, Duration::from_secs(900), KEEP).unwrap();
}

/// What a superseded run queued is worth nothing, but for what no later look says again.
#[tokio::test]
async fn what_is_said_only_once_is_said_by_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let (file, hub) = (folder.path().join("outbox"), Arc::<Hub>::default());
    let mut stage = Stage::new(&file, hub.clone(), &["s1"]);
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    stage.say(Ok(orphan_gone("n9"))).await;
    *hub.refuse.lock().unwrap() = Some(SendError::Superseded("epoch 7 is newer".into()));
    stage.drain();
    (&mut stage.agent).await.unwrap().unwrap_err();
    assert_eq!(stage.outbox.waiting(Source::Slurm).unwrap(), 0);
    stage.end();
    *hub.refuse.lock().unwrap() = None;
    let mut stage = Stage::again(&file, hub.clone(), &["s1"]).await;
    stage.drain();
    stage.say(Ok(sweep(&[("s1/n1", "B")]))).await;
    stage.sent().await;
    let said: Vec<_> = hub.taken.lock().unwrap().iter().map(|o| (o.native_id.clone(), o.source_seq.clone())).collect();
    let names: Vec<_> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["n9", "n1"], "n1 of the old run is dropped, n9 is not");
    assert!(said.iter().all(|(_, seq)| seq.epoch == said[1].1.epoch) && said[0].1.counter < said[1].1.counter, "{said:?}");
    stage.stop().await;
}

/// A batch that is too large for the hub is cut until it is not; one item that is too large alone stops nobody.
#[tokio::test]
async fn what_is_too_large_is_cut_and_at_last_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let (file, hub) = (folder.path().join("outbox"), Arc::<Hub>::default());
    hub.most_items.store(3, Ordering::SeqCst);
    *hub.never.lock().unwrap() = Some("n4".into());
    let mut stage = Stage::new(&file, hub.clone(), &["s1"]);
    let names: Vec<String> = (0..9).map(|i| format!("s1/n{i}")).collect();
    let things: Vec<_> = names.iter().map(|n| (n.as_str(), "A")).collect();
    stage.say(Ok(sweep(&things))).await;
    stage.drain();
    stage.sent().await;
    let taken: Vec<String> = hub.taken.lock().unwrap().iter().map(|o| o.native_id.clone()).collect();
    assert_eq!(taken, ["n0", "n1", "n2", "n3", "n5", "n6", "n7", "n8"], "all but the one, in their order");
    stage.stop().await;
    let db = rusqlite::Connection::open(&file).unwrap();
    let (count, why): (i64, String) = db.query_row("SELECT count(*), min(why) FROM refused", [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    assert_eq!((count, why.as_str()), (1, "413"), "it is kept for a person");
}

#[tokio::test]
async fn what_waits_too_long_is_let_go_though_nobody_looks_but_not_what_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let (file, hub) = (folder.path().join("outbox"), Arc::<Hub>::default());
    *hub.refuse.lock().unwrap() = Some(SendError::Retry("away".into()));
    let mut stage = Stage::new(&file, hub.clone(), &["s1"]);
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    stage.say(Ok(orphan_gone("n9"))).await;
    stage.clock.0.fetch_add(8 * 24 * 3600 * 1_000_000, Ordering::SeqCst);
    stage.drain();
    eventually("the old one is let go", || stage.outbox.waiting(Source::Slurm).unwrap() == 1).await;
    *hub.refuse.lock().unwrap() = None;
    stage.sent().await;
    assert!(matches!(Fact::decode(&hub.taken.lock().unwrap()[0].fact).unwrap(), Fact::UnclaimedSeen(_)));
    stage.stop().await;
}
