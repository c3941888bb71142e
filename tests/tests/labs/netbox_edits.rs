//! What people do in NetBox: names, moves, statuses, deletes. Each change is dated by NetBox's first answer that has it.

use crate::drain::{activate, event, instruction};
use crate::story::{Device, Story};
use crate::truth;
use fleet_tests::labs::Changed;
use fleet_tests::recorder::{Answered, Call};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Instant;

/// Whether an answer shows the device with this id, and like this.
pub fn shows_row(id: i64, like: impl Fn(&Value) -> bool) -> impl Fn(&Call, &Answered) -> bool {
    move |call, answer| {
        let read = call.path.starts_with("/api/dcim/devices/").then(|| serde_json::from_slice::<Value>(&answer.body).ok()).flatten();
        let rows = read.map(|body| body["results"].as_array().cloned().unwrap_or_else(|| vec![body]));
        rows.is_some_and(|rows| rows.iter().any(|row| row["id"] == id && like(row)))
    }
}

/// Whether a row has what an edit asked for: a value, a choice's value, or the thing referred to.
fn carries(row: &Value, edit: &Value) -> bool {
    let has = |(key, wanted): (&String, &Value)| match (&row[key], wanted) {
        (Value::Null, Value::String(empty)) => empty.is_empty(),
        (now, Value::Object(wanted)) => wanted.iter().all(|(k, v)| now[k] == *v),
        (now, wanted) => now == wanted || now["value"] == *wanted || now["id"] == *wanted,
    };
    edit.as_object().is_some_and(|edit| edit.iter().all(has))
}

/// An edit of a device; it must appear within the bound of NetBox's first answer that has it.
pub async fn edit(
    story: &Story,
    what: &str,
    device: &str,
    body: Value,
    wanted: impl Fn(&Device) -> Result<(), String>,
) -> (Device, Changed) {
    let found = story.device(device).await.unwrap();
    let (id, uuid) = (found.netbox_id().unwrap(), found.0["id"].as_str().unwrap());
    let (before, path) = (Instant::now(), format!("/dcim/devices/{id}/"));
    let changed = story.labs.netbox.change(Method::PATCH, &path, &body).await.unwrap();
    let shows = shows_row(id, |row| carries(row, &body));
    (story.appears(&format!("{device}: {what}"), (&story.netbox, before), shows, uuid, wanted).await, changed)
}

/// A rename, a rack's rename, a move between bound sites and back.
pub async fn renames_and_moves(story: &Story) {
    story.step("renames and moves");
    let renamed = |d: &Device| d.at("/name", &"gpu06-new".into());
    edit(story, "renamed", "gpu06", json!({"name": "gpu06-new"}), renamed).await;
    story.device("gpu06-new").await.unwrap().has("SlurmMember", "True", "Listed").unwrap();
    edit(story, "named as before", "gpu06-new", json!({"name": "gpu06"}), |d| d.at("/name", &"gpu06".into())).await;
    rack_renamed(story).await;
    moved(story, "dc1", "dc2").await;
    moved(story, "dc2", "dc1").await;
}

/// A rack's rename leaves no record of the devices in it, and they are read anew all the same.
async fn rack_renamed(story: &Story) {
    let (inside, id) = ("gpu18", 18);
    let rack = story.labs.netbox.get("/dcim/racks/?name=R17").await.unwrap()["results"][0]["id"].as_i64().unwrap();
    for name in ["R17-new", "R17"] {
        let before = Instant::now();
        story.labs.netbox.change(Method::PATCH, &format!("/dcim/racks/{rack}/"), &json!({"name": name})).await.unwrap();
        let (shows, wanted) = (shows_row(id, |row| row["rack"]["name"] == name), |d: &Device| d.at("/inventory/rack", &name.into()));
        story.appears(&format!("{inside}: its rack renamed {name}"), (&story.netbox, before), shows, inside, wanted).await;
    }
}

/// A move is one event and a hold until somebody accepts it; the new site's cluster counts at once.
async fn moved(story: &Story, from: &'static str, to: &'static str) {
    let device = "gpu09";
    let site = story.labs.netbox.get(&format!("/dcim/sites/?slug={to}")).await.unwrap()["results"][0]["id"].clone();
    let place = match to {
        "dc1" => json!({"site": site, "rack": {"name": "R08"}, "position": 1.0, "face": "front"}),
        _ => json!({"site": site, "rack": null, "position": null, "face": ""}),
    };
    let stands = |d: &Device| {
        d.at("/inventory/site", &to.into())?;
        d.has("Moved", "True", "NotAccepted")
    };
    let (found, _) = edit(story, &format!("moved from {from} to {to}"), device, place, stands).await;
    let holds: Vec<_> = found.0["lifecycle"]["holds"].as_array().into_iter().flatten().map(|h| h["name"].clone()).collect();
    assert_eq!(holds, ["moved"]);
    found.phase("InService").unwrap();
    found.at("/lifecycle/profile_site", &from.into()).unwrap();
    let e = event(story, device, "DeviceMoved").await.expect("no DeviceMoved in the history");
    assert!(e["from"] == from && e["to"] == to, "{e}");
    let counts = |d: &Device| {
        d.has("SlurmMember", "True", "Listed")?;
        let at = &d.condition("SlurmMember")["site"];
        if at == to { Ok(()) } else { Err(format!("SlurmMember is stated at {at}")) }
    };
    story.until("the new site's cluster", device, counts).await;
    let (code, text) = story.fmctl(&["hold", device, "--name", "moved", "--reason", "labs"]).await;
    assert!(code == 4, "nobody places that hold by hand: {code} {text}");
    story.give(&["unhold", device, "--name", "moved", "--reason", "it stands there"]).await;
    let accepted = |d: &Device| {
        d.has("Moved", "False", "Accepted")?;
        d.at("/lifecycle/holds", &json!([]))?;
        d.at("/lifecycle/profile_site", &Value::Null)
    };
    story.until("the move accepted", device, accepted).await;
}

/// A status that maps becomes its command, in the name of the person who edited; another one is drift until the person is asked.
pub async fn status_edits_become_commands(story: &Story) {
    story.step("status edits");
    quarantined(story, "gpu13").await;
    let device = "gpu10";
    let drifts = |d: &Device| d.has("NetboxLifecycleDrift", "True", "Unmapped");
    let (found, _) = edit(story, "an unmapped status", device, json!({"status": "staged"}), drifts).await;
    found.phase("InService").unwrap();
    let message = found.condition("NetboxLifecycleDrift")["message"].as_str().unwrap_or_default();
    assert!(message.contains("admin set status: active -> staged"), "{message}");
    story.give(&["annotate", device, "--reason", "it stays as it is"]).await;
    let clear = |d: &Device| if d.condition("NetboxLifecycleDrift")["status"] == "False" { Ok(()) } else { Err("it drifts".to_owned()) };
    story.until("the drift accepted", device, clear).await;
    let agrees = |d: &Device| {
        clear(d)?;
        d.at("/inventory/status", &"active".into())?;
        d.phase("InService")
    };
    edit(story, "the status as before", device, json!({"status": "active"}), agrees).await;
}

/// `failed` on a device in service: isolated first, then quarantined, and by whom.
async fn quarantined(story: &Story, device: &'static str) {
    let cluster = &story.clusters[0];
    let drains = |d: &Device| {
        d.phase("Draining")?;
        d.at("/lifecycle/then", &"quarantine".into())?;
        d.at("/lifecycle/cause", &"NetboxStatusFailed".into())
    };
    let (found, changed) = edit(story, "status failed", device, json!({"status": "failed"}), drains).await;
    found.at("/operation/by", &"netbox:admin".into()).unwrap();
    found.at("/operation/verb", &"quarantine".into()).unwrap();
    let judged = event(story, device, "EditJudged").await.expect("no EditJudged in the history");
    assert!(judged["user"] == "admin" && judged["verb"] == "quarantine" && judged["result"] == "accepted", "{judged}");
    let started = event(story, device, "OperationStarted").await.expect("no OperationStarted in the history");
    assert_eq!(started["by"], "netbox:admin", "{started} after {changed:?}");

    cluster.lab.typed(&instruction(story, device, "slurm-drain").await).await.unwrap();
    story.until("quarantined", device, |d| d.phase("Quarantined")).await;
    let drained = story.device(device).await.unwrap();
    drained.at("/lifecycle/stage", &"fault".into()).unwrap();
    drained.at("/operation", &Value::Null).unwrap();
    let calm = |d: &Device| if d.condition("NetboxLifecycleDrift")["status"] == "True" { Err("it drifts".to_owned()) } else { Ok(()) };
    calm(&drained).unwrap();

    story.give(&["validate", device, "--reason", "labs"]).await;
    story.until("validated", device, |d| d.phase("Ready")).await;
    edit(story, "the status as before", device, json!({"status": "active"}), |d| d.at("/inventory/status", &"active".into())).await;
    activate(story, cluster, device).await;
}

/// A deleted device is a condition, never a deletion.
pub async fn a_deleted_device_stays_listed(story: &Story) {
    story.step("a delete");
    let device = story.device("gpu197").await.unwrap();
    let uuid = device.0["id"].as_str().unwrap();
    let (before, path) = (Instant::now(), format!("/dcim/devices/{}/", device.netbox_id().unwrap()));
    story.labs.netbox.change(Method::DELETE, &path, &Value::Null).await.unwrap();
    let confirms = |call: &Call, answer: &Answered| call.path.contains(&path) && answer.status == 404;
    let vanished = |d: &Device| d.has("InventoryVanished", "True", "Deleted");
    let found = story.appears("gpu197: deleted", (&story.netbox, before), confirms, uuid, vanished).await;
    let message = found.condition("InventoryVanished")["message"].as_str().unwrap_or_default();
    assert!(message.contains("by admin") && message.contains("404"), "{message}");
    let listed = story.api().await.all("/devices?filter=name%20%3D%20gpu197").await.unwrap();
    assert_eq!(listed.len(), 1, "it is still listed: {listed:?}");
    truth::equals(story, "after the delete").await;
}
