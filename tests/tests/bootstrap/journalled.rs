//! Partition 0 decides about configurations with what stands before each decision, and a reader can decide it all again.

use crate::world::{SITE, World, command, register, site_stream};
use fleet_journal::{Answer, Clock};
use fleet_schemas::*;
use fleet_tests::redecide;

fn stream(role: &str) -> StreamId {
    format!("bootstrap-config/{SITE}/{role}").parse().unwrap()
}

fn create(role: &str) -> Command {
    let fields = BootstrapFields { image: Some("i".into()), flavor: None, features: vec![], gres: None };
    command(stream(role), CreateBootstrapConfig { fields, user_data: None }.into())
}

fn update(role: &str, flavor: &str) -> Command {
    let fields = BootstrapFields { image: None, flavor: Some(flavor.into()), features: vec![], gres: None };
    command(stream(role), UpdateBootstrapConfig { set: vec!["flavor".into()], fields, user_data: None }.into())
}

fn code(answer: &Answer) -> &str {
    &answer.decided.outcome.code
}

#[tokio::test(flavor = "multi_thread")]
async fn every_decision_comes_out_the_same_again() {
    let world = World::new().await;
    world.expect(&create("gpu"), "unknown-site").await;
    // One behind the other in one batch, most likely: the second sees what the first did.
    let (site, first) = (command(site_stream(), register()), create("gpu"));
    let (site, first) = tokio::join!(world.ask(&site), world.ask(&first));
    assert_eq!((code(&site.unwrap()), code(&first.unwrap())), ("", ""));
    let read = command(stream("gpu"), ReadUserData { version: 1 }.into());
    let noted = world.expect(&read, "user-data-read").await;
    assert_eq!(
        (noted.decided.outcome.kind, noted.decided.outcome.seen.as_str(), noted.decided.version),
        (OutcomeKind::Noted, "version 1", 1)
    );
    world.expect(&command(stream("gpu"), ReadUserData { version: 2 }.into()), "unknown-config").await;
    world.expect(&update("gpu", "f"), "").await;
    world.expect(&update("gpu", "f"), "").await;
    world.expect(&Command { dry_run: true, ..update("gpu", "g") }, "dry-run").await;
    world.expect(&Command { dry_run: true, ..command(stream("gpu"), ReadUserData { version: 1 }.into()) }, "dry-run").await;
    world.expect(&Command { expected_version: Some(1), ..update("gpu", "g") }, "version-conflict").await;
    world.expect(&command(stream("gpu"), RetireBootstrapConfig {}.into()), "").await;
    world.expect(&create("gpu"), "").await;

    let ledger = world.replayed(0).await;
    let config = ledger.streams[&stream("gpu")].entity.bootstrap_config().unwrap().clone();
    assert_eq!((config.version, config.standing, config.fields.flavor.as_deref()), (4, true, None));
    let references = redecide::references(&*world.log, &fleet_journal::Topics::embedded()).await.unwrap();
    let checked = redecide::partition(&*world.log, &fleet_journal::Topics::embedded(), 0, &references).await.unwrap();
    assert_eq!(checked.decisions, 12);
    let known = world.journal.reference();
    crate::world::until(|| async {
        let known = world.journal.reference();
        if known.config(&SITE.parse().unwrap(), "gpu").is_some_and(|c| c.version == 4) { Ok(()) } else { Err(format!("{known:?}")) }
    })
    .await;
    assert!(known.config(&SITE.parse().unwrap(), "cpu").is_none());
}

/// Of many who create at once, one does; of many who change the version that they saw, one does.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_wins() {
    let world = World::new().await;
    world.expect(&command(site_stream(), register()), "").await;
    let creates: Vec<_> = (0..20).map(|_| create("gpu")).collect();
    let answers = futures::future::join_all(creates.iter().map(|c| world.ask(c))).await;
    let won = answers.iter().filter(|a| code(a.as_ref().unwrap()).is_empty()).count();
    assert_eq!(won, 1);
    assert!(answers.iter().all(|a| ["", "already-exists"].contains(&code(a.as_ref().unwrap()))));
    let updates: Vec<_> = (0..20).map(|i| Command { expected_version: Some(1), ..update("gpu", &format!("f{i}")) }).collect();
    let answers = futures::future::join_all(updates.iter().map(|c| world.ask(c))).await;
    assert_eq!(answers.iter().filter(|a| code(a.as_ref().unwrap()).is_empty()).count(), 1);
}

/// Nobody observes what people decide.
#[tokio::test(flavor = "multi_thread")]
async fn an_observation_of_a_configuration_is_noted_without_effect() {
    let world = World::new().await;
    world.expect(&command(site_stream(), register()), "").await;
    world.expect(&create("gpu"), "").await;
    let fact = SweepCompleted { source: Source::Netbox, interval_seconds: 60, count: 1 };
    let stray = crate::world::observation(stream("gpu"), fact.into(), Source::Netbox, 1, world.clock.now());
    world.journal.observe(&[stray]).await.unwrap();
    crate::world::until(|| async {
        let ledger = world.replayed(0).await;
        if ledger.inputs.observations == 1 && ledger.decisions == 3 { Ok(()) } else { Err(format!("{} decisions", ledger.decisions)) }
    })
    .await;
    let ledger = world.replayed(0).await;
    assert_eq!(ledger.streams[&stream("gpu")].entity.bootstrap_config().unwrap().version, 1);
}
