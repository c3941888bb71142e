//! Every JSON key path and type of a recorded answer is in the simulator's answer, and no other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{fixture, fixtures, netbox, patch, plain_nodes, quiet, slurm};

type Paths = BTreeMap<String, BTreeSet<&'static str>>;

fn collect(value: &Value, path: &str, into: &mut Paths) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    into.entry(path.to_owned()).or_default().insert(kind);
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| collect(v, &format!("{path}.{k}"), into)),
        Value::Array(list) => list.iter().for_each(|v| collect(v, &format!("{path}[]"), into)),
        _ => {}
    }
}

/// `open` = paths whose insides are free (custom fields), or that one side may leave out (empty lists).
fn same_shape(what: &str, recorded: &[Value], simulated: &[Value], open: &[&str]) {
    let (mut real, mut ours) = (Paths::new(), Paths::new());
    recorded.iter().for_each(|v| collect(v, "", &mut real));
    simulated.iter().for_each(|v| collect(v, "", &mut ours));
    let counts = |path: &&String| !open.iter().any(|o| path.starts_with(o));
    let missing: Vec<_> = real.keys().filter(counts).filter(|p| !ours.contains_key(*p)).collect();
    let extra: Vec<_> = ours.keys().filter(counts).filter(|p| !real.contains_key(*p)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "{what}: missing {missing:?}, extra {extra:?}");
    for (path, types) in ours.iter().filter(|(p, _)| counts(p)) {
        assert!(types.is_subset(&real[path]), "{what}: {path} is {types:?}, recorded {:?}", real[path]);
    }
}

#[tokio::test]
async fn slurm_answers_look_recorded() {
    let sim = quiet(60).await;
    for site in ["sim1", "sim2"] {
        let names = plain_nodes(&sim, site);
        sim.world.drain(site, &names[0], "fleet: burn-in", "root");
        sim.world.allocate(site, &names[1], 16);
        sim.world.reserve(site, &names[2], "maint1", true);
        sim.world.set_tokens(site, &names[3], &["UNKNOWN", "NOT_RESPONDING"]);
        sim.world.set_tokens(site, &names[4], &["IDLE", "PLANNED"]);
    }
    for (site, release, version) in
        [(1, "24.11.5", 42), (1, "24.11.5", 41), (1, "24.11.5", 40), (2, "22.05.8", 38), (2, "22.05.8", 37), (2, "22.05.8", 36)]
    {
        // A version whose answers were the same as a later one's has no files of its own (INDEX.tsv).
        let folder = |file: &str| {
            let mut folders = (version..=version + 2).map(|v| format!("slurm/{release}/v0.0.{v}"));
            folders.find(|folder| fixtures(folder).join(file).exists()).unwrap()
        };
        let nodes: Vec<Value> = recorded_nodes(&folder("nodes.json"));
        let path = |call: &str| format!("/slurm/v0.0.{version}/{call}");
        let got = slurm(&sim, site, &path("nodes")).await.json();
        same_shape(&path("nodes"), &nodes, &[got], &[".errors[]", ".nodes[].next_state_after_reboot_flags[]"]);
        let name = sim.world.slurm_nodes(&format!("sim{site}"))[0].name.clone();
        let got = slurm(&sim, site, &path(&format!("node/{name}"))).await.json();
        same_shape(&path("node"), &nodes, &[got], &[".nodes[].state_flags", ".errors[]", ".nodes[].next_state_after_reboot_flags[]"]);
        for (call, file) in [("partitions/", "partitions.json"), ("ping", "ping.json"), ("reservations", "reservations.json")] {
            if version == 36 && call == "reservations" {
                assert_eq!(slurm(&sim, site, &path(call)).await.status, 404);
                continue;
            }
            let recorded = fixture(&format!("{}/{file}", folder(file)));
            let got = slurm(&sim, site, &path(call)).await.json();
            same_shape(&path(call), &[recorded], &[got], &[".partitions[].flags[]"]);
        }
    }
}

/// All recorded answers about nodes of one version.
fn recorded_nodes(folder: &str) -> Vec<Value> {
    let files = std::fs::read_dir(fixtures(folder)).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    let about_nodes = files.filter(|f| (f == "nodes.json" || f.starts_with("node_")) && !f.starts_with("node_update"));
    about_nodes.map(|f| fixture(&format!("{folder}/{f}"))).filter(|v| v.get("nodes").is_some()).collect()
}

#[tokio::test]
async fn netbox_devices_look_recorded() {
    let sim = quiet(60).await;
    let open = [".custom_fields", ".results[].custom_fields"];
    let recorded = ["device_detail", "create_unnamed", "patch_noop"].map(|f| fixture(&format!("netbox/{f}.json")));
    let mut devices = Vec::new();
    for id in [1, 2, 25] {
        devices.push(netbox(&sim, &format!("/api/dcim/devices/{id}/")).await.json());
    }
    same_shape("device", &recorded, &devices, &open);
    let recorded = fixture("netbox/devices_list_limit2.json");
    same_shape("devices", &[recorded], &[netbox(&sim, "/api/dcim/devices/?limit=2").await.json()], &open);
    for (query, file) in [("brief=true&limit=3", "devices_brief"), ("start=0&limit=2&brief=true", "devices_cursor_start")] {
        let got = netbox(&sim, &format!("/api/dcim/devices/?{query}")).await.json();
        same_shape(file, &[fixture(&format!("netbox/{file}.json"))], &[got], &[]);
    }
    same_shape("status", &[fixture("netbox/status.json")], &[netbox(&sim, "/api/status/").await.json()], &[]);
    let queues = netbox(&sim, "/api/core/background-queues/").await.json();
    same_shape("queues", &[fixture("netbox/background_queues.json")], &[queues], &[]);
}

#[tokio::test]
async fn netbox_changes_look_recorded() {
    let sim = quiet(60).await;
    sim.world.set_status(1, "failed", "alice");
    sim.world.delete_device(2, "admin");
    let id = sim.world.add_device(fleet_sim::NewDevice { name: Some(String::new()), ..Default::default() }, "admin");
    patch(&sim, id, r#"{"status":"staged","changelog_message":"because"}"#, &[]).await;
    let got = netbox(&sim, "/api/core/object-changes/?limit=50").await.json();
    let recorded = ["object_changes_device", "object_change_delete"].map(|f| fixture(&format!("netbox/{f}.json")));
    let (before, after) = (".results[].prechange_data", ".results[].postchange_data");
    same_shape("changes", &recorded, std::slice::from_ref(&got), &[before, after, ".next"]);
    let snapshots = |list: &Value| -> Vec<Value> {
        let rows = list["results"].as_array().unwrap().iter();
        rows.flat_map(|r| [r["prechange_data"].clone(), r["postchange_data"].clone()]).filter(|d| *d != json!({})).collect()
    };
    let mut real: Vec<Value> = recorded.iter().flat_map(snapshots).collect();
    // Racks, tenants, positions and tags that are set were recorded in a webhook's snapshots only.
    let webhook: Value = serde_json::from_str(&std::fs::read_to_string(fixtures("netbox/webhook_updated.json")).unwrap()).unwrap();
    let mut with_values = webhook.pointer("/request/body/snapshots/postchange").unwrap().clone();
    with_values.as_object_mut().unwrap().remove("created");
    real.push(with_values);
    same_shape("snapshots", &real, &snapshots(&got), &[".custom_fields"]);
    let newest = &got["results"][0];
    assert_eq!((&newest["message"], &newest["postchange_data"]["status"]), (&json!("because"), &json!("staged")));
}
