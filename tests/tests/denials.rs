//! What a site's SLURM agent may not do, and that all of it stands in the list of denials (field report 17); so does what people try
//! at sites that are not theirs.

use crate::api::{Bed, bed};
use fleet_tests::{Api, until};
use reqwest::Method;
use serde_json::{Value, json};

/// Method, path, body; status and code of the answer; the denial's reason.
type Row = (Method, String, Value, u16, &'static str, &'static str);

async fn at(bed: &Bed, site: &str) -> String {
    let list = bed.api.get(&format!("/devices?filter=site%20%3D%20{site}%20AND%20slurm_node:*&limit=1")).await.unwrap();
    list["items"][0]["id"].as_str().unwrap().to_owned()
}

async fn refused_and_recorded(bed: &Bed, client: &str, api: &Api, rows: Vec<Row>) {
    let auditor = bed.client("audit:read", &["*"]);
    for (method, path, body, status, code, reason) in rows {
        let sent = api.send(method.clone(), &format!("/api/v1{path}"), Some(body.to_string().as_bytes()), &[]).await.unwrap();
        assert_eq!((sent.status.as_u16(), sent.body["code"].as_str()), (status, Some(code)), "{method} {path}: {}", sent.body);
        let want = json!([client, reason, method.as_str(), path]);
        until("the denial", || async {
            let list = auditor.get("/audit/denials?limit=500").await.map_err(|e| e.to_string())?;
            let row = |d: &Value| json!([d["client"], d["reason"], d["method"], d["path"]]);
            let seen: Vec<_> = list["items"].as_array().into_iter().flatten().map(row).collect();
            if seen.contains(&want) { Ok(()) } else { Err(format!("{want} is not in {seen:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_may_not_do_is_refused_and_every_refusal_is_in_the_list() {
    let bed = bed().await;
    let (own, far) = (at(&bed, "sim1").await, at(&bed, "sim2").await);
    let client = "slurm-agent-sim1";
    let token = bed.hub.token(client, "device:update device-condition:create", &["sim1"]).unwrap();
    let agent = Api::with_token(&bed.hub.url, &token).unwrap();
    let condition = |name: &str| json!({"type": name, "status": "True", "reason": "Tried"});
    let of = |device: &str, rest: &str| format!("/devices/{device}{rest}");
    let rows = vec![
        (Method::POST, of(&own, "/commands"), json!({"command": "drain", "reason": "x"}), 403, "scope-missing", "scope"),
        (Method::PATCH, of(&own, ""), json!({"phase": "Ready"}), 403, "field-forbidden", "field"),
        (Method::POST, of(&own, "/conditions"), condition("InventoryMatched"), 403, "type-not-granted", "type"),
        (Method::PATCH, of(&far, ""), json!({"scheduler": {"state": ["IDLE"]}}), 404, "not-found", "reach"),
        (Method::POST, of(&far, "/conditions"), condition("SlurmMember"), 404, "not-found", "reach"),
        (Method::PATCH, "/sites/sim2/devices:batch".into(), json!({}), 403, "out-of-reach", "reach"),
        (Method::POST, "/sites/sim2/conditions:batch".into(), json!({}), 403, "out-of-reach", "reach"),
        (Method::POST, "/sites/sim1/conditions:batch".into(), json!({"run": {"epoch": 0}}), 409, "superseded", "epoch"),
        (Method::PATCH, "/sites/sim1/devices:batch".into(), json!({"run": {"epoch": 0}}), 409, "superseded", "epoch"),
    ];
    refused_and_recorded(&bed, client, &agent, rows).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_try_at_other_sites_is_in_the_list_of_denials() {
    let bed = bed().await;
    let far = at(&bed, "sim2").await;
    let scopes = "device-lifecycle:create device:update site:update slurm-bootstrap-config:create";
    let person = bed.client(scopes, &["sim1"]);
    let rows = vec![
        (Method::POST, format!("/devices/{far}/commands"), json!({"command": "drain", "reason": "x"}), 404, "not-found", "reach"),
        (Method::PATCH, format!("/devices/{far}"), json!({"annotations": {"a": "b"}}), 404, "not-found", "reach"),
        (Method::POST, format!("/attention/{far}:x/acknowledge"), json!({"reason": "x"}), 404, "not-found", "reach"),
        (Method::PATCH, "/sites/sim2".into(), json!({}), 403, "out-of-reach", "reach"),
        (Method::POST, "/sites/sim2/slurm-bootstrap-configs/".into(), json!({"device_role": "a"}), 403, "out-of-reach", "reach"),
    ];
    refused_and_recorded(&bed, "somebody", &person, rows).await;
}
