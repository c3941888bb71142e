//! The API described: committed, complete, served, and shown by a viewer that fetches nothing from elsewhere.

use crate::api::bed;
use fleet_tests::repository;
use serde_json::Value;
use std::collections::BTreeSet;

/// `FM_BLESS=1` writes it anew; what changed is then seen in the diff.
#[test]
fn the_document_is_the_committed_one() {
    let path = repository("schemas/openapi.json");
    if std::env::var_os("FM_BLESS").is_some() {
        std::fs::write(&path, fleet_hub::openapi_text()).unwrap();
    }
    // As JSON: the order of keys in the text depends on a feature that any dependency may switch on.
    let committed: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap_or_default()).unwrap_or_default();
    assert!(committed == fleet_hub::openapi(), "schemas/openapi.json differs from the routes; FM_BLESS=1 writes it anew");
}

#[test]
fn every_operation_says_what_it_is() {
    let document = fleet_hub::openapi();
    let shapes: BTreeSet<_> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "{id} names two operations");
            assert!(!operation["summary"].as_str().unwrap().is_empty() && operation["security"].is_array(), "{method} {path}");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|s| s.starts_with('2')), "{method} {path} answers nothing");
        }
    }
    let text = document.to_string();
    for named in text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(shapes.contains(named), "there is no shape {named}");
    }
    for shape in &shapes {
        assert!(text.contains(&format!("#/components/schemas/{shape}\"")), "nobody answers with {shape}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_viewer_is_served_by_us_and_holds_no_script() {
    let bed = bed().await;
    let open = reqwest::Client::new();
    let get = async |path: &str| open.get(format!("{}{path}", bed.hub.url)).send().await.unwrap();
    let served: Value = get("/openapi.json").await.json().await.unwrap();
    assert_eq!(served, fleet_hub::openapi());
    let page = get("/docs").await;
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    let script_src = policy.split(';').find(|p| p.trim().starts_with("script-src")).unwrap().trim().to_owned();
    assert_eq!(script_src, "script-src 'self'");
    let html = page.text().await.unwrap();
    for tag in html.split("<script").skip(1) {
        assert!(tag.starts_with(" src=\"/docs/") && tag.contains("\"></script>"), "a script in the page: {tag}");
    }
    assert!(!html.contains("://"), "something from elsewhere");
    let script = get("/docs/redoc.js").await;
    assert_eq!(script.headers()["content-type"], "text/javascript; charset=utf-8");
    assert!(script.bytes().await.unwrap().len() > 500_000);
}

/// `FM_BLESS=1` writes it anew; what changed is then seen in the diff.
#[test]
fn the_public_topics_are_described_as_they_are() {
    let path = repository("schemas/asyncapi.yaml");
    if std::env::var_os("FM_BLESS").is_some() {
        std::fs::write(&path, fleet_hub::asyncapi_text()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fleet_hub::asyncapi_text(), "schemas/asyncapi.yaml differs from the records; FM_BLESS=1 writes it anew");
}
