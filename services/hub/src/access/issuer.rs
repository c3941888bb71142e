//! Issues access tokens (RFC 9068) and checks them.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Life of an access token, seconds.
pub const LIFE: u64 = 600;
/// How far clocks may differ, seconds.
const LEEWAY: u64 = 30;
/// `typ` of an access token.
const TYP: &str = "at+jwt";

/// What an access token says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claims {
    /// Who issued it.
    pub iss: String,
    /// For whom it is.
    pub aud: String,
    /// Whom it names.
    pub sub: String,
    /// The client that got it.
    pub client_id: String,
    /// Scopes, separated by spaces.
    pub scope: String,
    /// Sites; `*` = all.
    pub sites: Vec<String>,
    /// Until when, seconds since 1970.
    pub exp: u64,
    /// Since when.
    pub iat: u64,
    /// Not before.
    pub nbf: u64,
    /// Its id.
    pub jti: String,
}

/// The hub's own issuer.
pub struct Issuer {
    url: String,
    key: EncodingKey,
    check: DecodingKey,
    jwk: Value,
}

impl Issuer {
    /// An issuer with this URL and signing key. Signs and verifies once, so that a wrong build shows at start.
    pub fn new(url: &str, private_pem: &str, public_jwk: Value) -> Result<Self, String> {
        let jwk: jsonwebtoken::jwk::Jwk = serde_json::from_value(public_jwk.clone()).map_err(|e| format!("issuer key: {e}"))?;
        let key = EncodingKey::from_ec_pem(private_pem.as_bytes()).map_err(|e| format!("issuer key: {e}"))?;
        let check = DecodingKey::from_jwk(&jwk).map_err(|e| format!("issuer key: {e}"))?;
        let issuer = Self { url: url.into(), key, check, jwk: public_jwk };
        let token = issuer.issue("self-test", "", &[])?;
        issuer.check(&token).map_err(|e| format!("the issuer's self-test failed: {e}"))?;
        Ok(issuer)
    }

    /// Its URL: `iss`, and `aud` of assertions and tokens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its public keys.
    pub fn jwks(&self) -> Value {
        serde_json::json!({"keys": [self.jwk]})
    }

    /// An access token for `client`.
    pub fn issue(&self, client: &str, scope: &str, sites: &[String]) -> Result<String, String> {
        let now = jsonwebtoken::get_current_timestamp();
        let claims = Claims {
            iss: self.url.clone(),
            aud: self.url.clone(),
            sub: client.into(),
            client_id: client.into(),
            scope: scope.into(),
            sites: sites.to_vec(),
            exp: now + LIFE,
            iat: now,
            nbf: now,
            jti: uuid::Uuid::new_v4().to_string(),
        };
        let kid = self.jwk.get("kid").and_then(Value::as_str).map(str::to_owned);
        let header = Header { typ: Some(TYP.into()), kid, ..Header::new(Algorithm::ES256) };
        encode(&header, &claims, &self.key).map_err(|e| format!("signing a token failed: {e}"))
    }

    /// What a token says, if it is ours, for us, and in time.
    pub fn check(&self, token: &str) -> Result<Claims, String> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_audience(&[&self.url]);
        validation.set_issuer(&[&self.url]);
        validation.set_required_spec_claims(&["exp", "nbf", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY;
        let data = decode::<Claims>(token, &self.check, &validation).map_err(|e| e.to_string())?;
        match data.header.typ.as_deref() {
            Some(TYP) => Ok(data.claims),
            other => Err(format!("typ is {}, must be {TYP}", other.unwrap_or("absent"))),
        }
    }
}
