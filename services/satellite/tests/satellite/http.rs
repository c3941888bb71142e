//! What any answer may do to us: redirect, be endless, repeat our secret; and recorded answers through the real clients.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use fleet_satellite::{ErrorClass, SlurmLink, netbox, slurm};
use fleet_schemas::LookFault;
use serde_json::Value;

use crate::harness::{Looker, fixtures, secret_file, site};

const JWT: &str = "slurm/tokens/valid_admin_2099.jwt";

/// In place of a status: no answer ever.
pub(crate) const HANGS: u16 = 0;

/// A server on loopback that answers each path as `answer` says; what it was asked is in the list.
pub(crate) async fn server(
    answer: impl Fn(&str) -> (u16, &'static str, Body) + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let log = asked.clone();
    let app = axum::Router::new().fallback(move |request: Request| {
        let path = request.uri().path_and_query().unwrap().to_string();
        let token = request.headers().get("authorization").map_or("", |v| v.to_str().unwrap());
        log.lock().unwrap().push(format!("{} {path} {token}", request.method()));
        let (code, location, body) = answer(&path);
        async move {
            if code == HANGS {
                std::future::pending::<()>().await;
            }
            Response::builder().status(code).header("Location", location).body(body).unwrap()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, asked)
}

pub(crate) fn slurm_agent(url: String) -> Looker<slurm::Agent> {
    let settings = slurm::Settings {
        site: site("s1"),
        url,
        user: "slurm".into(),
        jwt_file: fixtures(JWT),
        interval: Duration::from_secs(60),
        deadline: Duration::from_secs(30),
    };
    Looker::new(slurm::Agent::new(settings).unwrap())
}

pub(crate) fn netbox_agent(url: String, token: &std::path::Path, deadline: Duration) -> Looker<netbox::Agent> {
    let settings = netbox::Settings {
        instance: "n".into(),
        url,
        token_file: token.into(),
        sites: vec![site("dc1")],
        interval: Duration::from_secs(60),
        sweep_every: Duration::from_secs(900),
        window: Duration::from_secs(600),
        deadline,
        slurm_link: SlurmLink::Name,
    };
    Looker::new(netbox::Agent::new(settings).unwrap())
}

pub(crate) fn recorded(path: &str) -> (u16, String) {
    let exchange: Value = serde_json::from_str(&std::fs::read_to_string(fixtures(path)).unwrap()).unwrap();
    (exchange["response"]["status"].as_u64().unwrap() as u16, exchange["response"]["body"].to_string())
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (elsewhere, asked) = server(|_| (200, "", Body::empty())).await;
    let target: &'static str = Box::leak(format!("{elsewhere}/take/it").into_boxed_str());
    let (url, _) = server(move |_| (302, target, Body::empty())).await;
    let error = slurm_agent(url.clone()).look().await.unwrap_err();
    assert_eq!((error.class, error.asked.as_str()), (ErrorClass::Permanent, "GET /openapi/v3"));
    let token = secret_file("nbt_key.secret");
    netbox_agent(url, &token.path, Duration::from_secs(5)).look().await.unwrap_err();
    assert!(asked.lock().unwrap().is_empty(), "nobody else gets our token");
}

#[tokio::test]
async fn a_secret_that_comes_back_is_not_shown() {
    let jwt = std::fs::read_to_string(fixtures(JWT)).unwrap();
    let echo = format!("who are you, {}? {}", jwt.trim(), "x".repeat(2000));
    let (url, _) = server(move |_| (418, "", Body::from(echo.clone()))).await;
    let error = slurm_agent(url).look().await.unwrap_err();
    assert!(error.came.starts_with("418 who are you, [removed]? xxx") && error.came.chars().count() <= 300, "{error}");
    assert!(
        slurm::Agent::new(slurm::Settings {
            site: site("s1"),
            url: "http://me:secret@head01".into(),
            user: "slurm".into(),
            jwt_file: fixtures(JWT),
            interval: Duration::from_secs(60),
            deadline: Duration::from_secs(30),
        })
        .is_err_and(|e| !e.to_string().contains("secret"))
    );
}

#[tokio::test]
async fn an_endless_body_and_a_silent_server_end() {
    let megabytes = |n: usize| Body::from("[".repeat(n << 20));
    let (url, _) = server(move |_| (200, "", megabytes(65))).await;
    let error = slurm_agent(url).look().await.unwrap_err();
    assert!(error.class == ErrorClass::Malformed && error.came.contains("more than 67108864 bytes"), "{error}");
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = secret_file("nbt_key.secret");
    let url = format!("http://{}", silent.local_addr().unwrap());
    let error = netbox_agent(url, &token.path, Duration::from_millis(50)).look().await.unwrap_err();
    assert_eq!(
        (error.class, error.fault, error.came.as_str()),
        (ErrorClass::Transient, LookFault::NoData, "no whole answer within 0.05 s")
    );
}

#[tokio::test]
async fn an_api_that_is_too_old_is_refused() {
    let paths = r#"{"paths":{"/slurm/v0.0.36/nodes":{},"/slurm/v0.0.39/nodes/":{},"/slurmdb/v0.0.40/nodes/":{}}}"#;
    let (url, asked) = server(move |_| (200, "", Body::from(paths))).await;
    let error = slurm_agent(url).look().await.unwrap_err();
    assert_eq!((error.class, error.fault), (ErrorClass::Permanent, LookFault::ApiTooOld));
    assert!(error.came.starts_with("it serves v0.0.36, v0.0.39;"), "{error}");
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn recorded_netbox_answers_through_the_client() {
    let token = secret_file("nbt_key.secret");
    for (fixture, came) in
        [("auth_bad_403.json", "403 Invalid v2 token"), ("auth_none_403.json", "403 Authentication credentials were not provided.")]
    {
        let (code, body) = recorded(&format!("netbox/{fixture}"));
        let (url, asked) = server(move |_| (code, "", Body::from(body.clone()))).await;
        let error = netbox_agent(url, &token.path, Duration::from_secs(5)).look().await.unwrap_err();
        assert_eq!((error.fault, error.came.as_str()), (LookFault::PermissionDenied, came));
        assert_eq!(asked.lock().unwrap().len(), 1, "a refusal is not asked for again");
        assert!(asked.lock().unwrap()[0].ends_with(" Bearer nbt_key.secret"));
    }
    // The recorded feed as the feed; devices as recorded, in one page.
    let (_, changes) = recorded("netbox/object_changes_device.json");
    let changes = changes.replace(r#""count":107"#, r#""count":null"#);
    let changes: Value = serde_json::from_str(&changes).unwrap();
    let last_page = |mut page: Value| {
        page["next"] = Value::Null;
        page.to_string()
    };
    let (_, one) = recorded("netbox/device_detail.json");
    let (changes, devices) = (last_page(changes), format!(r#"{{"count":null,"next":null,"previous":null,"results":[{one}]}}"#));
    let (url, asked) =
        server(move |path| (200, "", Body::from(if path.contains("object-changes") { changes.clone() } else { devices.clone() }))).await;
    let token = secret_file("0123456789abcdef0123456789abcdef01234567");
    let mut looker = netbox_agent(url, &token.path, Duration::from_secs(5));
    let sweep = looker.look().await.unwrap();
    assert_eq!((sweep.observations.len(), sweep.complete[0].count), (1, 1));
    assert!(looker.look().await.unwrap().observations.is_empty(), "what the window shows at the first look is no news");
    assert!(asked.lock().unwrap().iter().all(|a| a.ends_with(" Token 0123456789abcdef0123456789abcdef01234567")));
}
