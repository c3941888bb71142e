//! The gateway's contract, item by item: runs and epochs, whose type and whose device, sizes, codings.

use crate::api::{Bed, bed};
use flate2::{Compression, write::GzEncoder};
use fleet_tests::{Answer, Api};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::Write;

const BATCH: &str = "/api/v1/sites/sim1/conditions:batch";

fn agent(bed: &Bed) -> Api {
    let token = bed.hub.token("slurm-agent-sim1", "device:update device-condition:create", &["sim1"]).unwrap();
    Api::with_token(&bed.hub.url, &token).unwrap()
}

async fn send(api: &Api, method: Method, path: &str, body: &Value) -> Answer {
    api.send(method, path, Some(body.to_string().as_bytes()), &[]).await.unwrap()
}

fn code(answer: &Answer) -> (u16, &str) {
    (answer.status.as_u16(), answer.body["code"].as_str().unwrap_or_default())
}

/// A device of a site, with its node.
async fn linked(bed: &Bed, site: &str) -> (String, String) {
    let list = bed.api.all(&format!("/devices?filter=site%20%3D%20{site}")).await.unwrap();
    let found = list.iter().find(|d| d["slurm_node"].is_string()).unwrap();
    (found["id"].as_str().unwrap().to_owned(), found["slurm_node"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_run_alone_is_heard_and_every_item_has_its_own_answer() {
    let bed = bed().await;
    let agent = agent(&bed);
    let boot = |n: u32| json!({"run": {"boot": format!("00000000-0000-4000-8000-{n:012}")}});
    let first = send(&agent, Method::POST, BATCH, &boot(1)).await;
    let epoch = first.body["epoch"].as_u64().unwrap();
    assert_eq!(send(&agent, Method::POST, BATCH, &boot(1)).await.body["epoch"], epoch, "the same boot has the same epoch");
    assert_eq!(send(&agent, Method::POST, BATCH, &boot(2)).await.body["epoch"], epoch + 1);
    let of = |epoch: u64| json!({"run": {"epoch": epoch}});
    assert_eq!(code(&send(&agent, Method::POST, BATCH, &of(epoch)).await), (409, "superseded"));
    assert_eq!(code(&send(&agent, Method::POST, BATCH, &of(epoch + 9)).await), (503, "epoch-unknown"), "a younger memory drops nothing");
    let (device, node) = linked(&bed, "sim1").await;
    let (far, _) = linked(&bed, "sim2").await;
    let seq = |counter: u64| json!({"epoch": epoch + 1, "counter": counter});
    let item = |device: &str, r#type: &str, reason: &str, node: &str, seq: Value| json!({"device": device, "type": r#type, "status": "False", "reason": reason, "native_id": node, "source_seq": seq});
    let conditions = json!([
        item(&device, "SlurmSchedulable", "Down", &node, seq(100)),
        item(&far, "SlurmSchedulable", "Down", &node, seq(101)),
        item(&device, "InventoryMatched", "Down", &node, seq(102)),
        item(&device, "NoSuchType", "Down", &node, seq(103)),
        item(&device, "SlurmSchedulable", "not camel", &node, seq(104)),
        item(&device, "SlurmSchedulable", "Down", "another-node", seq(105)),
        item(&device, "SlurmSchedulable", "Down", &node, json!({"epoch": epoch, "counter": 1})),
    ]);
    let sweep = json!({"source": "slurm", "complete": true, "count": 6, "source_seq": seq(106)});
    let answer = send(&agent, Method::POST, BATCH, &json!({"run": {"epoch": epoch + 1}, "conditions": conditions, "sweep": sweep})).await;
    let codes: Vec<_> = answer.body["results"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap_or("stored")).collect();
    let expected =
        ["stored", "unknown-device", "type-not-granted", "type-not-granted", "invalid", "identity-mismatch", "wrong-epoch", "stored"];
    assert_eq!(codes, expected, "{}", answer.body);
    assert!(answer.body["device_list"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_device_by_a_client_that_keeps_no_order() {
    let bed = bed().await;
    let agent = agent(&bed);
    let (device, node) = linked(&bed, "sim1").await;
    let (far, _) = linked(&bed, "sim2").await;
    let report = json!({"type": "SlurmDrained", "status": "Unknown", "reason": "NoData", "message": "tried by hand"});
    let path = |device: &str| format!("/api/v1/devices/{device}/conditions");
    let said = send(&agent, Method::POST, &path(&device), &report).await;
    assert_eq!((said.status, said.body["message"].as_str()), (StatusCode::OK, Some("tried by hand")), "{}", said.body);
    assert_eq!(send(&agent, Method::POST, &path(&far), &report).await.status, StatusCode::NOT_FOUND);
    let patch = |body: Value| {
        let (agent, path) = (agent.clone(), format!("/api/v1/devices/{device}"));
        async move { send(&agent, Method::PATCH, &path, &body).await }
    };
    let section =
        json!({"scheduler": {"slurm_node": node, "state": ["DOWN", "down"], "cpus": 64, "reason": "tried by hand", "user": "root"}});
    let patched = patch(section).await;
    assert_eq!((patched.status, &patched.body["scheduler"]["state"]), (StatusCode::OK, &json!(["DOWN"])), "{}", patched.body);
    for (body, expected) in [
        (json!({"phase": "Ready"}), (403, "field-forbidden")),
        (json!({"annotations": {"a": "b"}}), (403, "field-forbidden")),
        (json!({"scheduler": {"slurm_node": "another"}}), (409, "identity-mismatch")),
        (json!({"scheduler": {"stat": []}}), (400, "invalid")),
        (json!({}), (400, "invalid")),
    ] {
        let answer = patch(body.clone()).await;
        assert_eq!(code(&answer), expected, "{body}: {}", answer.body);
    }
    // People annotate, and name the version that they saw.
    let path = format!("/api/v1/devices/{device}");
    let remark = json!({"annotations": {"ticket": "HW-12"}});
    assert_eq!(code(&send(&bed.api, Method::PATCH, &path, &remark).await), (428, "version-required"));
    let scheduler = send(&bed.api, Method::PATCH, &path, &json!({"scheduler": {"state": []}})).await;
    assert_eq!(code(&scheduler), (403, "field-forbidden"), "a person is no agent");
    let shown = bed.api.get(&format!("/devices/{device}")).await.unwrap();
    assert_eq!(shown["annotations"], json!({}), "{shown}");
    let version = format!("\"v{}\"", shown["version"]);
    let stale = [("if-match", "\"v1\"")];
    let answer = bed.api.send(Method::PATCH, &path, Some(remark.to_string().as_bytes()), &stale).await.unwrap();
    assert_eq!(code(&answer), (412, "version-conflict"));
    let answer = bed.api.send(Method::PATCH, &path, Some(remark.to_string().as_bytes()), &[("if-match", &version)]).await.unwrap();
    assert!(answer.status == StatusCode::OK || code(&answer) == (412, "version-conflict"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_codings() {
    let bed = bed().await;
    let agent = agent(&bed);
    let (device, _) = linked(&bed, "sim1").await;
    let item = json!({"device": device, "type": "SlurmSchedulable", "status": "True", "reason": "Idle"});
    let many: Vec<_> = (0..501).map(|_| item.clone()).collect();
    assert_eq!(code(&send(&agent, Method::POST, BATCH, &json!({"conditions": many})).await), (413, "too-many-items"));
    let pack = |text: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    };
    let packed =
        async |bytes: Vec<u8>, coding: &str| agent.send(Method::POST, BATCH, Some(&bytes), &[("content-encoding", coding)]).await.unwrap();
    let good = json!({"conditions": [item]}).to_string();
    assert_eq!(packed(pack(good.as_bytes()), "gzip").await.status, StatusCode::OK);
    assert_eq!(
        code(&packed(pack(&vec![b' '; 4 << 20]), "gzip").await),
        (413, "body-too-large"),
        "a small body that unpacks to a large one"
    );
    assert_eq!(code(&packed(good.into_bytes(), "gzip").await), (400, "invalid"));
    assert_eq!(code(&packed(vec![], "br").await), (415, "unknown-encoding"));
    let stranger = Api::with_token(&bed.hub.url, &bed.hub.token("nobody", "device-condition:create", &["sim1"]).unwrap()).unwrap();
    assert_eq!(send(&stranger, Method::POST, BATCH, &json!({})).await.status, StatusCode::FORBIDDEN, "the roster knows it for no source");
    let denied = bed.client("audit:read", &["*"]).get("/audit/denials").await.unwrap();
    assert!(denied["items"].as_array().unwrap().iter().any(|d| d["client"] == "nobody" && d["reason"] == "reach"), "{denied}");
}
