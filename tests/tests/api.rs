//! The API as a stranger meets it: what is refused, with which status, naming what.

use fleet_hub::access::Issuer;
use fleet_journal::Topics;
use fleet_log::{EventLog, Record, sqlite::SqliteLog};
use fleet_schemas::topics;
use fleet_tests::{Answer, Api, Running, crypto, until};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

struct Bed {
    _folder: TempDir,
    hub: Running,
    api: Api,
}

async fn bed() -> Bed {
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
    fn client(&self, scope: &str, sites: &[&str]) -> Api {
        let key: Value = serde_json::from_str(&std::fs::read_to_string(self.hub.data.join("keys/issuer.json")).unwrap()).unwrap();
        let issuer =
            Issuer::new(&format!("{}/dev", self.hub.url), key["private_pem"].as_str().unwrap(), key["public_jwk"].clone()).unwrap();
        let sites: Vec<_> = sites.iter().map(|s| (*s).to_owned()).collect();
        Api::with_token(&self.hub.url, &issuer.issue("somebody", scope, &sites).unwrap()).unwrap()
    }

    async fn in_service(&self) -> String {
        let list = self.api.get("/devices?filter=phase%20%3D%20InService&limit=1").await.unwrap();
        list["items"][0]["id"].as_str().unwrap().to_owned()
    }
}

async fn post(api: &Api, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
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
        assert_eq!(answer.body["code"], "invalid");
    }
    let big = format!(r#"{{"command":"drain","reason":"{}"}}"#, "x".repeat(2 << 20));
    assert_eq!(post(&bed.api, &commands, &big, &[]).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let fine = r#"{"command":"drain","reason":"x"}"#;
    assert_eq!(post(&bed.api, &commands, fine, &[("if-match", "v7")]).await.body["field"], "If-Match");
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
        ("/devices?filter=name%20%3D%20a%20OR%20name%20%3D%20b", "filter"),
        ("/devices?filter=name", "filter"),
        ("/conditions", "filter"),
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
    for path in ["/nowhere", "/devices/no-such-device", "/devices/6f0c2a55-7b1e-4c7e-9d0a-3f516b8e24d1", "/operations/x", "/sites/mars"] {
        let answer = bed.api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
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
    let later = post(&bed.api, &path, r#"{"command":"unhold","reason":"x","params":{"name":"k"}}"#, &[("prefer", "respond-async")]).await;
    assert!(matches!(later.status, StatusCode::ACCEPTED | StatusCode::OK), "{}", later.body);
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
        let others: Vec<_> = all.iter().filter(|s| *s != scope).copied().collect();
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
    let form = [
        ("grant_type", "client_credentials"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", assertion),
    ];
    let answer = reqwest::Client::new().post(format!("{url}/oauth/token")).form(&form).send().await.unwrap();
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
    log.append(Topics::embedded().at(topics::COMMANDS, 3), vec![record]).await.unwrap();
    drop(log);
    let hub = Running::start(&data, &sim).await.unwrap();
    let api = hub.api().await.unwrap();
    let parked = until("the parked command", || async {
        let items = api.get("/admin/parked").await.map_err(|e| e.to_string())?["items"].take();
        if items.as_array().is_some_and(|i| i.len() == 1) { Ok(items[0].clone()) } else { Err(items.to_string()) }
    })
    .await;
    let at = (&parked["topic"], &parked["partition"], &parked["offset"], &parked["bytes"]);
    assert_eq!(at, (&json!("fm.commands.v1"), &json!(3), &json!(0), &json!(14)), "{parked}");
    assert!(parked["why"].as_str().unwrap().contains("not an Avro single object"), "{parked}");
    assert_eq!(api.all("/devices").await.unwrap().len(), 5, "and the devices are there as before");
}
