//! Points in time: a device as it was believed then.

use crate::api::bed;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

fn encoded(time: &Value) -> String {
    fleet_tests::encoded(time.as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_shown_as_it_was_at_a_version_and_an_instant() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let mut shown = vec![bed.api.get(&format!("/devices/{id}")).await.unwrap()];
    for (verb, params) in [("hold", json!({"name": "a"})), ("drain", json!({})), ("unhold", json!({"name": "a"}))] {
        let done = bed.api.command(&id, verb, params).await.unwrap();
        assert_eq!(done.status, StatusCode::OK, "{}", done.body);
        shown.push(bed.api.get(&format!("/devices/{id}?version={}", done.body["device"]["version"])).await.unwrap());
    }
    // What was decided in between by what agents saw has versions of its own; each reads the same for ever.
    for before in &shown[1..] {
        let again = bed.api.get(&format!("/devices/{id}?version={}", before["version"])).await.unwrap();
        assert_eq!(&again, before);
        let at = encoded(&before["updated_at"]);
        let then = bed.api.get(&format!("/devices/{id}?at={at}")).await.unwrap();
        assert_eq!((&then["version"], &then["hash"], &then["lifecycle"]), (&before["version"], &before["hash"], &before["lifecycle"]));
        assert_eq!(then["at"], before["updated_at"]);
        let conditions = bed.api.get(&format!("/devices/{id}/conditions?at={at}")).await.unwrap();
        assert_eq!(conditions["items"].as_array().unwrap().len(), then["conditions"].as_array().unwrap().len());
        assert_eq!(conditions["at"], then["at"]);
    }
    let holds = |v: &Value| v["lifecycle"]["holds"].as_array().unwrap().len();
    assert_eq!(shown.iter().map(holds).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!((&shown[1]["lifecycle"]["phase"], &shown[2]["lifecycle"]["phase"]), (&json!("InService"), &json!("Draining")));
    let now = bed.api.get(&format!("/devices/{id}")).await.unwrap();
    let same = bed.api.get(&format!("/devices/{id}?version={}", now["version"])).await.unwrap();
    assert_eq!((&same["hash"], &same["scheduler"], &same["plans"]), (&now["hash"], &now["scheduler"], &now["plans"]));
    assert!(now["at"].is_null());
    // Its first decision: there is a device, without what came later.
    let first = bed.api.get(&format!("/devices/{id}?version=1")).await.unwrap();
    assert_eq!((&first["version"], holds(&first)), (&json!(1), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_that_is_none_is_named() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let rows = [
        ("at=yesterday", 400, "at"),
        ("at=2990-01-01T00:00:00Z", 400, "at"),
        ("version=-1", 400, "version"),
        ("version=1&at=2001-01-01T00:00:00Z", 400, "version"),
        ("version=999999", 404, "version"),
    ];
    for (query, status, field) in rows {
        let answer = bed.api.send(Method::GET, &format!("/api/v1/devices/{id}?{query}"), None, &[]).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body["field"].as_str()), (status, Some(field)), "{query}: {}", answer.body);
    }
    for path in [format!("{id}?at=2001-01-01T00:00:00Z"), format!("{id}?version=0"), format!("{id}/conditions?at=2001-01-01T00:00:00Z")] {
        let answer = bed.api.send(Method::GET, &format!("/api/v1/devices/{path}"), None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}: {}", answer.body);
        assert!(answer.body["detail"].as_str().unwrap().contains("its first decision is of"), "{}", answer.body);
    }
    let far = bed.client("device:read", &["sim9"]);
    let answer = far.send(Method::GET, &format!("/api/v1/devices/{id}?version=1"), None, &[]).await.unwrap();
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "reach holds for the past too");
}
