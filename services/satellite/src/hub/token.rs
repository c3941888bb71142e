//! An access token by private_key_jwt (RFC 7523), renewed at half of its life.

use super::client::Settings;
use crate::{ClientError, ErrorClass};
use fleet_schemas::LookFault;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::SecretString;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{sync::Mutex, time::Instant};

/// Seconds an assertion lives.
const ASSERTION_LIFE: u64 = 60;

/// The key of a client, and the token that it last got.
pub(crate) struct Tokens {
    client: String,
    key: EncodingKey,
    kid: String,
    issuer: Option<String>,
    held: Mutex<Option<(SecretString, Instant)>>,
}

/// Why there is no token.
pub(crate) struct NoToken {
    pub(crate) why: String,
    /// When the hub said to ask again.
    pub(crate) after: Option<Duration>,
}

impl From<String> for NoToken {
    fn from(why: String) -> Self {
        Self { why, after: None }
    }
}

impl Tokens {
    /// Reads the key: P-256, PKCS#8, PEM. Its `kid` is its thumbprint (RFC 7638), where the settings name no other.
    pub(crate) fn new(settings: &Settings) -> Result<Self, ClientError> {
        let bad = |why: String| {
            let asked = format!("the key of {}: {}", settings.client, settings.key_file.display());
            ClientError::new(ErrorClass::Permanent, asked, why, LookFault::NoData)
        };
        let pem = std::fs::read(&settings.key_file).map_err(|e| bad(e.to_string()))?;
        let key = EncodingKey::from_ec_pem(&pem).map_err(|e| bad(format!("no P-256 key in PKCS#8 PEM: {e}")))?;
        let thumbprint = || Jwk::from_encoding_key(&key, Algorithm::ES256).and_then(|jwk| jwk.thumbprint(ThumbprintHash::SHA256));
        let kid = match &settings.kid {
            Some(kid) => kid.clone(),
            None => thumbprint().map_err(|e| bad(e.to_string()))?,
        };
        Ok(Self { client: settings.client.clone(), key, kid, issuer: settings.issuer.clone(), held: Mutex::new(None) })
    }

    /// The token, fetched where there is none that lives.
    pub(crate) async fn get(&self, http: &reqwest::Client, url: &str) -> Result<SecretString, NoToken> {
        let mut held = self.held.lock().await;
        if let Some((token, _)) = held.as_ref().filter(|(_, until)| Instant::now() < *until) {
            return Ok(token.clone());
        }
        let (token, life) = self.fetch(http, url).await?;
        *held = Some((token.clone(), Instant::now() + life / 2));
        Ok(token)
    }

    /// The hub refused it.
    pub(crate) async fn forget(&self) {
        *self.held.lock().await = None;
    }

    async fn fetch(&self, http: &reqwest::Client, url: &str) -> Result<(SecretString, Duration), NoToken> {
        let issuer = self.issuer(http, url).await?;
        let assertion = self.assertion(&issuer)?;
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", assertion.as_str()),
        ];
        let answer = http.post(format!("{url}/oauth/token")).form(&form).send().await.map_err(crate::http::chain)?;
        let (status, after) = (answer.status(), super::client::retry_after(&answer));
        let body: Value = answer.json().await.map_err(|e| format!("token: {status}: {}", crate::http::chain(e)))?;
        match (body["access_token"].as_str(), body["expires_in"].as_u64()) {
            (Some(token), life) => Ok((SecretString::from(token), Duration::from_secs(life.unwrap_or(60).max(10)))),
            (None, _) => {
                let why = format!("no token for {}: {status}: {}", self.client, body["error_description"].as_str().unwrap_or("refused"));
                Err(NoToken { why, after: after.filter(|_| status == reqwest::StatusCode::TOO_MANY_REQUESTS) })
            }
        }
    }

    /// The audience of assertions: what the hub's own metadata says it is, where the settings do not.
    async fn issuer(&self, http: &reqwest::Client, url: &str) -> Result<String, String> {
        if let Some(known) = &self.issuer {
            return Ok(known.clone());
        }
        let answer = http.get(format!("{url}/.well-known/oauth-authorization-server")).send().await.map_err(crate::http::chain)?;
        let metadata: Value = answer.json().await.map_err(|e| format!("the hub's metadata: {}", crate::http::chain(e)))?;
        Ok(metadata["issuer"].as_str().ok_or("the hub's metadata names no issuer")?.to_owned())
    }

    fn assertion(&self, issuer: &str) -> Result<String, String> {
        let now = jsonwebtoken::get_current_timestamp();
        let claims = json!({
            "iss": self.client, "sub": self.client, "aud": issuer, "iat": now, "nbf": now, "exp": now + ASSERTION_LIFE,
            "jti": uuid::Uuid::new_v4().to_string(),
        });
        let header = Header { typ: Some("client-authentication+jwt".into()), kid: Some(self.kid.clone()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.key).map_err(|e| format!("signing an assertion: {e}"))
    }
}
