//! Several processes on one database: they follow each other's flips, stand by, take over, and count an assertion once.

use super::schemas;
use crate::place::{Place, generations, opened};
use crate::rebuild::{cancelled, caught_up, history};
use crate::world::{World, command, device, drain, until};
use fleet_fence::Position;
use fleet_projections::{DeviceFilter, Error, Generations, Store, Unturned};
use fleet_schemas::Timestamp;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

async fn serves(all: &Generations, number: i64) {
    until(|| async {
        let serving = all.reads().borrow().generation();
        if serving == number { Ok(()) } else { Err(format!("{serving} serves, not {number}")) }
    })
    .await;
}

fn watched(all: &Arc<Generations>) -> (JoinHandle<Result<(), Error>>, CancellationToken) {
    let (watching, cancel) = (all.clone(), CancellationToken::new());
    let until = cancel.clone();
    (tokio::spawn(async move { watching.watch(until).await }), cancel)
}

/// A rebuild, a roll-back, a flip and a drop in one process are followed by the other, whose questions are answered all the while.
#[tokio::test(flavor = "multi_thread")]
async fn a_flip_is_followed_by_every_process() {
    let Some(place) = Place::schemas("postgres::shared::a_flip_is_followed_by_every_process") else { return };
    let world = World::new().await;
    let (first, second) = (generations(&place, world.log.clone()).await.unwrap(), generations(&place, world.log.clone()).await.unwrap());
    first.feed().await.unwrap();
    second.feed().await.unwrap();
    let ((one, stop_one), (two, stop_two)) = (watched(&first), watched(&second));
    history(&world).await;
    caught_up(&second, &world).await;
    // Not two at once, whichever processes they are.
    let (a, b) = tokio::join!(first.rebuild(false), second.rebuild(false));
    let (built, refused) = if a.is_ok() { (a, b) } else { (b, a) };
    let built = built.unwrap();
    assert!(built.flipped && built.differences.is_empty(), "{built:?}");
    // The other was refused, unless the first was done before it gave up waiting for its turn.
    let number = refused.map_or_else(
        |error| {
            assert!(matches!(error, Error::Busy), "{error}");
            built.generation
        },
        |also| also.generation.max(built.generation),
    );
    for all in [&first, &second] {
        serves(all, number).await;
    }
    let back = second.roll_back().await.unwrap();
    assert!(back < number);
    serves(&first, back).await;
    assert_eq!(first.flip().await.unwrap(), number);
    serves(&second, number).await;
    world.expect(&command(device(11), drain()), "").await;
    assert_eq!(second.drop_standby().await.unwrap(), Some(back));
    assert!(!place.exists(back).await);
    for all in [&first, &second] {
        caught_up(all, &world).await;
        let draining = DeviceFilter { phase: Some("Draining".into()), ..Default::default() };
        assert_eq!(all.reads().borrow().clone().count_devices(&draining).await.unwrap(), 6);
        until(|| async {
            let list = all.list().await.unwrap();
            if list.len() == 1 { Ok(()) } else { Err(format!("{list:?}")) }
        })
        .await;
    }
    assert!(!one.is_finished() && !two.is_finished(), "both processes live on");
    stop_one.cancel();
    stop_two.cancel();
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
}

/// Field report 3: of two projectors one writes, the other shows how far that is, and goes on in its place when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn who_was_overtaken_stands_by_and_takes_over() {
    let Some(place) = Place::schemas("postgres::shared::who_was_overtaken_stands_by_and_takes_over") else { return };
    let world = World::new().await;
    let (first, second) = (generations(&place, world.log.clone()).await.unwrap(), generations(&place, world.log.clone()).await.unwrap());
    first.feed().await.unwrap();
    second.feed().await.unwrap();
    history(&world).await;
    for all in [&first, &second] {
        caught_up(all, &world).await;
    }
    // Whichever wrote last: both go, one after the other, and neither's end is the end.
    first.watch(cancelled()).await.unwrap();
    world.expect(&command(device(11), drain()), "").await;
    caught_up(&second, &world).await;
    first.feed().await.unwrap();
    second.watch(cancelled()).await.unwrap();
    world.expect(&command(device(12), drain()), "").await;
    caught_up(&first, &world).await;
    assert_eq!(first.rebuild(false).await.unwrap().differences, []);
}

/// What a newer program made is not put out of service by an older one that starts beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_of_a_newer_format_is_left_alone() {
    let Some(place) = Place::schemas("postgres::shared::a_generation_of_a_newer_format_is_left_alone") else { return };
    let world = World::new().await;
    drop(generations(&place, world.log.clone()).await.unwrap());
    place.tamper(1, "UPDATE format SET number = 1000").await;
    let refused = generations(&place, world.log.clone()).await.err();
    assert!(matches!(refused, Some(Error::Format { found: 1000, .. })), "{refused:?}");
    assert!(place.exists(1).await);
}

/// A newer program lets its own generation serve: an older one that still runs answers on from what it can read, and feeds it.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_program_goes_on_until_it_is_replaced() {
    let Some(place) = Place::schemas("postgres::shared::an_older_program_goes_on_until_it_is_replaced") else { return };
    let world = World::new().await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    let (watching, stop) = watched(&all);
    let prefix = &schemas(&place).config.prefix;
    let newer = format!(
        "CREATE SCHEMA {prefix}_read_2; CREATE TABLE {prefix}_read_2.format (number bigint); INSERT INTO {prefix}_read_2.format VALUES (1000);
         UPDATE {prefix}_control.generation SET active = 2, standby = 1, last = 2"
    );
    schemas(&place).run(&newer).await;
    // Whoever looks first is told; after that it is known.
    until(|| async {
        match all.flip().await {
            Err(Unturned::None(..)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(all.drop_standby().await.is_ok_and(|dropped| dropped.is_none()), "what it cannot read it does not drop");
    history(&world).await;
    caught_up(&all, &world).await;
    assert_eq!(all.reads().borrow().generation(), 1);
    assert!(place.exists(1).await && place.exists(2).await && !watching.is_finished());
    stop.cancel();
    watching.await.unwrap().unwrap();
}

crate::place::both! {
    an_assertion_counts_once_and_positions_are_compared_and_set,
}

async fn an_assertion_counts_once_and_positions_are_compared_and_set(place: Place) {
    let world = World::new().await;
    let (first, second) = (generations(&place, world.log.clone()).await.unwrap(), generations(&place, world.log.clone()).await.unwrap());
    let (one, two) = (first.control(), second.control());
    assert!(one.use_assertion("agent", "a", 100, 40).await.unwrap());
    assert!(!two.use_assertion("agent", "a", 100, 41).await.unwrap() && two.use_assertion("other", "a", 100, 41).await.unwrap());
    assert!(two.use_assertion("agent", "a", 300, 101).await.unwrap(), "what has expired is forgotten");
    let at = |next| Position { next, ..Position::START };
    assert!(one.move_reactor(3, 0, &at(5)).await.unwrap());
    assert!(!two.move_reactor(3, 0, &at(4)).await.unwrap() && two.move_reactor(3, 5, &at(9)).await.unwrap());
    assert_eq!(one.reactor_positions().await.unwrap().get(&3).map(|p| p.next), Some(9));
    for (n, detail) in [(1, "a"), (2, "'; DROP TABLE denial; --"), (3, "c")] {
        let denial = fleet_projections::Denial {
            at: Timestamp(1_800_000_000_000_000 + n),
            client: "agent".into(),
            reason: "scope".into(),
            method: "GET".into(),
            path: "/devices".into(),
            detail: detail.into(),
            unrecorded: 7,
        };
        one.keep_denial(&denial).await.unwrap();
    }
    let rows = two.denials(None, 2).await.unwrap();
    assert_eq!(rows.iter().map(|(_, d)| d.detail.as_str()).collect::<Vec<_>>(), ["c", "'; DROP TABLE denial; --"]);
    let rest = two.denials(Some(rows[1].0), 2).await.unwrap();
    assert_eq!((rest.len(), rest[0].1.at.0, rest[0].1.unrecorded), (1, 1_800_000_000_000_001, 7));
}

/// Who asks questions reads generations, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_reading_role_reads_generations_and_nothing_else() {
    let test = "postgres::shared::the_reading_role_reads_generations_and_nothing_else";
    let Some(place) = Place::schemas(test) else { return };
    let prefix = &schemas(&place).config.prefix;
    let Some(reader) = &schemas(&place).config.reader else {
        use std::io::Write;
        std::io::stderr().write_all(format!("{test} SKIPPED: FM_TEST_POSTGRES_READER is not set\n").as_bytes()).unwrap();
        return;
    };
    let world = World::new().await;
    // A role that was named later is granted what is there already.
    let Store::Postgres(mut before) = place.store() else { unreachable!() };
    before.reader = None;
    drop(opened(Store::Postgres(before), world.log.clone()).await.unwrap());
    let all = generations(&place, world.log.clone()).await.unwrap();
    assert_eq!(all.reads().borrow().clone().count_devices(&DeviceFilter::default()).await.unwrap(), 0);
    let may = async |what: &str, on: &str| {
        let asks = if what == "USAGE" { "schema" } else { "table" };
        let sql = format!("SELECT has_{asks}_privilege('{}', '{prefix}_{on}', '{what}')::int::bigint", reader.user);
        schemas(&place).number(&sql).await == 1
    };
    assert!(may("USAGE", "read_1").await && may("SELECT", "read_1.device").await);
    for what in ["INSERT", "UPDATE", "DELETE", "TRUNCATE"] {
        assert!(!may(what, "read_1.device").await, "{what}");
    }
    assert!(!may("USAGE", "control").await && !may("SELECT", "control.denial").await);
}
