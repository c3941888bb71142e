//! Generations that stand beside: flip, roll back, drop; and parked input that somebody looks at.

use crate::place::{Place, both, generations};
use crate::rebuild::{cancelled, caught_up, history};
use crate::world::{World, command, device, drain};
use axum::http::StatusCode;
use fleet_journal::Topics;
use fleet_log::{EventLog, Record, sqlite::SqliteLog};
use fleet_projections::{DeviceFilter, Generations, Unturned};
use fleet_schemas::topics;
use fleet_tests::{Running, crypto, until};
use serde_json::{Value, json};
use tempfile::TempDir;

both! {
    a_roll_back_is_current_and_a_flip_returns,
    one_that_is_behind_does_not_serve,
}

async fn draining(generations: &Generations) -> i64 {
    let filter = DeviceFilter { phase: Some("Draining".into()), ..Default::default() };
    generations.reads().borrow().clone().count_devices(&filter).await.unwrap()
}

fn serving(generations: &Generations) -> i64 {
    generations.reads().borrow().generation()
}

/// The one that was replaced is fed on: to go back to it loses nothing, and neither does going forth again.
async fn a_roll_back_is_current_and_a_flip_returns(place: Place) {
    let world = World::new().await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    history(&world).await;
    caught_up(&all, &world).await;
    assert!(matches!(all.flip().await, Err(Unturned::None(..))) && matches!(all.roll_back().await, Err(Unturned::None(..))));
    let built = all.rebuild(false).await.unwrap();
    assert!(built.flipped);
    let list = all.list().await.unwrap();
    assert_eq!(list.iter().map(|g| (g.number, g.active, g.fed)).collect::<Vec<_>>(), [(built.generation, true, true), (1, false, true)]);
    let before = draining(&all).await;
    world.expect(&command(device(11), drain()), "").await;
    caught_up(&all, &world).await;
    assert_eq!(all.roll_back().await.unwrap(), 1);
    assert_eq!((serving(&all), draining(&all).await), (1, before + 1), "what came meanwhile is there");
    assert!(matches!(all.roll_back().await, Err(Unturned::None(..))), "nothing older stands beside");
    world.expect(&command(device(12), drain()), "").await;
    caught_up(&all, &world).await;
    assert_eq!(all.flip().await.unwrap(), built.generation);
    assert_eq!(draining(&all).await, before + 2);
    // Both outlive a restart; the one beside goes when it is dropped.
    all.watch(cancelled()).await.unwrap();
    drop(all);
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    assert_eq!((serving(&all), all.list().await.unwrap().len()), (built.generation, 2));
    assert_eq!((all.drop_standby().await.unwrap(), all.drop_standby().await.unwrap()), (Some(1), None));
    assert!(!place.exists(1).await && all.list().await.unwrap().len() == 1);
    assert!(matches!(all.roll_back().await, Err(Unturned::None(..))));
}

/// Nobody who read the one that serves may see less by a flip.
async fn one_that_is_behind_does_not_serve(place: Place) {
    let world = World::new().await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    history(&world).await;
    caught_up(&all, &world).await;
    let built = all.rebuild(false).await.unwrap();
    all.watch(cancelled()).await.unwrap();
    drop(all);
    // It lost a position: it cannot be fed.
    place.tamper(1, "DELETE FROM position WHERE partition = 2").await;
    let all = generations(&place, world.log.clone()).await.unwrap();
    all.feed().await.unwrap();
    let list = all.list().await.unwrap();
    assert!(list.iter().any(|g| !g.active && !g.fed), "{list:?}");
    assert!(matches!(all.roll_back().await, Err(Unturned::Behind { number: 1, partition: 2, behind: 0, .. })));
    assert_eq!(serving(&all), built.generation, "the one that serves serves on");
    world.expect(&command(device(11), drain()), "").await;
    caught_up(&all, &world).await;
}

/// Looked at, replayed and discarded by a person; a rebuild forgets none of it.
#[tokio::test(flavor = "multi_thread")]
async fn parked_input_is_replayed_or_discarded_with_a_reason() {
    crypto();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let sim = ["--sim", "sites=1,devices=5,people=false,pace=10"];
    assert_eq!(Running::start(&data, &sim).await.unwrap().stop().await.unwrap(), Some(0));
    let log = SqliteLog::open(&data.join("log")).unwrap();
    for value in ["no avro at all", "neither is this"] {
        let record = Record { key: "device/of-nobody".into(), value: value.into() };
        log.append(Topics::embedded().at(topics::COMMANDS, 3), vec![record]).await.unwrap();
    }
    drop(log);
    let hub = Running::start(&data, &sim).await.unwrap();
    let api = hub.api().await.unwrap();
    let items = async |path: &str| api.get(path).await.unwrap()["items"].as_array().unwrap().clone();
    let open = until("both", || async { Some(items("/admin/parked").await).filter(|i| i.len() == 2).ok_or("not yet") }).await;
    // The reactor writes commands too: where these two stand, the list says.
    let mut offsets: Vec<u64> = open.iter().map(|p| p["offset"].as_u64().unwrap()).collect();
    offsets.sort_unstable();
    let id = |n: u64| format!("fm.commands.v1:3:{}", if n < 2 { offsets[n as usize] } else { u64::MAX / 2 });
    assert!(open.iter().any(|p| p["id"] == id(0)) && open.iter().all(|p| p["closed"].is_null() && p["sha256"].is_string()), "{open:?}");
    let close = async |offset: u64, how: &str, body: Value| api.post(&format!("/admin/parked/{}/{how}", id(offset)), &body).await.unwrap();
    assert_eq!(close(0, "discard", json!({})).await.status, StatusCode::BAD_REQUEST, "a reason is asked for");
    assert_eq!(close(9, "discard", json!({"reason": "x"})).await.status, StatusCode::NOT_FOUND);
    let told = hub.fmctl(&["parked", "discard", &id(0), "--reason", "a stray test"]).await.unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    // Two at once: one does it.
    let replay = || close(1, "replay", json!({"reason": "the decoder was mended"}));
    let (a, b) = tokio::join!(replay(), replay());
    let mut statuses = [a.status, b.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [StatusCode::OK, StatusCode::CONFLICT], "{} {}", a.body, b.body);
    // Replayed it is still no command: it is parked anew, where it now stands.
    let again = until("the replayed one", || async {
        Some(items("/admin/parked").await).filter(|i| i.len() == 1 && i[0]["offset"].as_u64() > offsets.last().copied()).ok_or("not yet")
    });
    assert_eq!(again.await[0]["bytes"], 15);
    let closed = items("/admin/parked?closed=true").await;
    let how: Vec<_> = closed.iter().map(|p| (p["id"].clone(), p["closed"]["how"].clone(), p["closed"]["reason"].clone())).collect();
    assert!(how.contains(&(json!(id(0)), json!("discarded"), json!("a stray test"))), "{how:?}");
    assert!(how.contains(&(json!(id(1)), json!("replayed"), json!("the decoder was mended"))), "{how:?}");
    assert_eq!(close(0, "replay", json!({"reason": "x"})).await.status, StatusCode::CONFLICT, "closed is closed");
    for (args, expected) in [
        (&["projections", "list"][..], 0),
        (&["projections", "rollback"], 5),
        (&["projections", "rebuild"], 0),
        (&["projections", "rollback"], 0),
        (&["projections", "flip"], 0),
        (&["projections", "drop"], 0),
        (&["parked", "list", "--closed"], 0),
        (&["parked", "show", &id(0)], 0),
        (&["parked", "show", "x"], 3),
    ] {
        let told = hub.fmctl(args).await.unwrap();
        assert_eq!(told.status.code(), Some(expected), "{args:?}: {}", String::from_utf8_lossy(&told.stderr));
    }
    until("the closed ones in the new generation", || async {
        let closed = items("/admin/parked?closed=true").await;
        if closed.len() == 2 { Ok(()) } else { Err(format!("{closed:?}")) }
    })
    .await;
}
