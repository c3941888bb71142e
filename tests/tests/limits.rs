//! Who asks too often is told when to come again, on every route that takes a token, and holds up nobody else.

use fleet_tests::{Api, Pair, Rhythm, World, crypto};
use reqwest::{Method, StatusCode};
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
    let mut refused = None;
    for _ in 0..1000 {
        let answer = ask(&hasty, "/whoami").await;
        if answer.status != StatusCode::OK {
            refused = Some(answer);
            break;
        }
    }
    let refused = refused.expect("a thousand requests were answered");
    assert_eq!((refused.status, refused.body["code"].as_str()), (StatusCode::TOO_MANY_REQUESTS, Some("too-many-requests")));
    assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(ask(&hasty, "/devices").await.status, StatusCode::TOO_MANY_REQUESTS, "another route");
    assert_eq!(ask(&calm, "/devices").await.status, StatusCode::OK, "another client");
}
