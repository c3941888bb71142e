//! Hub and satellite away from each other: one of them dead, its disk lost, the way cut, two satellites at once. NetBox and SLURM go on
//! meanwhile, and whatever they show in the end is what the hub shows.

use super::story::{Device, PATIENCE, Story};
use super::truth;
use fleet_tests::until_within;
use std::time::Duration;

/// A device of dc1, and the node that it is.
async fn a_device(story: &Story) -> (String, String) {
    let all = story.api().await.all("/devices?filter=site%20%3D%20dc1").await.unwrap();
    let linked = all.iter().find(|d| d["slurm_node"].is_string() && d["phase"] == "InService");
    let found = linked.expect("a device in service at dc1");
    (found["id"].as_str().unwrap().to_owned(), found["slurm_node"].as_str().unwrap().to_owned())
}

fn schedulable(device: &Device) -> Result<(), String> {
    let condition = device.condition("SlurmSchedulable");
    if condition["status"] == "True" { Ok(()) } else { Err(condition.to_string()) }
}

/// The hub dies, things happen, it comes back: what the satellite kept arrives, and the fleet is as SLURM says.
pub async fn a_hub_that_was_away(story: &Story) {
    story.step("the hub is away");
    let (device, node) = a_device(story).await;
    story.pair.lock().await.kill_hub();
    story.clusters[0]
        .lab
        .typed(&format!("scontrol update nodename={node} state=drain reason=\"admin: while the hub was away\""))
        .await
        .unwrap();
    until_within(PATIENCE, "the outbox keeps it", || async {
        match story.pair.lock().await.queued() {
            Ok((_, waiting)) if waiting > 3 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    story.pair.lock().await.start_hub().await.unwrap();
    story.until("the drain of then", &device, |d| d.has("SlurmSchedulable", "False", "Drained")).await;
    story.until("and nothing else done", &device, |d| d.phase("InService")).await;
    story.clusters[0].lab.typed(&format!("scontrol update nodename={node} state=resume")).await.unwrap();
    story.until("and its end", &device, schedulable).await;
}

/// The satellite dies; the hub says so by itself; it comes back, and so does the truth.
pub async fn a_satellite_that_was_away(story: &Story) {
    story.step("the satellite is away");
    let (device, node) = a_device(story).await;
    story.pair.lock().await.kill_satellite();
    until_within(PATIENCE, "the source is stale", || async {
        let source = story.source("dc1", "slurm").await?;
        if source["fresh"] == false { Ok(()) } else { Err(source.to_string()) }
    })
    .await;
    let known = story.device(&device).await.unwrap();
    assert_eq!(known.condition("SlurmSchedulable")["status"], "Unknown", "staleness never looks green");
    assert_eq!(known.phase("InService"), Ok(()), "and nothing is done for it");
    story.clusters[0]
        .lab
        .typed(&format!("scontrol update nodename={node} state=drain reason=\"admin: while the satellite was away\""))
        .await
        .unwrap();
    story.pair.lock().await.start_satellite().await.unwrap();
    story.until("the drain", &device, |d| d.has("SlurmSchedulable", "False", "Drained")).await;
    story.clusters[0].lab.typed(&format!("scontrol update nodename={node} state=resume")).await.unwrap();
    story.until("and its end", &device, schedulable).await;
}

/// The satellite's disk is lost: a new run looks at everything, and nothing is doubled or taken for gone.
pub async fn a_satellite_whose_disk_was_lost(story: &Story) {
    story.step("the satellite's disk is lost");
    let before = story.api().await.all("/devices").await.unwrap().len();
    story.pair.lock().await.kill_satellite();
    std::fs::remove_dir_all(story.satellite_folder().join("data")).unwrap();
    story.pair.lock().await.start_satellite().await.unwrap();
    truth::equals(story, "after the disk was lost").await;
    assert_eq!(story.api().await.all("/devices").await.unwrap().len(), before);
}

/// A second satellite of the same sites takes over; the first one is told, and ends; the second one's word counts.
pub async fn two_satellites_at_once(story: &Story) {
    story.step("two satellites at once");
    let (first, second) = (story.satellite_folder(), story.satellite_folder().with_file_name("second"));
    std::fs::create_dir_all(&second).unwrap();
    for entry in std::fs::read_dir(&first).unwrap().flatten().filter(|e| e.path().is_file()) {
        std::fs::copy(entry.path(), second.join(entry.file_name())).unwrap();
    }
    let other = story.pair.lock().await.spawn_satellite("second").await.unwrap();
    let other = std::sync::Mutex::new(other);
    let ended = story.pair.lock().await.satellite_ends().await.unwrap();
    assert_eq!(ended, Some(1), "the first one ends with an error, for a person to see");
    let (device, node) = a_device(story).await;
    story.clusters[0]
        .lab
        .typed(&format!("scontrol update nodename={node} state=drain reason=\"admin: seen by the second\""))
        .await
        .unwrap();
    story.until("what the second one sees", &device, |d| d.has("SlurmSchedulable", "False", "Drained")).await;
    story.clusters[0].lab.typed(&format!("scontrol update nodename={node} state=resume")).await.unwrap();
    // The first one again: it claims anew, and the second one ends.
    story.pair.lock().await.start_satellite().await.unwrap();
    until_within(Duration::from_secs(30), "the second one ends", || async {
        match other.lock().unwrap().try_wait() {
            Ok(Some(status)) => Ok(status),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    story.until("and its end", &device, schedulable).await;
}

/// The way between them is cut; each goes on, and what was seen meanwhile arrives in its order.
pub async fn a_way_that_was_cut(story: &Story) {
    story.step("the way is cut");
    let (device, node) = a_device(story).await;
    let before = story.api().await.all(&format!("/devices/{device}/history")).await.unwrap().len();
    story.way.cut(true);
    for (state, reason) in [("drain", "admin: first"), ("resume", ""), ("drain", "admin: second")] {
        let looks = story.clusters[0].looks().len();
        let reason = if reason.is_empty() { String::new() } else { format!(" reason=\"{reason}\"") };
        story.clusters[0].lab.typed(&format!("scontrol update nodename={node} state={state}{reason}")).await.unwrap();
        // Two whole looks, so that one began after the change.
        until_within(PATIENCE, "it is seen", || async {
            let now = story.clusters[0].looks().len();
            if now >= looks + 3 { Ok(()) } else { Err(format!("{now} looks, {looks} before")) }
        })
        .await;
    }
    story.way.cut(false);
    story
        .until("the last drain", &device, |d| {
            d.has("SlurmSchedulable", "False", "Drained")?;
            d.at("/scheduler/reason", &"admin: second".into())
        })
        .await;
    let history = story.api().await.all(&format!("/devices/{device}/history")).await.unwrap();
    let told: Vec<String> = history[..history.len() - before].iter().rev().map(ToString::to_string).collect();
    let at = |text: &str| told.iter().position(|t| t.contains(text)).unwrap_or_else(|| panic!("`{text}` is not in the history: {told:#?}"));
    assert!(at("admin: first") < at("admin: second"), "the order of what was seen is kept");
    story.clusters[0].lab.typed(&format!("scontrol update nodename={node} state=resume")).await.unwrap();
    story.until("and its end", &device, schedulable).await;
}
