//! The API as a stranger meets it: what is refused, with which status, naming what.

use axum::response::IntoResponse;
use fleet_journal::Topics;
use fleet_log::{EventLog, Record, sqlite::SqliteLog};
use fleet_schemas::topics;
use fleet_tests::{Answer, Api, Running, crypto, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::io::Write;
use tempfile::TempDir;

pub(crate) struct Bed {
    _folder: TempDir,
    pub(crate) hub: Running,
    pub(crate) api: Api,
}

pub(crate) async fn bed() -> Bed {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=2,devices=24,people=false,pace=10"]).await.unwrap();
    let api = hub.api().await.unwrap();
    until("all devices", || async {
        let all = api.all("/devices").await.map_err(|e| e.to_string())?;
        let seen = all.iter().filter(|d| d["phase"] == "Discovered").count();
        if all.len() == 24 && seen > 20 { Ok(()) } else { Err(format!("{} devices, {seen} discovered", all.len())) }
    })
    .await;
    for site in ["sim1", "sim2"] {
        until("a baseline", || async {
            match api.baseline(site).await {
                Ok(n) if n > 5 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    Bed { _folder: folder, hub, api }
}

impl Bed {
    /// A client with these scopes and sites, by a token of the folder's own issuer.
    pub(crate) fn client(&self, scope: &str, sites: &[&str]) -> Api {
        Api::with_token(&self.hub.url, &self.hub.token("somebody", scope, sites).unwrap()).unwrap()
    }

    pub(crate) async fn in_service(&self) -> String {
        let list = self.api.get("/devices?filter=phase%20%3D%20InService&limit=1").await.unwrap();
        list["items"][0]["id"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn token(hub: &Running, scope: &str, sites: &[&str]) -> String {
    hub.token("somebody", scope, sites).unwrap()
}

pub(crate) async fn post(api: &Api, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
    api.send(Method::POST, &format!("/api/v1{path}"), Some(body.as_bytes()), headers).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_request_is_named_and_nothing_is_half_applied() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let before = bed.api.get(&format!("/devices/{id}")).await.unwrap()["version"].clone();
    let commands = format!("/devices/{id}/commands");
    let rows: &[(&str, u16, &str)] = &[
        ("", 400, "body"),
        ("{", 400, "body"),
        ("[]", 400, "body"),
        (r#"{"command":"drain","reason":"x"} trailing"#, 400, "body"),
        (r#"{"reason":"x"}"#, 400, "body"),
        (r#"{"command":"drain","reason":"x","colour":"red"}"#, 400, "colour"),
        (r#"{"command":"drain","reason":"x","params":7}"#, 400, "params"),
        (r#"{"command":"fly","reason":"x"}"#, 400, "command"),
        (r#"{"command":"drain","reason":"x","params":{"then":"moon"}}"#, 400, "params.then"),
        (r#"{"command":"drain","reason":"x","params":{"speed":"fast"}}"#, 400, "params.speed"),
        (r#"{"command":"drain","reason":""}"#, 400, "reason"),
        (r#"{"command":"drain","reason":"a\u0007b"}"#, 400, "reason"),
        (r#"{"command":"drain","reason":"x","not_after":"tomorrow"}"#, 400, "not_after"),
        (r#"{"command":"drain","reason":"x","not_after":"2001-01-01T00:00:00Z"}"#, 400, "not_after"),
    ];
    for (body, status, field) in rows {
        let answer = post(&bed.api, &commands, body, &[]).await;
        assert_eq!((answer.status.as_u16(), answer.body["field"].as_str()), (*status, Some(*field)), "{body}: {}", answer.body);
        assert_eq!((&answer.body["code"], &answer.body["type"]), (&json!("invalid"), &json!("/problems/invalid")));
    }
    let big = format!(r#"{{"command":"drain","reason":"{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(post(&bed.api, &commands, &big, &[]).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let fine = r#"{"command":"drain","reason":"x"}"#;
    for tag in ["v7", "\"v-1\"", "\"v9223372036854775808\""] {
        let answer = post(&bed.api, &commands, fine, &[("if-match", tag)]).await;
        assert_eq!((answer.status, &answer.body["field"]), (StatusCode::BAD_REQUEST, &json!("If-Match")), "{tag}");
    }
    assert_eq!(post(&bed.api, &commands, fine, &[("if-match", "\"v9999\"")]).await.status, StatusCode::PRECONDITION_FAILED);
    assert_eq!(bed.api.get(&format!("/devices/{id}")).await.unwrap()["version"], before, "nothing was applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_parameters_fields_and_cursors_are_refused_by_name() {
    let bed = bed().await;
    let rows = [
        ("/devices?colour=red", "colour"),
        ("/devices?limit=0", "limit"),
        ("/devices?limit=501", "limit"),
        ("/devices?limit=5&limit=6", "limit"),
        ("/devices?cursor=abc", "cursor"),
        ("/devices?filter=colour%20%3D%20red", "filter"),
        ("/devices?filter=name", "filter"),
        ("/devices?filter=phase%20%3D%20Nope", "filter"),
        ("/devices?filter=phase%20%3D%20inservice", "filter"),
        ("/devices?filter=owner%20%3D%20Nobody", "filter"),
        ("/devices?filter=site%20%3D%20%22No%20Site%22", "filter"),
        ("/devices?filter=name%20%3D%20%22a", "filter"),
        ("/conditions?filter=type%20%3D%20Nonsense", "filter"),
        ("/conditions?filter=type%20%3D%20SlurmMember%20AND%20status%20%3D%20Maybe", "filter"),
        ("/operations?state=nearly", "state"),
        ("/sites?x=1", "x"),
    ];
    for (path, field) in rows {
        let answer = bed.api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body["field"].as_str()), (400, Some(field)), "{path}: {}", answer.body);
    }
    let page = bed.api.get("/devices?limit=5").await.unwrap();
    let cursor = page["next_cursor"].as_str().unwrap();
    let other = bed.api.send(Method::GET, &format!("/api/v1/devices?filter=site%20%3D%20sim1&cursor={cursor}"), None, &[]).await.unwrap();
    assert_eq!(other.status, StatusCode::BAD_REQUEST, "a cursor is bound to its filter");
    let history = format!("/devices/{}/history", bed.in_service().await);
    let next = bed.api.get(&format!("{history}?limit=1")).await.unwrap()["next_cursor"].as_str().unwrap().to_owned();
    assert!(bed.api.get(&format!("{history}?limit=1&cursor={next}")).await.is_ok());
    // `["<id>",["` is 42 bytes, so 56 characters; then `x"]]`, `1","2"]]`, nothing.
    for rest in ["eCJdXQ", "MSIsIjIiXV0", ""] {
        let bad = bed.api.send(Method::GET, &format!("/api/v1{history}?cursor={}{rest}", &next[..56]), None, &[]).await.unwrap();
        assert_eq!((bad.status, &bad.body["field"]), (StatusCode::BAD_REQUEST, &json!("cursor")), "{rest}: {}", bad.body);
    }
    for path in ["/nowhere", "/devices/no-such-device", "/devices/6f0c2a55-7b1e-4c7e-9d0a-3f516b8e24d1", "/operations/x", "/sites/mars"] {
        let answer = bed.api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    let answer = bed.api.send(Method::GET, "/api/v1/devices/%FF", None, &[]).await.unwrap();
    assert_eq!((answer.status, &answer.body["field"]), (StatusCode::BAD_REQUEST, &json!("path")), "no UTF-8");
    let answer = bed.api.send(Method::DELETE, "/api/v1/devices", None, &[]).await.unwrap();
    assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_walk_every_device_once_in_order() {
    let bed = bed().await;
    for limit in [1, 5, 7, 24, 100] {
        let (mut names, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = bed.api.get(&format!("/devices?limit={limit}{cursor}")).await.unwrap();
            names.extend(page["items"].as_array().unwrap().iter().map(|d| (d["name"].as_str().unwrap().to_owned(), d["id"].to_string())));
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(names.len(), 24);
        assert!(names.windows(2).all(|w| w[0] < w[1]), "limit {limit}");
    }
    assert_eq!(bed.api.get("/devices?count=true&limit=1").await.unwrap()["total"], 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_a_repeat_harmless_and_an_answer_can_be_waited_for() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let path = format!("/devices/{id}/commands");
    let body = r#"{"command":"hold","reason":"x","params":{"name":"k"}}"#;
    let key = [("idempotency-key", "k-1")];
    let first = post(&bed.api, &path, body, &key).await;
    let again = post(&bed.api, &path, body, &key).await;
    assert_eq!((first.status, again.status), (StatusCode::OK, StatusCode::OK));
    assert_eq!(first.body["decision"], again.body["decision"]);
    assert_eq!((&first.body["repeated"], &again.body["repeated"]), (&json!(false), &json!(true)));
    let other = post(&bed.api, &path, r#"{"command":"unhold","reason":"x","params":{"name":"k"}}"#, &key).await;
    assert_eq!((other.status, other.body["code"].as_str()), (StatusCode::UNPROCESSABLE_ENTITY, Some("idempotency-key-reused")));
    let unhold = r#"{"command":"unhold","reason":"x","params":{"name":"k"}}"#;
    let bearer = bed.hub.token("somebody", "device-lifecycle:create", &["*"]).unwrap();
    let later = reqwest::Client::new().post(format!("{}/api/v1{path}", bed.hub.url)).bearer_auth(bearer);
    let later = later.header("prefer", "respond-async").body(unhold).send().await.unwrap();
    assert_eq!(later.status(), StatusCode::ACCEPTED);
    assert!(later.headers().contains_key("retry-after") && !later.headers().contains_key("fleet-consistency-token"), "{later:?}");
    let place = later.headers()["location"].to_str().unwrap();
    assert_eq!(bed.api.send(Method::GET, place, None, &[]).await.unwrap().body["id"], json!(id), "{place} is the device");
    let token = first.token.unwrap();
    let read = bed.api.send(Method::GET, &format!("/api/v1/devices/{id}"), None, &[("fleet-consistency-token", &token)]).await.unwrap();
    assert!(read.body["version"].as_u64() >= first.body["device"]["version"].as_u64());
    let far =
        bed.api.send(Method::GET, &format!("/api/v1/devices/{id}"), None, &[("fleet-consistency-token", "1:99999999")]).await.unwrap();
    assert_eq!((far.status, far.body["code"].as_str()), (StatusCode::SERVICE_UNAVAILABLE, Some("projection-lagging")));
    let bad = bed.api.send(Method::GET, &format!("/api/v1/devices/{id}"), None, &[("fleet-consistency-token", "soon")]).await.unwrap();
    assert_eq!(bad.status, StatusCode::BAD_REQUEST);
    let rehearsed = post(&bed.api, &path, r#"{"command":"drain","reason":"x","dry_run":true}"#, &[]).await;
    assert!(rehearsed.body["would"].as_str().unwrap().contains("PhaseChanged to Draining"), "{}", rehearsed.body);
    assert_eq!(bed.api.get(&format!("/devices/{id}")).await.unwrap()["lifecycle"]["phase"], "InService");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_scope_and_reaches_no_further_than_the_token() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let routes: &[(Method, String, &str)] = &[
        (Method::GET, "/devices".into(), "device:read"),
        (Method::GET, format!("/devices/{id}"), "device:read"),
        (Method::GET, format!("/devices/{id}/why"), "device:read"),
        (Method::GET, format!("/devices/{id}/history"), "device:read"),
        (Method::GET, format!("/devices/{id}/timeline"), "device:read"),
        (Method::GET, format!("/devices/{id}/conditions"), "device:read"),
        (Method::GET, "/conditions?filter=type%20%3D%20SlurmMember".into(), "device:read"),
        (Method::GET, "/operations".into(), "device:read"),
        (Method::GET, "/sites".into(), "device:read"),
        (Method::GET, "/sites/sim1".into(), "site:read"),
        (Method::GET, "/sites/sim1/baseline".into(), "site:read"),
        (Method::POST, "/sites/sim1/baseline".into(), "site:update"),
        (Method::POST, format!("/devices/{id}/commands"), "device-lifecycle:create"),
        (Method::GET, "/admin/parked".into(), "admin"),
        (Method::GET, "/admin/projections".into(), "admin"),
        (Method::POST, "/admin/projections/rebuild".into(), "admin"),
    ];
    let all = fleet_hub::access::SCOPES;
    for (method, path, scope) in routes {
        // Who writes devices may look at them.
        let implied = |s: &str| *scope == "device:read" && ["device:update", "device-condition:create"].contains(&s);
        let others: Vec<_> = all.iter().filter(|s| *s != scope && !implied(s)).copied().collect();
        let without =
            bed.client(&others.join(" "), &["*"]).send(method.clone(), &format!("/api/v1{path}"), Some(b"{}"), &[]).await.unwrap();
        assert_eq!((without.status, without.body["code"].as_str()), (StatusCode::FORBIDDEN, Some("scope-missing")), "{method} {path}");
        let with = bed.client(scope, &["*"]).send(method.clone(), &format!("/api/v1{path}"), Some(b"{}"), &[]).await.unwrap();
        assert!(with.status != StatusCode::FORBIDDEN && with.status != StatusCode::UNAUTHORIZED, "{method} {path}: {}", with.status);
        let elsewhere =
            bed.client(&all.join(" "), &["sim9"]).send(method.clone(), &format!("/api/v1{path}"), Some(b"{}"), &[]).await.unwrap();
        if path.contains(&id) || path.contains("sim1") {
            assert_eq!(
                elsewhere.status.as_u16(),
                if *method == Method::POST && path.contains("commands") { 400 } else { 404 },
                "{method} {path}"
            );
        }
    }
    let stranger = Api::with_token(&bed.hub.url, "nonsense").unwrap();
    assert_eq!(stranger.send(Method::GET, "/api/v1/devices", None, &[]).await.unwrap().status, StatusCode::UNAUTHORIZED);
    let elsewhere = bed.client("device:read device-lifecycle:create", &["sim2"]);
    let seen = elsewhere.all("/devices").await.unwrap();
    assert!(!seen.is_empty() && seen.iter().all(|d| d["site"] == "sim2"), "a list shows what the token reaches");
    let far = bed.api.get("/devices?filter=site%20%3D%20sim1&limit=1").await.unwrap()["items"][0]["id"].as_str().unwrap().to_owned();
    let refused = elsewhere.command(&far, "hold", json!({})).await.unwrap();
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assertion_counts_once_and_only_for_this_hub() {
    let bed = bed().await;
    let context: toml::Table = toml::from_str(&std::fs::read_to_string(bed.hub.context()).unwrap()).unwrap();
    let pem = std::fs::read(bed.hub.data.join(context["key"].as_str().unwrap())).unwrap();
    let now = jsonwebtoken::get_current_timestamp();
    let ask = async |claims: Value, typ: Option<&str>| {
        let header = jsonwebtoken::Header {
            kid: Some(context["kid"].as_str().unwrap().to_owned()),
            typ: typ.map(str::to_owned),
            ..jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256)
        };
        let key = jsonwebtoken::EncodingKey::from_ec_pem(&pem).unwrap();
        send(&bed.hub.url, &jsonwebtoken::encode(&header, &claims, &key).unwrap()).await
    };
    let claims = |aud: &str, exp: u64, jti: &str| json!({"iss": "user-operator", "sub": "user-operator", "aud": aud, "iat": now, "exp": exp, "jti": jti});
    let issuer = format!("{}/dev", bed.hub.url);
    assert_eq!(ask(claims(&issuer, now + 60, "a"), Some("client-authentication+jwt")).await.0, 200);
    let (code, body) = ask(claims(&issuer, now + 60, "a"), Some("JWT")).await;
    assert_eq!((code, body["error_description"].as_str()), (401, Some("this assertion was used before")));
    assert_eq!(ask(claims(&issuer, now + 60, "b"), None).await.0, 200);
    for (refused, typ) in [
        (claims("https://elsewhere", now + 60, "c"), None),
        (claims(&issuer, now + 3600, "d"), None),
        (claims(&issuer, now - 3600, "e"), None),
        (claims(&issuer, now + 60, "f"), Some("at+jwt")),
        (json!({"iss": "user-operator", "sub": "user-operator", "aud": issuer, "exp": now + 60, "nbf": "soon", "jti": "g"}), None),
        (json!({"iss": "user-other", "sub": "user-other", "aud": issuer, "exp": now + 60, "jti": "h"}), None),
    ] {
        let (code, body) = ask(refused.clone(), typ).await;
        assert_eq!((code, body["error"].as_str()), (401, Some("invalid_client")), "{refused}: {body}");
    }
}

async fn send(url: &str, assertion: &str) -> (u16, Value) {
    let answer = fleet_tests::ask_token(&reqwest::Client::new(), url, assertion).await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_open_and_says_how_it_is() {
    let bed = bed().await;
    let open = reqwest::Client::new();
    for path in
        ["/", "/livez", "/readyz", "/oauth/jwks", "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/dev"]
    {
        let answer = open.get(format!("{}{path}", bed.hub.url)).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
    }
    let ready: Value = open.get(format!("{}/readyz", bed.hub.url)).send().await.unwrap().json().await.unwrap();
    assert_eq!(ready["partitions"].as_array().unwrap().len(), 5);
    assert!(ready["partitions"].as_array().unwrap().iter().all(|p| p["phase"] == "leading"), "{ready}");
}

/// What cannot be decoded is set aside, shown, and stops nobody.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_nobody_can_decode_is_shown_as_parked() {
    crypto();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let sim = ["--sim", "sites=1,devices=5,people=false,pace=10"];
    let hub = Running::start(&data, &sim).await.unwrap();
    assert_eq!(hub.api().await.unwrap().get("/admin/parked").await.unwrap()["items"], json!([]));
    assert_eq!(hub.stop().await.unwrap(), Some(0));
    let log = SqliteLog::open(&data.join("log")).unwrap();
    let record = Record { key: "device/of-nobody".into(), value: "no avro at all".into() };
    let at = Topics::embedded().at(topics::COMMANDS, 3);
    let offset = log.bounds(at.clone()).await.unwrap().end;
    log.append(at, vec![record]).await.unwrap();
    drop(log);
    let hub = Running::start(&data, &sim).await.unwrap();
    let api = hub.api().await.unwrap();
    let parked = until("the parked command", || async {
        let items = api.get("/admin/parked").await.map_err(|e| e.to_string())?["items"].take();
        if items.as_array().is_some_and(|i| i.len() == 1) { Ok(items[0].clone()) } else { Err(items.to_string()) }
    })
    .await;
    let at = (&parked["topic"], &parked["partition"], &parked["offset"], &parked["bytes"]);
    assert_eq!(at, (&json!("fm.commands.v1"), &json!(3), &json!(offset), &json!(14)), "{parked}");
    assert!(parked["why"].as_str().unwrap().contains("not an Avro single object"), "{parked}");
    assert_eq!(api.all("/devices").await.unwrap().len(), 5, "and the devices are there as before");
}

#[test]
fn a_refusal_has_its_documented_status() {
    let rows = [("too-large", 500, None), ("too-many-commands", 429, Some("3600")), ("invalid", 400, None), ("phase-forbids", 409, None)];
    for (code, status, retry_after) in rows {
        let outcome = fleet_schemas::Outcome { code: code.into(), ..fleet_schemas::Outcome::accepted() };
        let response = fleet_hub::Problem::refused(&outcome).into_response();
        assert_eq!(response.status().as_u16(), status, "{code}");
        assert_eq!(response.headers().get("retry-after").map(|v| v.to_str().unwrap()), retry_after, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn freshness_says_since_when_and_claims_no_more() {
    let bed = bed().await;
    let list = bed.api.get("/devices?limit=1").await.unwrap();
    let sites = bed.api.get("/sites").await.unwrap();
    let of_lists = list["meta"]["sources"].as_array().unwrap().iter();
    let of_sites = sites["items"].as_array().unwrap().iter().flat_map(|s| s["sources"].as_array().unwrap());
    for source in of_lists.chain(of_sites) {
        assert_eq!((&source["fresh"], source["since"].is_string()), (&json!(true), true), "{source}");
        assert!(source.as_object().unwrap().keys().all(|k| !k.starts_with("last_")), "{source}");
    }
}

/// A confirmation is done whole although its caller left, and a repeat with the same key is the same confirmation.
#[tokio::test(flavor = "multi_thread")]
async fn a_baseline_is_never_half_applied() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=1,devices=600,people=false"]).await.unwrap();
    let api = hub.api().await.unwrap();
    let proposed = async || {
        let preview = api.get("/sites/sim1/baseline").await.unwrap();
        let items = preview["items"].as_array().unwrap().iter().filter(|i| i["phase"].is_string());
        items.map(|i| json!({"id": i["id"], "phase": i["phase"]})).collect::<Vec<_>>()
    };
    let devices = until("the proposals", || async { Some(proposed().await).filter(|d| d.len() > 400).ok_or("too few") }).await;
    let body = json!({"devices": devices, "reason": "test"}).to_string();
    let (bearer, host, length) = (hub.token("somebody", "site:update", &["*"]).unwrap(), &hub.url["http://".len()..], body.len());
    let head = format!("POST /api/v1/sites/sim1/baseline HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {bearer}\r\n");
    let mut caller = std::net::TcpStream::connect(host).unwrap();
    write!(caller, "{head}idempotency-key: k\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let some = "/devices?filter=phase%20%3D%20InService&limit=1";
    until("the first", || async { if api.get(some).await.unwrap()["items"] == json!([]) { Err(()) } else { Ok(()) } }).await;
    drop(caller);
    let left = async || proposed().await.into_iter().filter(|d| devices.contains(d)).count();
    until("all others", || async { Some(left().await).filter(|n| *n == 0).ok_or("some are left") }).await;
    let (caller, key) = (Api::with_token(&hub.url, &bearer).unwrap(), [("idempotency-key", "k")]);
    let again = post(&caller, "/sites/sim1/baseline", &body, &key).await;
    assert_eq!((&again.body["accepted"], &again.body["pending"]), (&json!(devices.len()), &json!(0)), "{}", again.body);
    let other = post(&caller, "/sites/sim1/baseline", &body.replace("\"test\"", "\"other\""), &key).await;
    assert_eq!((&other.body["refused"], &other.body["items"][0]["code"]), (&json!(devices.len()), &json!("idempotency-key-reused")));
}
