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
    let refused = token_refused(&pair.url, client, &std::fs::read(&key).unwrap()).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "a token");
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    // As a client of OAuth reads it.
    assert_eq!(refused.json::<serde_json::Value>().await.unwrap()["error"], "temporarily_unavailable");
    assert_eq!(ask(&calm, "/devices").await.status, StatusCode::OK, "another client");
}

/// Asks for tokens until none is given.
async fn token_refused(url: &str, client: &str, pem: &[u8]) -> reqwest::Response {
    let key = jsonwebtoken::EncodingKey::from_ec_pem(pem).unwrap();
    let jwk = jsonwebtoken::jwk::Jwk::from_encoding_key(&key, jsonwebtoken::Algorithm::ES256).unwrap();
    let kid = jwk.thumbprint(jsonwebtoken::jwk::ThumbprintHash::SHA256).unwrap();
    let header = jsonwebtoken::Header { kid: Some(kid), ..jsonwebtoken::Header::new(jsonwebtoken::Algorithm::ES256) };
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for _ in 0..1000 {
        let now = jsonwebtoken::get_current_timestamp();
        let claims = serde_json::json!({"iss": client, "sub": client, "aud": url, "iat": now, "exp": now + 60, "jti": uuid::Uuid::new_v4().to_string()});
        let assertion = jsonwebtoken::encode(&header, &claims, &key).unwrap();
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", &assertion),
        ];
        let answer = http.post(format!("{url}/oauth/token")).form(&form).send().await.unwrap();
        if answer.status() != StatusCode::OK {
            return answer;
        }
    }
    panic!("a thousand tokens were given");
}
