//! The HTTP API: fetches a token, asks, and turns problems into exit codes.

use crate::context::{Access, Context};
use crate::exit::{Failure, NOT_FOUND};
use fleet_schemas::safe_way;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::header::RETRY_AFTER;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::{cell::RefCell, time::Duration, time::Instant};

/// A call takes no longer than the hub's own limit and a little.
const LIMIT: Duration = Duration::from_secs(70);
/// A rebuild takes as long as there is to do.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The API of one hub.
pub struct Api {
    context: Context,
    /// Nothing is said beside data.
    quiet: bool,
    client: reqwest::Client,
    token: RefCell<Option<String>>,
}

/// An answer that is no refusal.
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Value,
}

impl Api {
    /// Nothing is sent yet.
    pub fn new(context: Context, quiet: bool) -> Result<Self, Failure> {
        let bad = |e: String| Failure::usage(format!("{}: {e}", context.url));
        safe_way(&context.url).map_err(Failure::usage)?;
        let mut builder = reqwest::Client::builder().timeout(LIMIT).no_proxy().redirect(reqwest::redirect::Policy::none());
        if let Some(pem) = &context.ca_pem {
            let authorities = reqwest::Certificate::from_pem_bundle(pem.as_bytes()).map_err(|e| bad(format!("ca: {e}")))?;
            if authorities.is_empty() {
                return Err(bad("ca: the file holds no certificate".into()));
            }
            builder = builder.tls_certs_only(authorities);
        }
        let client = builder.build().map_err(|e| Failure::error(e.to_string()))?;
        Ok(Self { context, quiet, client, token: RefCell::new(None) })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.context.url.trim_end_matches('/'))
    }

    /// GET below `/api/v1`; the path comes in segments, names as they are.
    pub async fn get(&self, segments: &[&str], query: &[(&str, String)]) -> Result<Value, Failure> {
        let (started, mut left) = (Instant::now(), LIMIT);
        loop {
            match self.look(segments, query, left).await {
                // The hub says when to ask again; it did not refuse.
                Err(Failure { later: Some(after), text, .. }) if started.elapsed().saturating_add(after) < LIMIT => {
                    if !self.quiet {
                        eprintln!("{text}; again in {} s", after.as_secs());
                    }
                    tokio::time::sleep(after).await;
                    left = LIMIT.saturating_sub(started.elapsed());
                }
                answer => return answer,
            }
        }
    }

    /// The same once, within `limit`.
    pub async fn look(&self, segments: &[&str], query: &[(&str, String)], limit: Duration) -> Result<Value, Failure> {
        let request = self.client.get(self.url(&path(segments)?)).query(query).timeout(limit.min(LIMIT));
        self.send(request).await.map(|a| a.body)
    }

    /// POST below `/api/v1`, with a key that makes a repeat of the same request harmless.
    pub async fn post(&self, segments: &[&str], body: &Value, headers: &[(&str, String)]) -> Result<Answer, Failure> {
        self.write_within(LIMIT, Method::POST, segments, &[], body, headers).await
    }

    /// The same, for the few calls that take as long as there is to do.
    pub async fn post_patiently(&self, segments: &[&str], body: &Value) -> Result<Answer, Failure> {
        self.write_within(PATIENCE, Method::POST, segments, &[], body, &[]).await
    }

    /// The same by any method, with a query.
    pub async fn write(
        &self,
        method: Method,
        segments: &[&str],
        query: &[(&str, &str)],
        body: &Value,
        headers: &[(&str, String)],
    ) -> Result<Answer, Failure> {
        self.write_within(LIMIT, method, segments, query, body, headers).await
    }

    async fn write_within(
        &self,
        limit: Duration,
        method: Method,
        segments: &[&str],
        query: &[(&str, &str)],
        body: &Value,
        headers: &[(&str, String)],
    ) -> Result<Answer, Failure> {
        let request = self.client.request(method, self.url(&path(segments)?)).timeout(limit).query(query).json(body);
        let mut request = request.header("idempotency-key", uuid::Uuid::new_v4().to_string());
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.send(request).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Answer, Failure> {
        let again = request.try_clone();
        let held = self.token.borrow().is_some();
        let mut response = self.once(request).await?;
        // A token that was fetched a while ago has ended meanwhile.
        if let (StatusCode::UNAUTHORIZED, true, Some(request)) = (response.status(), held, again) {
            *self.token.borrow_mut() = None;
            response = self.once(request).await?;
        }
        let status = response.status();
        let later = later(&response);
        let text = response.text().await.map_err(|e| self.unreachable(&e))?;
        let body: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status.is_success() { Ok(Answer { status, body }) } else { Err(Failure { later, ..refusal(status, &body) }) }
    }

    async fn once(&self, request: RequestBuilder) -> Result<reqwest::Response, Failure> {
        request.bearer_auth(self.token().await?).send().await.map_err(|e| self.unreachable(&e))
    }

    fn unreachable(&self, e: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = e;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        Failure::unreachable(format!("{} cannot be reached: {cause}", self.context.url))
    }

    async fn token(&self) -> Result<String, Failure> {
        if let Access::Token(token) = &self.context.access {
            return Ok(token.clone());
        }
        if let Some(token) = self.token.borrow().clone() {
            return Ok(token);
        }
        let token = self.fetch_token().await?;
        *self.token.borrow_mut() = Some(token.clone());
        Ok(token)
    }

    /// client_credentials with private_key_jwt, by the way that leads to the hub; its own metadata says what issuer it is.
    async fn fetch_token(&self) -> Result<String, Failure> {
        let found = self.client.get(self.url("/.well-known/oauth-authorization-server")).send().await.map_err(|e| self.unreachable(&e))?;
        let metadata: Value = found.json().await.map_err(|e| Failure::auth(format!("the hub's metadata cannot be read: {e}")))?;
        let text = |name: &str| {
            metadata[name].as_str().map(str::to_owned).ok_or_else(|| Failure::auth(format!("the hub's metadata has no {name}")))
        };
        let issuer = text("issuer")?;
        let form = [
            ("grant_type", "client_credentials".to_owned()),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer".to_owned()),
            ("client_assertion", self.assertion(&issuer)?),
        ];
        let response = self.client.post(self.url("/oauth/token")).form(&form).send().await.map_err(|e| self.unreachable(&e))?;
        let later = later(&response);
        let body: Value = response.json().await.map_err(|e| Failure::auth(format!("the token endpoint's answer cannot be read: {e}")))?;
        match body["access_token"].as_str() {
            Some(token) => Ok(token.to_owned()),
            None => {
                Err(Failure { later, ..Failure::auth(format!("no token: {}", body["error_description"].as_str().unwrap_or("refused"))) })
            }
        }
    }

    fn assertion(&self, issuer: &str) -> Result<String, Failure> {
        let Access::Client { client, key_pem, kid } = &self.context.access else { return Err(Failure::auth("no key")) };
        let now = jsonwebtoken::get_current_timestamp();
        let claims = json!({
            "iss": client, "sub": client, "aud": issuer, "iat": now, "nbf": now, "exp": now + 60, "jti": uuid::Uuid::new_v4().to_string(),
        });
        let header = Header { typ: Some("client-authentication+jwt".into()), kid: Some(kid.clone()), ..Header::new(Algorithm::ES256) };
        let key = EncodingKey::from_ec_pem(key_pem.as_bytes()).map_err(|e| Failure::auth(format!("the key: {e}")))?;
        jsonwebtoken::encode(&header, &claims, &key).map_err(|e| Failure::auth(format!("signing: {e}")))
    }
}

/// When the hub said to ask again: it is busy, and refuses nothing.
fn later(response: &reqwest::Response) -> Option<Duration> {
    let busy = matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    busy.then(|| Duration::from_secs(seconds.clamp(1, 3600)))
}

/// The path to these segments, each encoded whole: a name is never read as a part of the URL.
fn path(segments: &[&str]) -> Result<String, Failure> {
    let mut out = "/api/v1".to_owned();
    for segment in segments {
        // No encoding carries these: whoever reads a URL resolves them.
        if matches!(*segment, "" | "." | "..") {
            return Err(Failure::usage(format!("`{segment}` cannot stand in a URL; name the thing by its id")));
        }
        out.push('/');
        for byte in segment.bytes() {
            match byte {
                b'-' | b'.' | b'_' | b'~' => out.push(byte.into()),
                _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    Ok(out)
}

/// A problem as an exit code and a text that names guard, expected, seen, helps.
fn refusal(status: StatusCode, body: &Value) -> Failure {
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    let code = match status.as_u16() {
        _ if !text("guard").is_empty() && status != StatusCode::PRECONDITION_FAILED => 4,
        401 | 403 => 6,
        404 => NOT_FOUND,
        409 | 412 | 422 => 5,
        400 | 405 | 413 | 415 => 2,
        _ => 1,
    };
    if text("guard").is_empty() {
        let field = if text("field").is_empty() { String::new() } else { format!("{}: ", text("field")) };
        let detail = if text("detail").is_empty() { status.to_string() } else { text("detail") };
        let devices = body["devices"].as_array().map_or_else(String::new, |d| {
            d.iter().map(|d| format!("\n  {}  {}", d["id"].as_str().unwrap_or_default(), d["site"].as_str().unwrap_or_default())).collect()
        });
        return Failure::new(code, format!("{field}{detail}{devices}"));
    }
    let lines = [("guard", text("guard")), ("expected", text("expected")), ("seen", text("seen")), ("helps", text("helps"))];
    let lines: Vec<_> = lines.iter().map(|(name, value)| format!("  {name:<9} {value}")).collect();
    Failure::new(code, format!("refused  {}\n{}", text("code"), lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn a_name_stays_one_segment() {
        let rows = [
            ("gpu003", "gpu003"),
            ("x/../gpu009", "x%2F..%2Fgpu009"),
            ("a b", "a%20b"),
            ("a?b#c", "a%3Fb%23c"),
            ("100%", "100%25"),
            ("%2e%2e", "%252e%252e"),
            ("a\\b;c&d=e+f", "a%5Cb%3Bc%26d%3De%2Bf"),
            ("Gerät\n", "Ger%C3%A4t%0A"),
            ("...", "..."),
        ];
        for (name, encoded) in rows {
            assert_eq!(path(&["devices", name, "why"]).map_err(|e| e.text), Ok(format!("/api/v1/devices/{encoded}/why")), "{name}");
        }
        for name in ["", ".", ".."] {
            assert_eq!(path(&["devices", name]).map_err(|e| e.code), Err(2), "{name}");
        }
    }
}
