//! What waits for a person, and what a token may do.

use crate::api::{bed, post};
use fleet_tests::until;
use reqwest::{Method, StatusCode};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_person_is_listed_and_acknowledged() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let list = async || bed.api.get("/attention").await.unwrap()["items"].as_array().unwrap().clone();
    assert_eq!(list().await.len(), 0);
    // A device that is not in service goes into maintenance at once; its announced end passes.
    let rest = bed.api.get("/devices?filter=phase%20%3D%20Discovered&limit=50").await.unwrap();
    let soon = fleet_schemas::Timestamp(
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64 + 2_000_000,
    );
    let mut device = None;
    for d in rest["items"].as_array().unwrap() {
        let name = d["id"].as_str().unwrap();
        let asked = bed.api.command(name, "maintain", json!({"until": soon.to_string()})).await.unwrap();
        if asked.status == StatusCode::OK {
            device = Some(name.to_owned());
            break;
        }
    }
    let device = device.unwrap_or(id);
    let item = until("the item", || async { list().await.into_iter().find(|i| i["device"] == device.as_str()).ok_or("none") }).await;
    assert_eq!((&item["item"], &item["owner"], &item["acknowledged"]), (&json!("maintenance"), &json!("operator"), &json!(null)), "{item}");
    assert!(item["why"].as_str().unwrap().contains("announced end") && item["ways_out"] == json!(["end-maintenance"]), "{item}");
    let item_id = item["id"].as_str().unwrap();
    assert_eq!(item_id, format!("{device}:maintenance"));
    let typed = async |args: &[&str]| String::from_utf8(bed.hub.fmctl(args).await.unwrap().stdout).unwrap();
    let row = typed(&["get", "attention", "--filter", "item = maintenance", "-o", "wide", "--no-headers"]).await;
    assert!(row.contains("end-maintenance") && row.trim_end().ends_with(item_id), "{row}");
    let path = format!("/attention/{item_id}/acknowledge");
    for (body, field) in [("{}", "body"), (r#"{"reason":""}"#, "reason"), (r#"{"reason":"x","by":"me"}"#, "by")] {
        let refused = post(&bed.api, &path, body, &[]).await;
        assert_eq!((refused.status, &refused.body["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{body}");
    }
    let done = post(&bed.api, &path, r#"{"reason":"parts are on order"}"#, &[("idempotency-key", "k")]).await;
    assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    let again = post(&bed.api, &path, r#"{"reason":"parts are on order"}"#, &[("idempotency-key", "k")]).await;
    assert_eq!((&again.body["repeated"], &again.body["decision"]), (&json!(true), &done.body["decision"]));
    let read = [("fleet-consistency-token", done.token.as_deref().unwrap())];
    let seen = bed.api.send(Method::GET, "/api/v1/attention?filter=acknowledged_by%3A*&count=true", None, &read).await.unwrap().body;
    assert_eq!((&seen["items"][0]["id"], &seen["total"]), (&json!(item_id), &json!(1)), "{seen}");
    assert_eq!(seen["items"][0]["acknowledged"]["reason"], "parts are on order");
    assert_eq!(bed.api.get("/attention?filter=NOT%20acknowledged_by%3A*").await.unwrap()["items"], json!([]));
    let shown = bed.api.get(&format!("/devices/{device}")).await.unwrap();
    assert_eq!(shown["lifecycle"]["attention"][0]["acknowledged"]["by"], seen["items"][0]["acknowledged"]["by"]);
    // Nobody else's, and nothing that is not there.
    let far = bed.client("device:read device-lifecycle:create", &["sim9"]);
    assert_eq!(far.get("/attention").await.unwrap()["items"], json!([]));
    assert_eq!(post(&far, &path, r#"{"reason":"x"}"#, &[]).await.status, StatusCode::NOT_FOUND);
    let none = post(&bed.api, &format!("/attention/{device}:drain/acknowledge"), r#"{"reason":"x"}"#, &[]).await;
    assert_eq!((none.status, &none.body["code"]), (StatusCode::CONFLICT, &json!("no-such-attention")));
    assert_eq!(post(&bed.api, "/attention/x/acknowledge", r#"{"reason":"x"}"#, &[]).await.status, StatusCode::NOT_FOUND);
    assert!(typed(&["acknowledge", item_id, "--reason", "they came"]).await.contains(item_id));
    // It goes with what it asks for.
    assert_eq!(bed.api.command(&device, "end-maintenance", json!({})).await.unwrap().status, StatusCode::OK);
    until("its end", || async { if list().await.is_empty() { Ok(()) } else { Err("it stands") } }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_tells_what_it_may_do() {
    let bed = bed().await;
    let some = bed.client("device:read site:read", &["sim1"]);
    let me = some.get("/whoami").await.unwrap();
    let grant = json!({"scopes": ["device:read", "site:read"], "sites": ["sim1"]});
    let expected =
        json!({"subject": "somebody", "client": "somebody", "scopes": grant["scopes"], "sites": grant["sites"], "grants": [grant]});
    assert_eq!(me, expected);
    let rows = [
        ("scope=device%3Aread", true),
        ("scope=device%3Aread&site=sim1", true),
        ("scope=device%3Aread&site=sim2", false),
        ("scope=device%3Aread&site=sim9", false),
        ("scope=admin", false),
        ("scope=site%3Aupdate&site=sim1", false),
    ];
    for (query, allowed) in rows {
        let answer = some.get(&format!("/can-i?{query}")).await.unwrap();
        assert_eq!(answer["allowed"], allowed, "{query}: {answer}");
    }
    let everywhere = bed.client("device:read", &["*"]);
    assert_eq!(everywhere.get("/can-i?scope=device%3Aread&site=sim9").await.unwrap()["because"], "there is no such site");
    for (query, field) in [("", "scope"), ("scope=fly", "scope"), ("scope=admin&site=No%20Site", "site"), ("scope=admin&x=1", "x")] {
        let answer = some.send(Method::GET, &format!("/api/v1/can-i?{query}"), None, &[]).await.unwrap();
        assert_eq!((answer.status, &answer.body["field"]), (StatusCode::BAD_REQUEST, &json!(field)), "{query}");
    }
    // A token without any scope is a token; no token is none.
    assert_eq!(bed.client("", &[]).get("/whoami").await.unwrap()["scopes"], json!([]));
    let none = fleet_tests::Api::with_token(&bed.hub.url, "nonsense").unwrap();
    for path in ["whoami", "can-i?scope=admin"] {
        let answer = none.send(Method::GET, &format!("/api/v1/{path}"), None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{path}");
    }
}
