//! The HTTP API of a hub, as a client with its own key uses it.

use anyhow::{Context, bail};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};

/// A client of one hub.
#[derive(Clone)]
pub struct Api {
    /// URL of the hub.
    pub url: String,
    client: reqwest::Client,
    tokens: Arc<Tokens>,
}

/// Gives the token of a request.
type Tokens = dyn Fn() -> anyhow::Result<String> + Send + Sync;

/// An answer, whatever it is.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body; null where it is no JSON.
    pub body: Value,
    /// Its `Fleet-Consistency-Token`.
    pub token: Option<String>,
    /// Its headers.
    pub headers: reqwest::header::HeaderMap,
}

/// Asks a token endpoint as a client that proves itself by an assertion (RFC 7523).
pub async fn ask_token(http: &reqwest::Client, url: &str, assertion: &str) -> reqwest::Result<reqwest::Response> {
    let form = [
        ("grant_type", "client_credentials"),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", assertion),
    ];
    http.post(format!("{url}/oauth/token")).form(&form).send().await
}

/// An assertion of `client` for `issuer`, good for a minute and once.
pub fn assertion(client: &str, issuer: &str, kid: &str, pem: &[u8]) -> anyhow::Result<String> {
    let now = jsonwebtoken::get_current_timestamp();
    let claims = json!({"iss": client, "sub": client, "aud": issuer, "iat": now, "exp": now + 60, "jti": uuid::Uuid::new_v4().to_string()});
    let header = Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) };
    Ok(jsonwebtoken::encode(&header, &claims, &EncodingKey::from_ec_pem(pem)?)?)
}

/// As a parameter of a URL.
pub fn encoded(text: &str) -> String {
    text.bytes().map(|b| if b.is_ascii_alphanumeric() { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Api {
    /// As the client of a context file that `fmctl` reads.
    pub async fn from_context(file: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let table: toml::Table = toml::from_str(&text)?;
        let get = |name: &str| table.get(name).and_then(|v| v.as_str()).map(str::to_owned).with_context(|| format!("no {name}"));
        let (url, client, kid) = (get("url")?, get("client")?, get("kid")?);
        let pem = std::fs::read(file.parent().unwrap_or(Path::new(".")).join(get("key")?))?;
        let http = client_of()?;
        let assertion = assertion(&client, &format!("{url}/dev"), &kid, &pem)?;
        let answer: Value = ask_token(&http, &url, &assertion).await?.json().await?;
        let Some(token) = answer["access_token"].as_str() else { bail!("no token: {answer}") };
        Self::with_token(&url, token)
    }

    /// With a token that the test has made.
    pub fn with_token(url: &str, token: &str) -> anyhow::Result<Self> {
        let token = token.to_owned();
        Self::with_tokens(url, move || Ok(token.clone()))
    }

    /// With one that the test makes for each request.
    pub fn with_tokens(url: &str, tokens: impl Fn() -> anyhow::Result<String> + Send + Sync + 'static) -> anyhow::Result<Self> {
        Ok(Self { url: url.into(), client: client_of()?, tokens: Arc::new(tokens) })
    }

    /// Any request; `path` counts from the root.
    pub async fn send(&self, method: Method, path: &str, body: Option<&[u8]>, headers: &[(&str, &str)]) -> anyhow::Result<Answer> {
        let mut request = self.client.request(method, format!("{}{path}", self.url)).bearer_auth((self.tokens)()?);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_vec());
        }
        let response = request.send().await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let token = headers.get("fleet-consistency-token").and_then(|t| t.to_str().ok()).map(str::to_owned);
        let body = serde_json::from_slice(&response.bytes().await?).unwrap_or(Value::Null);
        Ok(Answer { status, body, token, headers })
    }

    /// GET below `/api/v1`; anything but 200 is an error.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await?;
        if answer.status == StatusCode::OK { Ok(answer.body) } else { bail!("GET {path}: {} {}", answer.status, answer.body) }
    }

    /// POST below `/api/v1`.
    pub async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.send(Method::POST, &format!("/api/v1{path}"), Some(body.to_string().as_bytes()), &[]).await
    }

    /// A lifecycle command.
    pub async fn command(&self, device: &str, command: &str, params: Value) -> anyhow::Result<Answer> {
        self.post(&format!("/devices/{device}/commands"), &json!({"command": command, "reason": "test", "params": params})).await
    }

    /// Every item of a list, over all pages.
    pub async fn all(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.get(&format!("{path}{joint}limit=500{cursor}")).await?;
            items.extend(page["items"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }

    /// Takes over everything that the preview of a site proposes; gives how many were accepted.
    pub async fn baseline(&self, site: &str) -> anyhow::Result<usize> {
        let preview = self.get(&format!("/sites/{site}/baseline")).await?;
        let proposed = preview["items"].as_array().into_iter().flatten().filter(|i| i["phase"].is_string());
        let devices: Vec<_> = proposed.map(|i| json!({"id": i["id"], "phase": i["phase"]})).collect();
        if devices.is_empty() {
            return Ok(0);
        }
        let done = self.post(&format!("/sites/{site}/baseline"), &json!({"devices": devices, "reason": "test"})).await?;
        if done.status == StatusCode::OK {
            Ok(done.body["accepted"].as_u64().unwrap_or(0) as usize)
        } else {
            bail!("{} {}", done.status, done.body)
        }
    }
}

fn client_of() -> anyhow::Result<reqwest::Client> {
    crate::crypto();
    Ok(reqwest::Client::builder().timeout(Duration::from_secs(60)).no_proxy().build()?)
}
