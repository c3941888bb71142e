//! NetBox's face: paging, filters, writes, the traps of its feeds.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use fleet_sim::Sim;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{ask, fixture, netbox, patch, quiet};

/// All rows that a walk along `next` links sees.
async fn walk(sim: &Sim, first: &str) -> Vec<Value> {
    let (mut rows, mut next) = (Vec::new(), Some(first.to_owned()));
    while let Some(path) = next {
        let page = netbox(sim, &path).await.json();
        rows.extend(page["results"].as_array().unwrap().clone());
        next = page["next"].as_str().map(str::to_owned);
    }
    rows
}

async fn change_ids(sim: &Sim, query: &str) -> Vec<u64> {
    let rows = walk(sim, &format!("/api/core/object-changes/?{query}")).await;
    rows.iter().map(|r| r["id"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_cursor_walk_sees_every_device_once() {
    let sim = quiet(120).await;
    for query in ["start=0&limit=7&fields=id,name,status,last_updated", "start=0&limit=40", "limit=50", "offset=0&limit=31"] {
        let rows = walk(&sim, &format!("/api/dcim/devices/?{query}")).await;
        let seen: BTreeSet<u64> = rows.iter().map(|r| r["id"].as_u64().unwrap()).collect();
        assert_eq!((rows.len(), seen.len()), (120, 120), "{query}");
    }
    let row = &walk(&sim, "/api/dcim/devices/?start=0&fields=id,custom_fields").await[0];
    let expected = json!({ "fleet_id": null, "fleet_phase": null, "gpu_count": 8, "slurm_node": "gpu001" });
    assert_eq!(row, &json!({ "id": 1, "custom_fields": expected }));
}

#[tokio::test]
async fn pages_have_the_real_caps_links_and_refusals() {
    let sim = quiet(1100).await;
    let page = netbox(&sim, "/api/dcim/devices/?limit=5000&brief=true").await.json();
    assert_eq!((page["count"].as_u64(), page["results"].as_array().unwrap().len()), (Some(1100), 1000));
    let base = &sim.netbox.url;
    assert_eq!(page["next"], json!(format!("{base}/api/dcim/devices/?brief=true&limit=1000&offset=1000")));
    let page = netbox(&sim, "/api/dcim/devices/?start=5&limit=2&fields=id,name").await.json();
    assert_eq!(page["next"], json!(format!("{base}/api/dcim/devices/?fields=id%2Cname&limit=2&start=7")));
    assert_eq!((&page["count"], &page["previous"]), (&Value::Null, &Value::Null));
    let page = netbox(&sim, "/api/dcim/devices/").await.json();
    assert_eq!(page["results"].as_array().unwrap().len(), 50);
    let refused = netbox(&sim, "/api/dcim/devices/?start=0&limit=2&ordering=name").await;
    assert_eq!((refused.status, refused.json()), (400, fixture("netbox/devices_cursor_with_ordering_400.json")));
    assert_eq!(netbox(&sim, "/api/dcim/devices/?start=0&offset=2").await.status, 400);
}

#[tokio::test]
async fn filters_work_and_unknown_ones_are_ignored() {
    let sim = quiet(100).await;
    let count = async |query: &str| netbox(&sim, &format!("/api/dcim/devices/?{query}")).await.json()["count"].as_u64().unwrap();
    sim.world.set_status(7, "failed", "alice");
    let failed = sim.world.devices().iter().filter(|d| d.status == "failed").count() as u64;
    assert_eq!(count("status=failed").await, failed);
    assert_eq!(count("site=sim1").await, 50);
    assert_eq!(
        count("site_id=2&role=storage").await,
        sim.world.devices().iter().filter(|d| d.site == "sim2" && d.role == "storage").count() as u64
    );
    assert_eq!(count("id=3&id=4&id=4").await, 2);
    assert_eq!(count("nosuchfilter=1").await, 100);
    let bogus = netbox(&sim, "/api/dcim/devices/?status=bogus").await;
    assert_eq!((bogus.status, bogus.json()), (400, fixture("netbox/filter_status_bad_400.json")));
    let banana = netbox(&sim, "/api/dcim/devices/?last_updated__gte=banana").await;
    assert_eq!((banana.status, banana.json()), (400, fixture("netbox/filter_last_updated_bad.json")));
    let newest = netbox(&sim, "/api/dcim/devices/?ordering=-last_updated&limit=1").await.json();
    assert_eq!(newest["results"][0]["id"], json!(7));
    let since = newest["results"][0]["last_updated"].as_str().unwrap().to_owned();
    assert_eq!((count(&format!("last_updated__gte={since}")).await, count(&format!("last_updated__gt={since}")).await), (1, 0));
}

#[tokio::test]
async fn a_watermark_skips_rows_of_a_bulk_write() {
    let sim = quiet(100).await;
    let bulk = sim.world.begin_bulk(&[10, 11, 12], "staged", "bob");
    let hidden = bulk.change_ids();
    sim.world.set_status(20, "failed", "alice");
    let seen = change_ids(&sim, "id__gt=0&ordering=id").await;
    let mark = *seen.last().unwrap();
    assert!(hidden.iter().all(|id| *id < mark && !seen.contains(id)));
    let device = netbox(&sim, "/api/dcim/devices/20/").await.json();
    let updated_mark = device["last_updated"].as_str().unwrap().to_owned();
    assert_ne!(sim.world.device(10).unwrap().status, "staged");
    bulk.commit();
    assert!(change_ids(&sim, &format!("id__gt={mark}&ordering=id")).await.is_empty(), "the naive poller sees nothing");
    let late = walk(&sim, &format!("/api/dcim/devices/?last_updated__gt={updated_mark}")).await;
    assert!(late.is_empty(), "by last_updated neither");
    let all = change_ids(&sim, "start=0").await;
    assert!(hidden.iter().all(|id| all.contains(id)), "an overlap window does");
    assert_eq!(sim.world.device(10).unwrap().status, "staged");
}

#[tokio::test]
async fn the_feeds_lie_as_the_real_ones_do() {
    let sim = quiet(40).await;
    let before = sim.world.device(5).unwrap().last_updated;
    sim.world.touch_device(5);
    assert!(sim.world.device(5).unwrap().last_updated > before);
    assert!(change_ids(&sim, "ordering=id").await.is_empty(), "an equal PATCH writes no record");
    let name = sim.world.device(6).unwrap().name;
    sim.world.delete_device(6, "bob");
    let record = netbox(&sim, "/api/core/object-changes/?action=delete&changed_object_type=dcim.device").await.json()["results"][0].clone();
    assert_eq!((&record["changed_object"], &record["user_name"], &record["postchange_data"]), (&Value::Null, &json!("bob"), &json!({})));
    assert_eq!(record["prechange_data"]["name"], json!(name));
    let gone = netbox(&sim, "/api/dcim/devices/6/").await;
    assert_eq!((gone.status, gone.json()), (404, fixture("netbox/device_delete_missing_404.json")));
    sim.world.move_device(7, "sim2");
    let moved = netbox(&sim, &format!("/api/core/object-changes/?changed_object_id=7&time_after={}", urlish(before))).await.json();
    assert_eq!((&moved["results"][0]["prechange_data"]["site"], &moved["results"][0]["postchange_data"]["site"]), (&json!(1), &json!(2)));
}

fn urlish(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Micros, true)
}

#[tokio::test]
async fn a_patch_is_on_record_with_its_request_id() {
    let sim = quiet(40).await;
    let got = patch(&sim, 3, r#"{"status":"staged","name":"new","custom_fields":{"fleet_phase":"Ready"}}"#, &[]).await;
    assert_eq!((got.status, got.json()["custom_fields"]["fleet_phase"].clone()), (200, json!("Ready")));
    let record = netbox(&sim, "/api/core/object-changes/").await.json()["results"][0].clone();
    assert_eq!((record["request_id"].as_str().unwrap(), &record["user_name"]), (got.header("x-request-id"), &json!("admin")));
    assert_eq!(got.header("api-version"), "4.7");
    for (body, answer) in [
        (r#"{"status":"on-fire"}"#, json!({ "status": ["on-fire is not a valid choice."] })),
        (r#"{"custom_fields":{"nope":1}}"#, json!({ "custom_fields": ["Custom field 'nope' does not exist for this object type."] })),
    ] {
        let refused = patch(&sim, 3, body, &[]).await;
        assert_eq!((refused.status, refused.json()), (400, answer));
    }
    let stale = patch(&sim, 3, r#"{"status":"active"}"#, &[("If-Match", "W/\"2020-01-01T00:00:00+00:00\"")]).await;
    assert_eq!((stale.status, stale.header("etag")), (412, got.header("etag")));
    let fresh = patch(&sim, 3, r#"{"status":"active"}"#, &[("If-Match", got.header("etag"))]).await;
    assert_eq!(fresh.status, 200);
    let ids = change_ids(&sim, "ordering=id").await;
    assert_eq!((ids.len(), ids[1] - ids[0]), (2, 1));
}

#[tokio::test]
async fn tokens_options_and_places() {
    let sim = quiet(40).await;
    let url = format!("{}/api/dcim/devices/?limit=1", sim.netbox.url);
    let none = ask(Method::GET, url.clone(), &[], None).await;
    assert_eq!((none.status, none.json()), (403, fixture("netbox/auth_none_403.json")));
    let bad = ask(Method::GET, url, &[("Authorization", "Bearer nbt_no.no")], None).await;
    assert_eq!((bad.status, bad.json()), (403, fixture("netbox/auth_bad_403.json")));
    let token = format!("Bearer {}", sim.netbox.token);
    let options = ask(Method::OPTIONS, format!("{}/api/dcim/devices/", sim.netbox.url), &[("Authorization", &token)], None).await;
    let recorded = fixture("netbox/device_options_choices.json");
    assert_eq!(options.json()["actions"]["POST"]["status"], recorded["actions"]["POST"]["status"]);
    let racks: BTreeMap<String, Value> = walk(&sim, "/api/dcim/racks/?limit=3")
        .await
        .into_iter()
        .map(|r| (r["name"].as_str().unwrap().to_owned(), r["site"]["slug"].clone()))
        .collect();
    assert_eq!(racks["sim2-r01"], json!("sim2"));
    assert_eq!(walk(&sim, "/api/dcim/sites/").await.len(), 2);
    assert_eq!(walk(&sim, "/api/dcim/device-roles/").await[0]["slug"], json!("gpu-node"));
}
