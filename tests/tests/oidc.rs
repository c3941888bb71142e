//! People log in with an outside issuer: what its tokens prove, and what this hub's own settings let a group do, and where.

use axum::{Json, Router, routing::get};
use fleet_hub::access::{KeyPair, generate_key, public_jwk};
use fleet_tests::{Api, Pair, Rhythm, World, crypto, until};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// An issuer on loopback, with keys that a test changes.
struct Issuer {
    url: String,
    published: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<u32>>,
}

impl Issuer {
    async fn new(key: &KeyPair) -> Self {
        let published = Arc::new(Mutex::new(vec![public_jwk(&key.private_pem).unwrap()]));
        let (keys, asked) = (published.clone(), Arc::<Mutex<u32>>::default());
        let count = asked.clone();
        let answer = move || {
            *count.lock().unwrap() += 1;
            let keys = keys.lock().unwrap().clone();
            async move { Json(json!({"keys": keys})) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/keys", get(answer))).await });
        Self { url, published, asked }
    }
}

fn token(key: &KeyPair, claims: Value) -> String {
    let kid = public_jwk(&key.private_pem).unwrap()["kid"].as_str().unwrap().to_owned();
    let header = Header { kid: Some(kid), ..Header::new(Algorithm::ES256) };
    encode(&header, &claims, &EncodingKey::from_ec_pem(key.private_pem.as_bytes()).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_groups_scopes_and_sites_are_what_this_hub_says_and_nothing_else() {
    crypto();
    let options = fleet_sim::Options { sites: 2, devices: 12, people: false, pace: 0.001, ..Default::default() };
    let (sim, folder) = (fleet_sim::start(options).await.unwrap(), TempDir::new().unwrap());
    let world = World::simulated(&sim, folder.path()).unwrap();
    let mut pair = Pair::prepare(folder.path(), &world, Rhythm::QUICK).unwrap();
    let key = generate_key().unwrap();
    let issuer = Issuer::new(&key).await;
    let file = folder.path().join("hub/hub.toml");
    let settings = std::fs::read_to_string(&file).unwrap();
    let issuers = format!(
        "[[issuers]]\nurl = \"{0}\"\naudience = \"fleet\"\njwks_url = \"{0}/keys\"\n\
         [[issuers.grants]]\ngroup = \"readers\"\nscopes = [\"device:read\"]\nsites = [\"*\"]\n\
         [[issuers.grants]]\ngroup = \"operators-sim1\"\nscopes = [\"device-lifecycle:create\"]\nsites = [\"sim1\"]\n",
        issuer.url
    );
    std::fs::write(&file, format!("{settings}{issuers}")).unwrap();
    pair.start().await.unwrap();
    let all = pair.api().await.unwrap();
    until("every device", || async {
        let found = all.all("/devices").await.map_err(|e| e.to_string())?.len();
        if found == 12 { Ok(()) } else { Err(format!("{found} devices")) }
    })
    .await;
    let now = jsonwebtoken::get_current_timestamp();
    let claims = |groups: &[&str]| json!({"iss": issuer.url, "aud": "fleet", "sub": "u1", "azp": "slurm-agent-sim1", "exp": now + 300, "iat": now, "groups": groups, "scope": "admin"});
    let api = |claims: Value| Api::with_token(&pair.url, &token(&key, claims)).unwrap();
    let status = async |api: &Api, path: &str| api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap().status;

    // No mapping, no access; scopes in the token mean nothing.
    assert_eq!(status(&api(claims(&["strangers"])), "/devices").await, StatusCode::FORBIDDEN);
    assert_eq!(status(&api(claims(&["readers"])), "/admin/parked").await, StatusCode::FORBIDDEN);
    let reader = api(claims(&["readers", "operators-sim1"]));
    assert_eq!(reader.all("/devices").await.unwrap().len(), 12);
    // Each scope at the sites of its own group.
    let device = |site: &str| {
        let filter = format!("/devices?filter=site%20%3D%20{site}&limit=1");
        let all = all.clone();
        async move { all.get(&filter).await.unwrap()["items"][0]["id"].as_str().unwrap().to_owned() }
    };
    let own = reader.command(&device("sim1").await, "hold", json!({"name": "mine"})).await.unwrap();
    assert_eq!(own.status, StatusCode::OK, "{}", own.body);
    let other = reader.command(&device("sim2").await, "hold", json!({"name": "mine"})).await.unwrap();
    assert_eq!(other.status, StatusCode::NOT_FOUND, "{}", other.body);
    // A person is no agent, whatever the client through which the person came is called.
    let body = json!({"run": {"boot": "6f0c2a55-7b1e-4c7e-9d0a-3f516b8e24d1"}}).to_string();
    let agent = reader.send(Method::POST, "/api/v1/sites/sim1/conditions:batch", Some(body.as_bytes()), &[]).await.unwrap();
    assert_eq!(agent.status, StatusCode::FORBIDDEN, "{}", agent.body);

    let wrong = [
        json!({"aud": "another"}),
        json!({"exp": now - 300}),
        json!({"nbf": now + 300}),
        json!({"nbf": now.to_string()}),
        json!({"exp": (now + 300).to_string()}),
    ];
    for change in wrong {
        let mut changed = claims(&["readers"]);
        changed.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(status(&api(changed), "/devices").await, StatusCode::UNAUTHORIZED, "{change}");
    }
    let stranger = generate_key().unwrap();
    let forged = Api::with_token(&pair.url, &token(&stranger, claims(&["readers"]))).unwrap();
    assert_eq!(status(&forged, "/devices").await, StatusCode::UNAUTHORIZED, "a key that the issuer does not publish");
    let asked = *issuer.asked.lock().unwrap();
    for _ in 0..20 {
        status(&forged, "/devices").await;
    }
    assert!(*issuer.asked.lock().unwrap() <= asked + 1, "forged tokens make the hub ask its issuer no more than once in a while");
    // Known keys count on while that goes on.
    assert_eq!(status(&reader, "/devices").await, StatusCode::OK);
    let kept = issuer.published.lock().unwrap().len();
    assert_eq!(kept, 1);
    pair.stop().await.unwrap();
    sim.stop().await;
}
