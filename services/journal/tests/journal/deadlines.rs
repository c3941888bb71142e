//! Deadlines and freshness, under a clock that the test moves.

use crate::reactions::Kept;
use crate::world::{SITE, World, command, device, netbox, observation, site_stream, slurm, until};
use fleet_journal::{Clock, Rules, Topics};
use fleet_schemas::*;
use std::sync::Arc;

async fn ready_and_activated(world: &World) {
    world.site().await;
    world.in_service(1).await;
    // By way of maintenance to Ready, without leaving a drain behind.
    world.journal.observe(&[in_repair(2, world.clock.now()), slurm(2, 1, world.clock.now(), &["DOWN"])]).await.unwrap();
    until(|| async {
        let answer = world.ask(&command(device(2), Baseline { phase: Phase::Maintenance }.into())).await.unwrap();
        if answer.decided.outcome.code.is_empty() { Ok(()) } else { Err(format!("{:?}", answer.decided.outcome)) }
    })
    .await;
    world.expect(&command(device(2), EndMaintenance {}.into()), "").await;
    world.journal.observe(&[slurm(2, 2, world.clock.now(), &["DOWN"])]).await.unwrap();
    until(|| async {
        let down = world.device(2).await.unwrap().scheduler.as_ref().is_some_and(|s| s.state == ["DOWN"]);
        if down { Ok(()) } else { Err("not down yet".into()) }
    })
    .await;
    world.granted(2).await;
    world.expect(&command(device(2), Activate {}.into()), "").await;
    world.until_phase(2, Phase::InService).await;
}

/// A device that NetBox shows as offline.
fn in_repair(i: i64, now: Timestamp) -> Observation {
    let mut observation = netbox(i, 1, now);
    let Fact::NetboxDeviceSeen(mut seen) = Fact::decode(&observation.fact).unwrap() else { panic!("{observation:?}") };
    seen.inventory.status = "offline".into();
    observation.fact = Fact::from(seen).encode();
    observation
}

#[tokio::test(flavor = "multi_thread")]
async fn an_activation_that_does_not_come_about_ends_in_a_drain_to_quarantine() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    ready_and_activated(&world).await;
    // 15 minutes, and 4 intervals until a source that fell silent meanwhile would be known to be.
    keep_fresh(&world, 20).await;
    world.until_phase(2, Phase::Draining).await;
    let device = world.device(2).await.unwrap();
    assert_eq!((device.then, device.stage), (Some(Then::Quarantine), Some(Stage::Activate)));
    assert_eq!(device.cause.as_deref(), Some("NotSchedulable"));
}

/// Minutes pass, with a look at both sources in each.
async fn keep_fresh(world: &World, minutes: u64) {
    for minute in 0..minutes {
        world.clock.advance(MINUTE);
        world.look(10 + minute).await;
    }
}

/// What stands in the inbox when a deadline falls due is decided first.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_waits_for_the_inbox() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    ready_and_activated(&world).await;
    let (folder, log, clock) = world.stop().await;
    let at = fleet_journal::Topics::embedded().at(topics::OBSERVATIONS, device(2).partition(5));
    let seen = slurm(2, 3, clock.now(), &["IDLE"]);
    log.append(at, vec![fleet_log::Record { key: device(2).to_string().into(), value: encode(&seen).into() }]).await.unwrap();
    clock.advance(HOUR);
    let world = World::on(folder, log, clock, Rules::default()).await;
    until(|| async {
        let d = world.device(2).await.unwrap();
        if d.operation.is_none() { Ok(()) } else { Err("the activation is not finished".into()) }
    })
    .await;
    assert_eq!(world.device(2).await.unwrap().phase, Some(Phase::InService), "it became schedulable in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_without_fresh_looks_is_noted_once_and_judged_after_they_return() {
    let world = World::reacting(Arc::new(Kept::default())).await;
    ready_and_activated(&world).await;
    let (folder, log, clock) = world.stop().await;
    let world = World::leaping(folder, log, clock, Rules::default(), 30 * SECOND).await;
    // The process is paused for an hour. Whatever it believed of freshness is an hour old: it claims anew and judges nothing yet.
    world.clock.advance(HOUR);
    let key = (WaitKind::Schedulable, String::new());
    let wait = async || world.device(2).await.unwrap().waits.get(&key).cloned();
    until(|| async {
        let judge_at = wait().await.map(|w| w.judge_at);
        if judge_at.is_some_and(|t| t > world.clock.now()) { Ok(()) } else { Err(format!("{judge_at:?}")) }
    })
    .await;
    let (folder, log, clock) = world.stop().await;
    let world = World::on(folder, log, clock, Rules::default()).await;
    // No look comes: stale after three intervals, and the deadline is noted as unobservable after four.
    world.clock.advance(3 * MINUTE + SECOND);
    stale(&world).await;
    world.clock.advance(MINUTE);
    let wait = async || world.device(2).await.unwrap().waits.get(&key).cloned();
    until(|| async {
        let unobservable = wait().await.and_then(|w| w.unobservable);
        if unobservable == Some(Source::Slurm) { Ok(()) } else { Err(format!("{:?}", wait().await)) }
    })
    .await;
    let device_now = world.device(2).await.unwrap();
    assert_eq!(device_now.phase, Some(Phase::InService), "silence proves nothing");
    assert!(device_now.attention.contains_key("unobservable-schedulable"));
    world.look(50).await;
    until(|| async {
        let armed = wait().await.is_some_and(|w| w.unobservable.is_none());
        if armed { Ok(()) } else { Err(format!("{:?}", wait().await)) }
    })
    .await;
    for minute in 0..3 {
        world.clock.advance(MINUTE);
        world.look(60 + minute).await;
    }
    world.until_phase(2, Phase::Draining).await;
}

/// Wherever between two readings of the clock a process is paused, it judges nothing by the silence meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_at_any_point_judges_no_deadline() {
    for reads in 1..=40 {
        let world = World::reacting(Arc::new(Kept::default())).await;
        ready_and_activated(&world).await;
        let (folder, log, clock) = world.stop().await;
        clock.leap_after(reads, HOUR);
        let world = World::leaping(folder, log, clock, Rules::default(), 30 * SECOND).await;
        for counter in 100..100 + u64::from(reads) {
            world.journal.observe(&[slurm(2, counter, world.clock.now(), &["DOWN"])]).await.unwrap();
        }
        world.expect(&command(device(2), PlaceHold { name: "after".into(), expires_at: None }.into()), "").await;
        let now = world.device(2).await.unwrap();
        assert_eq!((now.phase, now.waits.len()), (Some(Phase::InService), 1), "paused after {reads} readings: {:?}", now.waits);
    }
}

async fn stale(world: &World) {
    let site: SiteId = SITE.parse().unwrap();
    until(|| async {
        let reference = world.journal.reference();
        if reference.fresh(&site, Source::Slurm) { Err("still fresh".into()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_turns_a_source_stale_after_three_intervals_and_a_restart_does_not() {
    let world = World::new().await;
    world.site().await;
    world.clock.advance(100 * SECOND);
    world.look(2).await;
    let world = world.restart().await;
    // 170 s after the look, but within three intervals of the take-over.
    world.clock.advance(170 * SECOND);
    let site: SiteId = SITE.parse().unwrap();
    world.expect(&command(site_stream(), crate::world::register()), "").await;
    assert!(world.journal.reference().fresh(&site, Source::Slurm));
    world.clock.advance(20 * SECOND);
    stale(&world).await;
    let failed = LookFailed { source: Source::Slurm, interval_seconds: 60, fault: LookFault::ControllerDown, message: "no".into() };
    world.journal.observe(&[observation(site_stream(), failed.into(), Source::Slurm, 3, world.clock.now())]).await.unwrap();
    until(|| async {
        let fault = world.journal.reference().source(&site, Source::Slurm).and_then(|s| s.fault);
        if fault == Some(LookFault::ControllerDown) { Ok(()) } else { Err(format!("{fault:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_comes_later_wakes_the_devices_it_concerns() {
    let world = World::new().await;
    world.expect(&command(site_stream(), crate::world::register()), "").await;
    world.journal.observe(&(1..=50).map(|i| netbox(i, 1, world.clock.now())).collect::<Vec<_>>()).await.unwrap();
    until(|| async { if world.device(50).await.is_some() { Ok(()) } else { Err("not seen".into()) } }).await;
    assert_eq!(world.device(50).await.unwrap().phase, None, "inventory only");
    world.expect(&command(site_stream(), crate::world::profile()), "").await;
    for i in [1, 25, 50] {
        world.until_phase(i, Phase::Discovered).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_ends_by_itself_and_old_inputs_are_let_go() {
    let world = World::new().await;
    world.site().await;
    world.in_service(1).await;
    let expires_at = Some(world.clock.now().plus(HOUR));
    world.expect(&command(device(1), PlaceHold { name: "night".into(), expires_at }.into()), "").await;
    world.clock.advance(2 * HOUR);
    until(|| async {
        let holds = world.device(1).await.unwrap().holds.len();
        if holds == 0 { Ok(()) } else { Err("the hold stands".into()) }
    })
    .await;
    // The log's own clock stands long before the world's: all that was decided is old.
    let at = Topics::embedded().at(topics::OBSERVATIONS, device(1).partition(5));
    until(|| async {
        let bounds = world.log.bounds(at.clone()).await.unwrap();
        if bounds.start > 0 { Ok(()) } else { Err(format!("{bounds:?} of the observations are kept")) }
    })
    .await;
}
