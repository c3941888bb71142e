//! Several hubs on one log: each partition has one leader, whoever is asked answers, and one that is gone is missed by nobody for long.

use crate::world::{command, device, netbox, open, register, site_stream, until};
use fleet_journal::{AskError, Config, Hubs, Journal, Phase, SystemClock, Topics, found};
use fleet_log::{Cleanup, Durability, EventLog, TopicSpec};
use fleet_schemas::*;
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(20);

fn now() -> Timestamp {
    fleet_journal::Clock::now(&SystemClock)
}

struct Hub {
    journal: Journal,
    tasks: JoinSet<Result<(), fleet_log::Error>>,
    cancel: CancellationToken,
}

/// The log that all share; it has leases.
pub async fn shared(folder: &TempDir) -> Arc<dyn EventLog> {
    let log = open(folder).await;
    let (name, settings) = (topics::name(topics::LEASES), BTreeMap::new());
    let (cleanup, durability) = (Cleanup::Delete, Durability::Awaited);
    log.ensure(&[TopicSpec { name: name.into(), partitions: 1, cleanup, durability, retention: None, settings }]).await.unwrap();
    found(&*log, &Topics::embedded(), now()).await.unwrap();
    log
}

async fn hub(log: &Arc<dyn EventLog>, name: &str) -> Hub {
    let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
    let hubs = Some(Hubs { name: name.into(), leads: true });
    let config = Config { hubs, clock: Arc::new(SystemClock), ..Config::new(log.clone(), Topics::embedded()) };
    let journal = Journal::start(config, &mut tasks, cancel.clone()).await.unwrap();
    Hub { journal, tasks, cancel }
}

impl Hub {
    fn leads(&self) -> Vec<u32> {
        self.journal.statuses().into_iter().filter(|s| s.phase == Phase::Leading).map(|s| s.partition).collect()
    }

    async fn stop(mut self) {
        self.cancel.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

/// Waits until each partition is led by exactly one of them.
async fn spread(hubs: &[&Hub]) {
    until(|| async {
        let all: Vec<_> = hubs.iter().flat_map(|h| h.leads()).collect();
        let one = (0..Topics::embedded().partitions).all(|p| all.iter().filter(|q| **q == p).count() == 1);
        if one { Ok(()) } else { Err(format!("led: {:?}", hubs.iter().map(|h| h.leads()).collect::<Vec<_>>())) }
    })
    .await;
}

/// A command by the machine's clock.
fn hold(i: i64, name: &str) -> Command {
    let now = now();
    let hold = PlaceHold { name: name.into(), expires_at: None };
    Command { issued_at: now, not_after: now.plus(10 * MINUTE), ..command(device(i), hold.into()) }
}

async fn device_there(hub: &Hub, i: i64) {
    let now = now();
    let register = Command { issued_at: now, not_after: now.plus(10 * MINUTE), ..command(site_stream(), register()) };
    hub.journal.ask(&register, PATIENCE).await.unwrap();
    hub.journal.observe(&[netbox(i, 1, now)]).await.unwrap();
    hub.journal.observed(device(i).partition(Topics::embedded().partitions)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hubs_share_the_partitions_and_whoever_is_asked_answers() {
    let folder = TempDir::new().unwrap();
    let log = shared(&folder).await;
    let (a, b) = (hub(&log, "hub-a").await, hub(&log, "hub-b").await);
    spread(&[&a, &b]).await;
    assert!(!a.leads().is_empty() && !b.leads().is_empty(), "{:?} {:?}", a.leads(), b.leads());
    device_there(&a, 1).await;
    for round in 0..10 {
        let ask = hold(1, &format!("h{round}"));
        let (first, again) = (a.journal.ask(&ask, PATIENCE).await.unwrap(), b.journal.ask(&ask, PATIENCE).await.unwrap());
        assert_eq!(first.decided, again.decided, "the same answer, whoever is asked");
        // The other may have been asked before it had read the decision; by now both have.
        assert!(a.journal.ask(&ask, PATIENCE).await.unwrap().repeated && b.journal.ask(&ask, PATIENCE).await.unwrap().repeated);
        let other = Command { ask: hold(1, "other").ask, ..ask.clone() };
        assert_eq!(b.journal.ask(&other, PATIENCE).await, Err(AskError::IdReused));
    }
    // What an agent hands over at one hub is decided by the other; both can wait for it, also where nothing follows from it.
    for hub in [&a, &b] {
        hub.journal.observe(&[netbox(1, 1, now())]).await.unwrap();
        tokio::time::timeout(PATIENCE, hub.journal.observed(device(1).partition(5))).await.unwrap().unwrap();
    }
    a.stop().await;
    spread(&[&b]).await;
    assert_eq!(b.journal.ask(&hold(1, "after"), PATIENCE).await.unwrap().decided.outcome.code, "");
    b.stop().await;
}

/// A polite stop gives back: the other claims without waiting until it is missed. A kill is missed after two seconds.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_hub_led_is_led_by_the_other_and_every_command_has_one_decision() {
    let folder = TempDir::new().unwrap();
    let log = shared(&folder).await;
    let a = hub(&log, "hub-a").await;
    spread(&[&a]).await;
    device_there(&a, 1).await;
    let b = hub(&log, "hub-b").await;
    b.journal.settled().await;
    let ask = hold(1, "before");
    a.journal.ask(&ask, PATIENCE).await.unwrap();
    let terms: Vec<_> = a.journal.statuses().iter().map(|s| s.term).collect();
    drop(a.tasks);
    // Asked while nobody leads: decided when the other has taken over.
    let answer = b.journal.ask(&hold(1, "meanwhile"), PATIENCE).await.unwrap();
    assert_eq!(answer.decided.outcome.code, "");
    spread(&[&b]).await;
    assert!(b.journal.statuses().iter().zip(&terms).all(|(s, t)| s.term > *t), "each was claimed anew");
    assert!(b.journal.ask(&ask, PATIENCE).await.unwrap().repeated, "what the other decided is remembered");
    b.stop().await;
}

/// Field report 1 (xtdb#5917): with the leases and everything local gone, the next terms are higher than all before.
#[tokio::test(flavor = "multi_thread")]
async fn terms_come_from_the_journal_and_survive_the_loss_of_every_lease() {
    let folder = TempDir::new().unwrap();
    let log = shared(&folder).await;
    let mut highest = vec![0; 5];
    for round in 0..3 {
        let only = hub(&log, &format!("hub-{round}")).await;
        spread(&[&only]).await;
        if round == 0 {
            device_there(&only, 1).await;
        }
        let answer = only.journal.ask(&hold(1, &format!("r{round}")), PATIENCE).await.unwrap();
        assert_eq!(answer.decided.outcome.code, "");
        let terms: Vec<u64> = only.journal.statuses().iter().map(|s| s.term).collect();
        assert!(terms.iter().zip(&highest).all(|(now, before)| now > before), "{terms:?} after {highest:?}");
        highest = terms;
        only.stop().await;
        let leases = fleet_log::TopicPartition::new(&topics::name(topics::LEASES), 0);
        let end = log.bounds(leases.clone()).await.unwrap().end;
        log.trim(leases, end).await.unwrap();
    }
}
