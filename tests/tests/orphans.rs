//! Things that no device claims, end to end: a SLURM node without a device shows, and disappears once it is linked, or gone.

use fleet_schemas::wire::WireFact;
use fleet_schemas::{DeviceId, ExclusiveGranted, ExclusiveName, NetboxDeviceGone, Payload, UnclaimedSeen};
use fleet_sim::{NewDevice, Options};
use fleet_tests::{Api, Running, configure, crypto, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The orphans of a list, as `site/source/id`.
async fn orphans(api: &Api, path: &str) -> Result<Vec<String>, String> {
    let items = api.all(path).await.map_err(|e| e.to_string())?;
    let text = |o: &Value, name: &str| o[name].as_str().unwrap().to_owned();
    Ok(items.iter().map(|o| format!("{}/{}/{}", text(o, "site"), text(o, "source"), text(o, "native_id"))).collect())
}

async fn until_orphans(api: &Api, path: &str, expected: &[&str]) {
    until("the orphans", || async {
        let found = orphans(api, path).await?;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_device_shows_and_disappears_once_linked() {
    crypto();
    let folder = TempDir::new().unwrap();
    let sim = fleet_sim::start(Options { sites: 2, devices: 12, seed: 1, people: false, pace: 10.0 }).await.unwrap();
    for (site, node) in [("sim1", "stray01"), ("sim1", "stray02"), ("sim2", "stray01")] {
        sim.world.add_slurm_node(site, node);
    }
    let config = configure(&sim, folder.path());
    let hub = Running::start(&folder.path().join("data"), &["--config", config.to_str().unwrap()]).await.unwrap();
    let api = hub.api().await.unwrap();
    until_orphans(&api, "/orphans", &["sim1/slurm/stray01", "sim1/slurm/stray02", "sim2/slurm/stray01"]).await;
    until_orphans(&api, "/orphans?site=sim1&source=slurm", &["sim1/slurm/stray01", "sim1/slurm/stray02"]).await;
    until_orphans(&api, "/orphans?source=netbox", &[]).await;
    pages(&api).await;
    refusals(&hub, &api).await;
    let listed = hub.fmctl(&["get", "orphans", "--site", "sim2", "--no-headers"]).await.unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("stray01") && text.contains("CPUs") && text.lines().count() == 1, "{text}");
    // A device that claims it, a node that went.
    let device =
        sim.world.add_device(NewDevice { name: Some("stray01".into()), serial: "SN-STRAY".into(), ..NewDevice::default() }, "alice");
    sim.world.set_custom_field(device, "slurm_node", json!("stray01"), "alice");
    until_orphans(&api, "/orphans?site=sim1", &["sim1/slurm/stray02"]).await;
    sim.world.remove_slurm_node("sim1", "stray02");
    until_orphans(&api, "/orphans", &["sim2/slurm/stray01"]).await;
    // And back: the link was a mistake.
    sim.world.set_custom_field(device, "slurm_node", json!(null), "alice");
    until_orphans(&api, "/orphans", &["sim1/slurm/stray01", "sim2/slurm/stray01"]).await;
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}

async fn pages(api: &Api) {
    let (mut seen, mut path) = (Vec::new(), "/orphans?limit=1".to_owned());
    for _ in 0..3 {
        let page = api.get(&path).await.unwrap();
        seen.extend(page["items"].as_array().unwrap().iter().map(|o| o["native_id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/orphans?limit=1&cursor={next}");
    }
    assert_eq!(seen, ["stray01", "stray02", "stray01"]);
    let last = api.get(&path).await.unwrap();
    assert_eq!(last["next_cursor"], Value::Null);
    let foreign = api.send(Method::GET, &format!("/api/v1{}&site=sim1", path), None, &[]).await.unwrap();
    assert_eq!((foreign.status, foreign.body["code"].as_str()), (StatusCode::BAD_REQUEST, Some("invalid")), "{}", foreign.body);
}

async fn refusals(hub: &Running, api: &Api) {
    let code = async |api: &Api, path: &str| {
        let answer = api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
        (answer.status.as_u16(), answer.body["code"].as_str().unwrap_or_default().to_owned())
    };
    for path in ["/orphans?source=abacus", "/orphans?site=No%20Site", "/orphans?colour=red", "/orphans?limit=0", "/orphans?cursor=x"] {
        assert_eq!(code(api, path).await, (400, "invalid".into()), "{path}");
    }
    let one_site = Api::with_token(&hub.url, &hub.token("reader", "device:read", &["sim2"]).unwrap()).unwrap();
    assert_eq!(orphans(&one_site, "/orphans").await.unwrap(), ["sim2/slurm/stray01"], "a right at one site reaches no other");
    assert_eq!(orphans(&one_site, "/orphans?site=sim1").await.unwrap(), Vec::<String>::new());
    let no_scope = Api::with_token(&hub.url, &hub.token("auditor", "audit:read", &["*"]).unwrap()).unwrap();
    assert_eq!(code(&no_scope, "/orphans").await.0, 403);
}

/// The wire: results stand behind the sweep's, what is no thing is refused by field, and nobody speaks for another site or for a name.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_names_what_is_unclaimed_item_by_item() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=2,devices=8,people=false,pace=10"]).await.unwrap();
    let api = hub.api().await.unwrap();
    let agent = |scope: &str| Api::with_token(&hub.url, &hub.token("slurm-agent-sim1", scope, &["sim1"]).unwrap()).unwrap();
    let results = |body: &Value| -> Vec<String> {
        let text = |r: &Value| format!("{} {}", r["result"].as_str().unwrap(), r["code"].as_str().unwrap_or_default()).trim().to_owned();
        body["results"].as_array().unwrap_or_else(|| panic!("{body}")).iter().map(text).collect()
    };
    let item = |native_id: &str, present: bool| json!({"native_id": native_id, "present": present, "detail": "by hand"});
    let states = agent("device-condition:create");
    let batch = json!({
        "sweep": {"source": "slurm", "complete": false, "fault": "NoData", "message": "by hand"},
        "unclaimed": [item("hand/01", true), item("", true), item("a\u{7}b", true), item(&"x".repeat(201), true)],
    });
    let answer = states.post("/sites/sim1/conditions:batch", &batch).await.unwrap();
    assert_eq!(results(&answer.body), ["stored", "stored", "refused invalid", "refused invalid", "refused invalid"]);
    until_orphans(&api, "/orphans", &["sim1/slurm/hand/01"]).await;
    let many: Vec<_> = (0..501).map(|i| item(&format!("n{i}"), true)).collect();
    let refused = states.post("/sites/sim1/conditions:batch", &json!({"unclaimed": many})).await.unwrap();
    assert_eq!((refused.status, refused.body["code"].as_str()), (StatusCode::PAYLOAD_TOO_LARGE, Some("too-many-items")));
    let elsewhere = states.post("/sites/sim2/conditions:batch", &json!({"unclaimed": [item("y", true)]})).await.unwrap();
    assert_eq!(elsewhere.status, StatusCode::FORBIDDEN);
    let closed = states.post("/sites/sim1/conditions:batch", &json!({"unclaimed": [item("hand/01", false)]})).await.unwrap();
    assert_eq!(results(&closed.body), ["stored"]);
    until_orphans(&api, "/orphans", &[]).await;
    let seen = WireFact::of(&Payload::of(&UnclaimedSeen { present: true, detail: String::new() }));
    let granted = WireFact::of(&Payload::of(&ExclusiveGranted { name: ExclusiveName::serial("SN7").unwrap() }));
    let observed = |stream: &str, fact: &WireFact| {
        json!({
            "id": uuid::Uuid::new_v4().to_string(), "stream": stream, "native_id": "z", "observed_at": "2026-01-01T00:00:00Z",
            "source_seq": {"epoch": 0, "counter": 0}, "fact": fact,
        })
    };
    let device = format!("device/{}", uuid::Uuid::new_v4());
    let items = [
        observed("unclaimed/sim2/slurm/z", &seen),
        observed("unclaimed/sim1/netbox/z", &seen),
        observed("unclaimed/sim1/slurm/other", &seen),
        observed(&device, &seen),
        observed("exclusive/serial/sn7", &seen),
        observed(&device, &granted),
    ];
    let answer = agent("observation:create").post("/sites/sim1/observations:batch", &json!({"items": items})).await.unwrap();
    assert_eq!(results(&answer.body)[..5], ["refused not-yours"; 5]);
    assert_eq!(results(&answer.body)[5], "refused undecodable");
    // NetBox's agent speaks of the records of its own NetBox.
    let gone = |instance: &str| {
        let fact = NetboxDeviceGone { instance: instance.into(), netbox_id: 4711, deleted_by: None, noticed_by: "sweep".into() };
        observed(&format!("device/{}", DeviceId::from_netbox(instance, 4711)), &WireFact::of(&Payload::of(&fact)))
    };
    let netbox = Api::with_token(&hub.url, &hub.token("netbox-agent-sim", "observation:create", &["sim1"]).unwrap()).unwrap();
    let answer = netbox.post("/sites/sim1/observations:batch", &json!({"items": [gone("another"), gone("sim")]})).await.unwrap();
    // The order is asked for last, and the batch names no epoch.
    assert_eq!(results(&answer.body), ["refused not-yours", "refused wrong-epoch"], "{}", answer.body);
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}
