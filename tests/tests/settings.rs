//! What a site is set to: owners, modes, role profiles, freezes, types of conditions.

use crate::api::{Bed, bed};
use fleet_tests::{Answer, Api, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

async fn ask(api: &Api, method: Method, path: &str, body: &Value, headers: &[(&str, &str)]) -> Answer {
    let body = if body.is_null() { None } else { Some(body.to_string()) };
    api.send(method, &format!("/api/v1{path}"), body.as_ref().map(|b| b.as_bytes()), headers).await.unwrap()
}

async fn refused(bed: &Bed, method: Method, path: &str, body: Value, status: u16, code: &str) {
    let answer = ask(&bed.api, method.clone(), path, &body, &[]).await;
    assert_eq!((answer.status.as_u16(), answer.body["code"].as_str()), (status, Some(code)), "{method} {path} {body}: {}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_patched_and_shown_and_modes_only_observe() {
    let bed = bed().await;
    let owners = json!({"owners": {"sources": {"slurm": "hpc"}, "roles": {"gpu": "hall", "x": "y"}}});
    let done = ask(&bed.api, Method::PATCH, "/sites/sim1?reason=new+teams", &owners, &[]).await;
    assert_eq!((done.status, &done.body["owners"]), (StatusCode::OK, &owners["owners"]), "{}", done.body);
    let gone = ask(&bed.api, Method::PATCH, "/sites/sim1", &json!({"owners": {"roles": {"x": null}}}), &[]).await;
    assert_eq!(gone.body["owners"], json!({"sources": {"slurm": "hpc"}, "roles": {"gpu": "hall"}}));
    let read = bed.api.get("/sites/sim1").await.unwrap();
    assert_eq!((&read["owners"], &read["version"]), (&gone.body["owners"], &gone.body["version"]));
    let same = ask(&bed.api, Method::PATCH, "/sites/sim1", &json!({"modes": {"slurm": "observe"}}), &[]).await;
    assert_eq!((same.status, &same.body["modes"]["slurm"]), (StatusCode::OK, &json!("observe")));
    let rehearsed = ask(&bed.api, Method::PATCH, "/sites/sim1?dry_run=true", &json!({"owners": {"roles": {"gpu": "z"}}}), &[]).await;
    assert_eq!((&rehearsed.body["dry_run"], rehearsed.body["would"].is_string()), (&json!(true), true), "{}", rehearsed.body);
    assert_eq!(bed.api.get("/sites/sim1").await.unwrap()["owners"], gone.body["owners"]);
    for (body, code, status) in [
        (json!({"modes": {"slurm": "act"}}), "not-available", 409),
        (json!({"modes": {"slurm": "fly"}}), "invalid", 400),
        (json!({"modes": {"ironic": "observe"}}), "invalid", 400),
        (json!({"owners": {"roles": {"gpu": ""}}}), "invalid", 400),
        (json!({"breaker": 1}), "invalid", 400),
        (json!([]), "invalid", 400),
    ] {
        refused(&bed, Method::PATCH, "/sites/sim1", body, status, code).await;
    }
    refused(&bed, Method::PATCH, "/sites/mars", json!({}), 404, "not-found").await;
    let stale = ask(&bed.api, Method::PATCH, "/sites/sim1", &owners, &[("if-match", "\"v1\"")]).await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED);
    let auditor = bed.client("audit:read", &["*"]);
    for (scope, path) in [("site:update", "/sites/sim1"), ("slurm-bootstrap-config:update", "/sites/sim1/slurm-bootstrap-configs/gpu-node")]
    {
        let far = ask(&bed.client(scope, &["sim2"]), Method::PATCH, path, &owners, &[]).await;
        assert_eq!((far.status, &far.body["code"]), (StatusCode::FORBIDDEN, &json!("out-of-reach")), "{path}");
        // Auditors read of it.
        until("the denial", || async {
            let denials = auditor.get("/audit/denials").await.map_err(|e| e.to_string())?;
            let kept =
                |d: &Value| d["reason"] == "reach" && d["method"] == "PATCH" && d["path"].as_str().is_some_and(|p| p.ends_with(path));
            if denials["items"].as_array().is_some_and(|all| all.iter().any(kept)) { Ok(()) } else { Err(denials.to_string()) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_profile_is_read_and_patched() {
    let bed = bed().await;
    let all = bed.api.get("/sites/sim1/role-profiles/").await.unwrap();
    let role = all["items"][0]["role"].as_str().unwrap().to_owned();
    let path = format!("/sites/sim1/role-profiles/{role}/");
    let before = bed.api.get(&path).await.unwrap();
    assert_eq!((&before, &bed.api.get(path.trim_end_matches('/')).await.unwrap()), (&all["items"][0], &before));
    let done = ask(&bed.api, Method::PATCH, &path, &json!({"dhcp": "kea"}), &[]).await;
    assert_eq!((done.status, &done.body["dhcp"], &done.body["scheduler"]), (StatusCode::OK, &json!("kea"), &before["scheduler"]));
    assert_eq!(bed.api.get("/sites/sim1").await.unwrap()["role_profiles"][&role]["dhcp"], "kea");
    refused(&bed, Method::PATCH, &path, json!({"burn_in": "soak@1"}), 409, "not-available").await;
    refused(&bed, Method::PATCH, &path, json!({"dhcp": "dnsmasq"}), 400, "invalid").await;
    refused(&bed, Method::PATCH, "/sites/sim1/role-profiles/bad%20role/", json!({}), 400, "invalid").await;
    let new = ask(&bed.api, Method::PATCH, "/sites/sim1/role-profiles/login/", &json!({"scheduler": "none"}), &[]).await;
    assert_eq!((new.status, &new.body["guard"]), (StatusCode::BAD_REQUEST, &json!("provisioner")), "a new one is whole");
    // A repeat is answered as the first was, whatever came in between.
    let key: &[(&str, &str)] = &[("idempotency-key", "once")];
    let first = ask(&bed.api, Method::PATCH, &path, &json!({"dhcp": "none"}), key).await;
    let other = ask(&bed.api, Method::PATCH, &path, &json!({"dhcp": "kea", "workload_proofs": []}), &[]).await;
    let again = ask(&bed.api, Method::PATCH, &path, &json!({"dhcp": "none"}), key).await;
    assert_eq!((first.status, other.status, again.status), (StatusCode::OK, StatusCode::OK, StatusCode::OK), "{}", again.body);
    assert_eq!(first.token, again.token, "the stored answer");
    assert_eq!(bed.api.get(&path).await.unwrap()["dhcp"], "kea", "and nothing is done twice");
    let reused = ask(&bed.api, Method::PATCH, &path, &json!({"dhcp": "kea"}), key).await;
    assert_eq!(reused.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", reused.body);
    let whole = json!({"provisioner": "external", "scheduler": "none", "dhcp": "none", "bom": "none"});
    let made = ask(&bed.api, Method::PATCH, "/sites/sim1/role-profiles/login", &whole, &[]).await;
    assert_eq!((made.status, &made.body["role"], &made.body["bom"]), (StatusCode::OK, &json!("login"), &json!("none")), "{}", made.body);
    refused(&bed, Method::GET, "/sites/sim1/role-profiles/nobody/", Value::Null, 404, "not-found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_freeze_keeps_a_site_still_until_it_is_lifted() {
    let bed = bed().await;
    let ready = bed.api.get("/devices?filter=phase%20%3D%20InService%20AND%20site%20%3D%20sim1&limit=1").await.unwrap();
    let id = ready["items"][0]["id"].as_str().unwrap().to_owned();
    let made = ask(&bed.api, Method::POST, "/sites/sim1/freezes/", &json!({"name": "move", "reason": "the hall moves"}), &[]).await;
    assert_eq!((made.status, &made.body["reason"]), (StatusCode::CREATED, &json!("the hall moves")), "{}", made.body);
    assert_eq!(bed.api.get("/sites/sim1/freezes").await.unwrap()["items"][0]["name"], "move");
    // The safe side is open; the way back is not.
    assert_eq!(bed.api.command(&id, "drain", json!({})).await.unwrap().status, StatusCode::OK);
    let frozen = until("the freeze in the guards", || async {
        let answer = bed.api.command(&id, "resume", json!({})).await.map_err(|e| e.to_string())?;
        if answer.body["code"] == "site-frozen" { Ok(answer) } else { Err(answer.body.to_string()) }
    })
    .await;
    assert!(frozen.body["seen"].as_str().unwrap().contains("freeze `move` of sim1"), "{}", frozen.body);
    let why = bed.api.get(&format!("/devices/{id}/why")).await.unwrap();
    assert!(why["waiting_for"].to_string().contains("freeze `move`"), "{why}");
    let lifted = ask(&bed.api, Method::DELETE, "/sites/sim1/freezes/move/?reason=moved", &Value::Null, &[]).await;
    assert_eq!((lifted.status, &lifted.body["items"]), (StatusCode::OK, &json!([])), "{}", lifted.body);
    until("the thaw in the guards", || async {
        let answer = bed.api.command(&id, "resume", json!({})).await.map_err(|e| e.to_string())?;
        if answer.body["code"] == "site-frozen" { Err(answer.body.to_string()) } else { Ok(()) }
    })
    .await;
    refused(&bed, Method::DELETE, "/sites/sim1/freezes/move/", Value::Null, 409, "no-such-freeze").await;
    for body in [json!({"name": "a"}), json!({"name": "a/b", "reason": "x"}), json!({"name": "a", "reason": "x", "until": "soon"})] {
        refused(&bed, Method::POST, "/sites/sim1/freezes", body, 400, "invalid").await;
    }
    // One with an end ends by itself.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as i64;
    let soon = fleet_schemas::Timestamp(now + 1_500_000).to_string();
    let made = ask(&bed.api, Method::POST, "/sites/sim2/freezes/", &json!({"name": "short", "reason": "x", "until": soon}), &[]).await;
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    until("its end", || async {
        let standing = bed.api.get("/sites/sim2/freezes").await.map_err(|e| e.to_string())?;
        if standing["items"] == json!([]) { Ok(()) } else { Err(standing.to_string()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_registers_types_of_its_own() {
    let bed = bed().await;
    let leak = json!({"name": "CoolantLeak", "sense": "problem", "effects": ["PreventAllocation"], "severity": "critical",
        "ttl_seconds": 600, "writers": ["leak-detector"], "about": "coolant where none should be"});
    let made = ask(&bed.api, Method::POST, "/sites/sim1/type-registry/", &leak, &[]).await;
    assert_eq!(
        (made.status, &made.body["built_in"], &made.body["writers"]),
        (StatusCode::CREATED, &json!(false), &leak["writers"]),
        "{}",
        made.body
    );
    let names = async |site: &str| {
        let list = bed.api.get(&format!("/sites/{site}/type-registry")).await.unwrap();
        list["items"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(names("sim1").await.contains(&"CoolantLeak".to_owned()) && names("sim1").await.contains(&"SlurmMember".to_owned()));
    assert!(!names("sim2").await.contains(&"CoolantLeak".to_owned()), "it counts at its site alone");
    // Where a filter names it, it is a type.
    until("the type in filters", || async { bed.api.get("/conditions?filter=type%20%3D%20CoolantLeak").await }).await;
    let edit = |field: &str, value: Value| {
        let mut body = leak.clone();
        body[field] = value;
        body
    };
    for (body, status, code) in [
        (edit("name", json!("SlurmMember")), 409, "type-exists"),
        (edit("sense", json!("fact")), 400, "invalid"),
        (edit("effects", json!(["Fatal"])), 409, "not-available"),
        (edit("effects", json!(["Explode"])), 400, "invalid"),
        (edit("ttl_seconds", json!(1)), 400, "invalid"),
        (edit("writers", json!([])), 400, "invalid"),
        (edit("colour", json!("red")), 400, "invalid"),
    ] {
        refused(&bed, Method::POST, "/sites/sim1/type-registry", body, status, code).await;
    }
}
