//! Servers of which one thing is wrong: a call hangs, a list hides nodes, a row cannot be read. The rest counts all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use fleet_satellite::{Agent, ErrorClass, Seen, Sweep, netbox};
use fleet_schemas::Fact;
use serde_json::{Value, json};

use crate::harness::{Looker, SecretFile, by_native, condition, conditions, listed, secret_file};
use crate::http::{HANGS, netbox_agent, recorded, server, slurm_agent};

/// slurmrestd of 24.11: one node in the list; of any other, `single` says what GET gives.
async fn slurmrestd(
    single: impl Fn(&str) -> (u16, &'static str, Body) + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    server(move |path| match path.strip_prefix("/slurm/v0.0.42/") {
        None => (200, "", Body::from(r#"{"paths":{"/slurm/v0.0.42/nodes/":{}}}"#)),
        Some("nodes") => (200, "", Body::from(slurm_nodes("gpu001"))),
        Some("partitions") => (200, "", Body::from(r#"{"partitions":[],"errors":[]}"#)),
        Some(path) => single(path.strip_prefix("node/").unwrap()),
    })
    .await
}

fn slurm_nodes(name: &str) -> String {
    json!({"nodes": [{"name": name, "state": ["IDLE"], "cpus": 8, "alloc_cpus": 0}], "errors": []}).to_string()
}

#[tokio::test]
async fn more_hidden_nodes_than_one_look_asks_for_are_all_asked_for_in_turn() {
    // 50 a look, again after 5 looks; more than 250 take longer, and none waits twice as long as another.
    for (nodes, expected) in [(120, &[0, 50, 50, 20, 0, 0, 50, 50, 20][..]), (300, &[0, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50])] {
        let (url, asked) = slurmrestd(|name| (200, "", Body::from(slurm_nodes(name)))).await;
        let singles = || asked.lock().unwrap().iter().filter(|path| path.contains("/node/")).cloned().collect::<Vec<_>>();
        let mut looker = slurm_agent(url);
        let names: Vec<String> = (0..nodes).map(|n| format!("cloud{n:03}")).collect();
        looker.devices.devices = names.iter().zip(1..).map(|(name, id)| listed(id, name)).collect();
        let (mut calls, mut last) = (Vec::new(), BTreeMap::new());
        for _ in expected {
            let before = singles().len();
            let sweep = looker.look().await.unwrap();
            last.extend(by_native(&sweep).into_iter().map(|(name, seen)| (name, condition(&seen, "SlurmMember"))));
            calls.push(singles().len() - before);
            let shown = singles().into_iter().collect::<BTreeSet<_>>().len();
            assert_eq!(names.iter().filter(|name| last[*name] == "True Listed").count(), shown, "what GET showed stands");
        }
        assert_eq!(calls, expected);
        let mut paths = singles();
        paths.sort();
        assert!(paths.len() == 2 * nodes && paths.chunks(2).all(|twice| twice[0] == twice[1]), "each twice");
    }
}

#[tokio::test]
async fn what_the_single_call_showed_stands_for_15_looks() {
    let (url, _) = slurmrestd(|name| (200, "", Body::from(slurm_nodes(name)))).await;
    let mut looker = slurm_agent(url);
    looker.devices.devices = vec![listed(1, "cloud1")];
    let mut said = Vec::new();
    for _ in 0..20 {
        // After the second look there is never time to ask.
        looker.half = if said.len() < 2 { looker.half } else { Duration::ZERO };
        let sweep = looker.look().await.unwrap();
        said.push(by_native(&sweep).values().map(|seen| condition(seen, "SlurmMember")).collect::<String>());
    }
    assert_eq!(said[..2], ["Unknown NoData", "True Listed"]);
    assert!(said[2..16].iter().all(String::is_empty) && said[16..].iter().all(|s| s == "Unknown NoData"), "{said:?}");
}

/// A look that ends long before one call's deadline, 30 s.
async fn before_a_deadline<A: Agent>(looker: &mut Looker<A>) -> Sweep {
    tokio::time::timeout(Duration::from_secs(20), looker.look()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_single_call_that_hangs_throws_no_slurm_list_away() {
    let (url, asked) = slurmrestd(|_| (HANGS, "", Body::empty())).await;
    let mut looker = slurm_agent(url);
    looker.devices.devices = vec![listed(1, "gpu001"), listed(2, "gone1"), listed(3, "gone2")];
    looker.look().await.unwrap();
    looker.half = Duration::from_millis(200);
    let singles = |asked: &[String]| asked.iter().filter(|path| path.contains("/node/")).cloned().collect::<Vec<_>>();
    while singles(&asked.lock().unwrap()).len() < 2 {
        let sweep = before_a_deadline(&mut looker).await;
        let seen = by_native(&sweep);
        assert_eq!((condition(&seen["gpu001"], "SlurmMember"), sweep.complete[0].count), ("True Listed".into(), 1));
        assert!(["gone1", "gone2"].iter().all(|name| condition(&seen[*name], "SlurmMember") == "Unknown NoData"));
    }
    let asked = singles(&asked.lock().unwrap());
    assert!(asked[0].contains("gone1") && asked[1].contains("gone2"), "the one that hung is not first again: {asked:?}");
}

/// NetBox as a test sets it.
#[derive(Clone)]
struct Netbox {
    devices: Arc<Mutex<Vec<Value>>>,
    /// `None` = 500.
    changes: Arc<Mutex<Option<Vec<Value>>>>,
    /// What GET of one device gives.
    single: fn(i64) -> u16,
}

impl Netbox {
    /// With devices 1 to 4.
    async fn start(single: fn(i64) -> u16) -> (Self, Looker<netbox::Agent>, SecretFile) {
        let devices = (1..5).map(Self::device).collect();
        let netbox = Self { single, devices: Arc::new(Mutex::new(devices)), changes: Arc::new(Mutex::new(Some(Vec::new()))) };
        let answers = netbox.clone();
        let (url, _) = server(move |path| answers.answer(path)).await;
        let token = secret_file("nbt_key.secret");
        let looker = netbox_agent(url, &token.path, Duration::from_secs(30));
        (netbox, looker, token)
    }

    fn device(id: i64) -> Value {
        let mut device: Value = serde_json::from_str(&recorded("netbox/device_detail.json").1).unwrap();
        (device["id"], device["name"], device["serial"]) = (json!(id), json!(format!("gpu{id:03}")), json!(format!("SN{id}")));
        device
    }

    /// A change of a device, at a time that the window shows.
    fn change(id: i64, device: i64) -> Value {
        json!({"id": id, "time": "2026-11-30T04:16:30Z", "user_name": "bob", "request_id": "r", "action": {"value": "create"},
            "changed_object_type": "dcim.device", "changed_object_id": device})
    }

    fn answer(&self, path: &str) -> (u16, &'static str, Body) {
        let page = |rows: Vec<Value>| (200, "", Body::from(json!({"next": null, "results": rows}).to_string()));
        let devices = || self.devices.lock().unwrap().clone();
        match path.strip_prefix("/api/dcim/devices/") {
            None => self.changes.lock().unwrap().clone().map_or((500, "", Body::empty()), page),
            Some(query) if query.starts_with("?id=") => {
                page(devices().into_iter().filter(|d| format!("{query}&").contains(&format!("id={}&", d["id"]))).collect())
            }
            Some(query) if query.starts_with('?') => page(devices()),
            Some(one) => (
                (self.single)(one.split_once('/').unwrap().0.parse().unwrap()),
                "",
                Body::from(r#"{"detail": "No Device matches the given query."}"#),
            ),
        }
    }
}

/// `<id> <InventoryMatched>` of each device, or `<id> gone`.
fn inventory(sweep: &Sweep) -> Vec<String> {
    let say = |(id, seen): (String, Seen)| match seen.fact {
        Fact::NetboxDeviceGone(_) => format!("{id} gone"),
        _ => format!("{id} {}", condition(&seen, "InventoryMatched")),
    };
    by_native(sweep).into_iter().map(say).collect()
}

#[tokio::test]
async fn a_single_call_that_hangs_throws_no_netbox_sweep_away() {
    let (netbox, mut looker, _token) = Netbox::start(|id| if id == 2 { HANGS } else { 404 }).await;
    looker.look().await.unwrap();
    netbox.devices.lock().unwrap().remove(1);
    looker.half = Duration::from_millis(200);
    looker.now = looker.now.plus(900_000_000);
    let sweep = before_a_deadline(&mut looker).await;
    assert_eq!(inventory(&sweep), ["1 True Complete", "3 True Complete", "4 True Complete"]);
    assert_eq!((sweep.complete[0].count, sweep.failed), (4, None), "not confirmed, so it counts as there");
    // By the feed: it stays dirty.
    *netbox.changes.lock().unwrap() = Some(vec![Netbox::change(7, 2), Netbox::change(8, 3)]);
    assert_eq!(inventory(&before_a_deadline(&mut looker).await), ["3 True Complete"]);
    assert!(before_a_deadline(&mut looker).await.observations.is_empty());
    assert!(looker.memory.get::<Value>("n/dirty/2").is_some());
    netbox.devices.lock().unwrap().push(Netbox::device(2));
    assert_eq!(inventory(&before_a_deadline(&mut looker).await), ["2 True Complete"]);
    assert!(looker.memory.get::<Value>("n/dirty/2").is_none());
    // Beside one that is gone: each comes first at times.
    netbox.devices.lock().unwrap().retain(|d| d["id"] != 2 && d["id"] != 3);
    *netbox.changes.lock().unwrap() = Some(vec![Netbox::change(9, 2), Netbox::change(10, 3)]);
    let mut said = Vec::new();
    for _ in 0..50 {
        said = inventory(&before_a_deadline(&mut looker).await);
        if !said.is_empty() {
            break;
        }
    }
    assert_eq!(said, ["3 gone"]);
}

#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_other() {
    let (netbox, mut looker, _token) = Netbox::start(|_| 404).await;
    looker.look().await.unwrap();
    let break_one = |at: usize| netbox.devices.lock().unwrap()[at].as_object_mut().unwrap().remove("serial").unwrap();
    let serial = break_one(1);
    *netbox.changes.lock().unwrap() = Some(vec![Netbox::change(7, 2), Netbox::change(8, 3)]);
    let sweep = looker.look().await.unwrap();
    let all = ["1 True Complete", "2 Unknown NoData", "3 True Complete", "4 True Complete"];
    assert_eq!((inventory(&sweep), sweep.complete.len(), &sweep.failed), (all[1..3].iter().map(|s| s.to_string()).collect(), 1, &None));
    let message = conditions(&by_native(&sweep)["2"])[0].message.clone();
    assert!(message.starts_with("its row cannot be read: missing field `serial`"), "{message}");
    looker.now = looker.now.plus(900_000_000);
    assert_eq!(inventory(&looker.look().await.unwrap()), all);
    // One that was never read is named.
    netbox.devices.lock().unwrap().push(json!({"id": 9}));
    looker.now = looker.now.plus(900_000_000);
    let sweep = looker.look().await.unwrap();
    let failed = sweep.failed.clone().unwrap();
    assert!(failed.came.starts_with("200, and devices that cannot be read: 9: missing field"), "{failed}");
    assert_eq!((inventory(&sweep), sweep.complete.len()), (all.map(str::to_owned).to_vec(), 1));
    // Back again; and none that can be read is a renamed field: nothing is said.
    netbox.devices.lock().unwrap()[1]["serial"] = serial;
    looker.now = looker.now.plus(900_000_000);
    assert_eq!(inventory(&looker.look().await.unwrap())[1], "2 True Complete");
    for at in 0..4 {
        break_one(at);
    }
    looker.now = looker.now.plus(900_000_000);
    let sweep = looker.look().await.unwrap();
    let failed = sweep.failed.unwrap();
    assert!(failed.came.starts_with("200, and none of 5 devices can be read; 1: missing field `serial`"), "{failed}");
    assert_eq!((sweep.observations.len(), sweep.complete.len()), (0, 0));
}

#[tokio::test]
async fn a_feed_that_cannot_be_read_stops_no_sweep() {
    let (netbox, mut looker, _token) = Netbox::start(|_| 404).await;
    // Not even begun: the sweep says what there is, once, and is made again when the feed has begun.
    *netbox.changes.lock().unwrap() = None;
    let sweep = looker.look().await.unwrap();
    assert_eq!((inventory(&sweep).len(), sweep.complete.len(), sweep.failed.map(|e| e.class)), (4, 1, Some(ErrorClass::Transient)));
    looker.look().await.unwrap_err();
    *netbox.changes.lock().unwrap() = Some(Vec::new());
    assert_eq!(inventory(&looker.look().await.unwrap()).len(), 4);
    assert!(looker.look().await.unwrap().observations.is_empty());
    // A change that cannot be read: named, and a sweep shows what it did; once.
    netbox.devices.lock().unwrap()[2]["name"] = Value::Null;
    let mut odd = Netbox::change(7, 3);
    odd["action"] = json!("renamed");
    *netbox.changes.lock().unwrap() = Some(vec![odd, Netbox::change(8, 1)]);
    let sweep = looker.look().await.unwrap();
    let failed = sweep.failed.clone().unwrap();
    assert!(failed.came.starts_with("200, and changes that cannot be read: 7: "), "{failed}");
    assert_eq!((inventory(&sweep)[2].as_str(), sweep.observations.len(), sweep.complete.len()), ("3 False NameMissing", 4, 1));
    let sweep = looker.look().await.unwrap();
    assert_eq!((sweep.observations.len(), sweep.failed), (0, None));
    // Away for long: the sweep that is due goes on without it.
    *netbox.changes.lock().unwrap() = None;
    looker.now = looker.now.plus(900_000_000);
    let sweep = looker.look().await.unwrap();
    assert_eq!((sweep.observations.len(), sweep.complete.len(), sweep.failed.is_some()), (4, 1, true));
}
