//! A bulk change that stays in its transaction for more than 40 s: its change ids are given out at the beginning, and seen by nobody
//! until it commits, long after later ids were.

use crate::netbox_edits::{edit, shows_row};
use crate::story::{Device, PATIENCE, Story};
use fleet_tests::until_within;
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the transaction stays open at least.
const OPEN: Duration = Duration::from_secs(41);
/// The devices of the bulk change, by NetBox id; the last of them is locked, so that the change stops there.
const CHANGED: std::ops::RangeInclusive<i64> = 121..=180;
/// The device that others go on editing.
const OTHER: &str = "gpu50";

/// Sweeps of all devices that the product began.
fn sweeps(story: &Story) -> usize {
    let begins = |path: &str| path.contains("site=") && path.contains("start=0&");
    story.netbox.calls_of("/api/dcim/devices/?").iter().filter(|c| begins(&c.path)).count()
}

/// There was one, when the product began to look.
pub fn no_sweep_since_the_first(story: &Story) {
    assert_eq!(sweeps(story), 1, "a sweep may have found what the change feed lost");
}

/// The bulk change runs while others edit; the feed is read far past its ids, and loses none of them.
pub async fn overtaken_by_other_edits(story: &Story) {
    story.step("a bulk transaction");
    let netbox = story.labs.netbox.clone();
    let lock = netbox.lock_device(*CHANGED.end()).await.unwrap();
    let begun = Instant::now();
    let rows: Vec<Value> = CHANGED.map(|id| json!({"id": id, "asset_tag": tag(id)})).collect();
    let bulk = tokio::spawn(async move { netbox.change(Method::PATCH, "/dcim/devices/", &Value::from(rows)).await });
    let mut overtaking = Vec::new();
    while begun.elapsed() < OPEN {
        let other = tag(1000 + overtaking.len() as i64);
        let seen = |d: &Device| d.at("/identity/asset_tag", &other.as_str().into());
        let (_, changed) = edit(story, "edited while the bulk is open", OTHER, json!({"asset_tag": other}), seen).await;
        assert!(!bulk.is_finished(), "the bulk change did not wait");
        overtaking.push(changed.request_id);
    }
    let released = Instant::now();
    lock.release().await.unwrap();
    until_within(PATIENCE, "every device of the bulk change", || all_changed(story)).await;
    let shows = shows_row(*CHANGED.end(), |row| row["asset_tag"] == tag(*CHANGED.end()));
    story.within_bound("the whole bulk change", (&story.netbox, released), shows);
    // NetBox takes seconds to write its own answer, long after it has committed.
    let changed = bulk.await.unwrap().unwrap();
    overtaken(story, &changed.request_id, &overtaking).await;
    no_sweep_since_the_first(story);
}

/// The new asset tag of a device, in no other run the same.
fn tag(id: i64) -> String {
    static RUN: LazyLock<u64> = LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    format!("{}-{id:04}", *RUN)
}

async fn all_changed(story: &Story) -> Result<(), String> {
    let shown = stream::iter(CHANGED).map(|id| async move {
        let device = story.device(&format!("gpu{id:02}")).await?;
        device.at("/identity/asset_tag", &tag(id).into()).map_err(|e| format!("gpu{id:02}: {e}"))
    });
    shown.buffered(8).try_collect::<Vec<()>>().await.map(|_| ())
}

/// The transaction was what it is said to be: open that long, its ids older than ids that had been read before it ended.
async fn overtaken(story: &Story, bulk: &str, others: &[String]) {
    let rows = story.labs.netbox.all("/core/object-changes/?changed_object_type=dcim.device").await.unwrap();
    let of = |request: &str| -> BTreeMap<i64, String> {
        let rows = rows.iter().filter(|r| r["request_id"] == request);
        rows.filter_map(|r| Some((r["id"].as_i64()?, r["time"].as_str()?.to_owned()))).collect()
    };
    let mine = of(bulk);
    let newest_read = others.iter().flat_map(|o| of(o).into_keys()).max().expect("others edited");
    let early = mine.keys().filter(|id| **id < newest_read).count();
    println!("   {early} of {} change ids of the bulk are below {newest_read}, which had been read before it ended", mine.len());
    assert_eq!(mine.len(), CHANGED.count());
    assert!(early >= mine.len() - 1, "the ids were not given out early");
    let time = |text: &String| text.parse::<fleet_schemas::Timestamp>().unwrap();
    let (first, last) = (mine.values().map(time).min().unwrap(), mine.values().map(time).max().unwrap());
    let open = last.since(first) / fleet_schemas::SECOND;
    assert!(open >= 40, "the transaction was open for {open} s only");
}
