//! The way to the hub, by what it answers.

use crate::harness::{boot, site};
use axum::http::{StatusCode, header};
use axum::{Json, Router, response::IntoResponse, routing::get, routing::post};
use fleet_satellite::hub::{Client, Settings};
use fleet_satellite::{SendError, Sink};
use fleet_schemas::Source;
use serde_json::json;
use std::time::Duration;

/// A hub that gives tokens, and answers everything else so.
async fn hub(status: StatusCode, retry_after: Option<&'static str>, code: &'static str) -> (Client, tempfile::TempDir) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let metadata = json!({"issuer": url});
    let refuse = move || async move {
        let mut answer = (status, Json(json!({"code": code, "detail": "so it is"}))).into_response();
        if let Some(seconds) = retry_after {
            answer.headers_mut().insert(header::RETRY_AFTER, seconds.parse().unwrap());
        }
        answer
    };
    let app = Router::new()
        .route("/.well-known/oauth-authorization-server", get(move || async move { Json(metadata) }))
        .route("/oauth/token", post(|| async { Json(json!({"access_token": "t", "expires_in": 600})) }))
        .fallback(refuse);
    tokio::spawn(async move { axum::serve(listener, app).await });
    let folder = tempfile::tempdir().unwrap();
    let key_file = folder.path().join("key.pem");
    std::fs::write(&key_file, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let (client, deadline) = ("slurm-agent-s1".to_owned(), Duration::from_secs(30));
    let settings = Settings { url, client, key_file, kid: None, issuer: None, ca_file: None, deadline };
    (Client::new(&settings).unwrap(), folder)
}

/// How long to wait is the lane's to do, outside of the deadline of a call: the answer comes at once.
#[tokio::test]
async fn an_answer_says_what_it_means_for_a_lane() {
    let cases = [
        (StatusCode::TOO_MANY_REQUESTS, Some("59"), "too-many-requests", "later 59"),
        (StatusCode::SERVICE_UNAVAILABLE, Some("3600"), "not-stored", "later 60"),
        (StatusCode::SERVICE_UNAVAILABLE, None, "not-stored", "retry"),
        (StatusCode::CONFLICT, None, "superseded", "superseded"),
        (StatusCode::CONFLICT, None, "set-aside", "retry"),
        (StatusCode::PAYLOAD_TOO_LARGE, None, "body-too-large", "too large"),
        (StatusCode::UNAUTHORIZED, None, "unauthenticated", "retry"),
    ];
    for (status, retry_after, code, meaning) in cases {
        let (client, _folder) = hub(status, retry_after, code).await;
        let (means, words) = match client.epoch(site("s1"), Source::Slurm, boot()).await.unwrap_err() {
            SendError::Later(words, after) => (format!("later {}", after.as_secs()), words),
            SendError::Retry(words) => ("retry".to_owned(), words),
            SendError::Superseded(words) => ("superseded".to_owned(), words),
            SendError::TooLarge(words) => ("too large".to_owned(), words),
        };
        assert_eq!(means, meaning, "{status} {code}");
        assert!(words.contains(code) && words.contains("so it is"), "{words}");
    }
}
