//! Who asks too often is told when to come again, on every route that takes a token, and holds up nobody else.

use fleet_hub::access::public_jwk;
use fleet_tests::{Api, Pair, Rhythm, World, ask_token, assertion, crypto};
use reqwest::{Method, StatusCode};
use std::path::Path;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_too_often_is_held_up_alone_and_everywhere() {
    crypto();
    let options = fleet_sim::Options { sites: 1, devices: 1, people: false, ..Default::default() };
    let (sim, folder) = (fleet_sim::start(options).await.unwrap(), TempDir::new().unwrap());
    let world = World::simulated(&sim, folder.path()).unwrap();
    let mut pair = Pair::prepare(folder.path(), &world, Rhythm::QUICK).unwrap();
    let file = folder.path().join("hub/hub.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("limits = {{per_second = 1, burst = 200}}\n{text}")).unwrap();
    pair.start().await.unwrap();
    let api = |name: &str| Api::with_token(&pair.url, &pair.token(name, "device:read", &["*"]).unwrap()).unwrap();
    let (hasty, calm) = (api("hasty"), api("calm"));
    let ask = async |api: &Api, path: &str| api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
    let refused = async |path: &str| {
        for _ in 0..1000 {
            let answer = ask(&hasty, path).await;
            if answer.status != StatusCode::OK {
                return answer;
            }
        }
        panic!("a thousand requests were answered");
    };
    for path in ["/whoami", "/devices?limit=1"] {
        let refused = refused(path).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (StatusCode::TOO_MANY_REQUESTS, Some("too-many-requests")));
        assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    }
    let (client, key) = ("slurm-agent-sim1", folder.path().join("satellite/slurm-agent-sim1.pem"));
    let refused = token_refused(&pair.url, client, &key).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "a token");
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    // As a client of OAuth reads it.
    assert_eq!(refused.json::<serde_json::Value>().await.unwrap()["error"], "temporarily_unavailable");
    assert_eq!(ask(&calm, "/devices").await.status, StatusCode::OK, "another client");
}

/// Asks for tokens until none is given.
async fn token_refused(url: &str, client: &str, key: &Path) -> reqwest::Response {
    let (pem, public) = (std::fs::read(key).unwrap(), public_jwk(&std::fs::read_to_string(key).unwrap()).unwrap());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..1000 {
        let assertion = assertion(client, url, public["kid"].as_str().unwrap(), &pem).unwrap();
        let answer = ask_token(&http, url, &assertion).await.unwrap();
        if answer.status() != StatusCode::OK {
            return answer;
        }
    }
    panic!("a thousand tokens were given");
}
