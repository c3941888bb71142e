//! A client's proof: a JWT that it signed itself (RFC 7523).

use super::{Client, Clients};
use fleet_projections::Control;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde::Deserialize;

/// Seconds an assertion may live.
const LIFE: u64 = 60;
/// How far clocks may differ, seconds.
const LEEWAY: u64 = 30;

/// Bytes of a `jti`: it is kept in an index.
const LONGEST_JTI: usize = 512;

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: serde_json::Value,
    jti: String,
    exp: u64,
}

/// Why nobody is proven by an assertion.
#[derive(Debug)]
pub enum Unproven {
    /// It is none, or does not count; in words.
    Refused(String),
    /// Whether it was used before cannot be told now.
    Unknown(fleet_projections::Error),
}

/// The client that made this assertion for `issuer` (or for `token_url`, where the client may); or why it is none. An assertion counts once: its `jti` is kept in `control`.
pub async fn verify_assertion<'c>(
    clients: &'c Clients,
    issuer: &str,
    token_url: &str,
    control: &Control,
    assertion: &str,
) -> Result<&'c Client, Unproven> {
    let (client, claims, now) = checked(clients, issuer, token_url, assertion).map_err(Unproven::Refused)?;
    let (expires_at, now) = ((claims.exp + LEEWAY).cast_signed(), now.cast_signed());
    match control.use_assertion(&client.client, &claims.jti, expires_at, now).await {
        Ok(true) => Ok(client),
        Ok(false) => Err(Unproven::Refused("this assertion was used before".into())),
        Err(error) => Err(Unproven::Unknown(error)),
    }
}

/// All that can be said without asking whether it was used before.
fn checked<'c>(clients: &'c Clients, issuer: &str, token_url: &str, assertion: &str) -> Result<(&'c Client, Claims, u64), String> {
    let header = decode_header(assertion).map_err(|e| format!("the assertion is no JWT: {e}"))?;
    match header.typ.as_deref() {
        None | Some("JWT" | "client-authentication+jwt") => {}
        Some(other) => return Err(format!("typ `{other}` is refused; use client-authentication+jwt")),
    }
    let algorithm = header.alg;
    if !matches!(algorithm, Algorithm::ES256 | Algorithm::PS256 | Algorithm::EdDSA) {
        return Err(format!("alg {algorithm:?} is refused; use ES256, PS256 or EdDSA"));
    }
    // Unverified yet: only to find the key with which to verify.
    let named: Claims = jsonwebtoken::dangerous::insecure_decode_claims(assertion).map_err(|e| format!("claims: {e}"))?;
    let client = clients.get(&named.sub).ok_or_else(|| "no such client".to_owned())?;
    let jwk = header.kid.as_deref().and_then(|kid| client.jwks.find(kid)).ok_or_else(|| "no key of this client has that kid".to_owned())?;
    let key = DecodingKey::from_jwk(jwk).map_err(|e| format!("key: {e}"))?;
    let mut validation = Validation::new(algorithm);
    // RFC 7523bis: the issuer, and nothing beside it. The URL of the token endpoint only where a setting of this client says so.
    let audiences: &[&str] = if client.token_url_audience { &[issuer, token_url] } else { &[issuer] };
    validation.set_audience(audiences);
    validation.set_issuer(&[&client.client]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    let claims = decode::<Claims>(assertion, &key, &validation).map_err(|e| e.to_string())?.claims;
    let now = jsonwebtoken::get_current_timestamp();
    if claims.aud.as_array().is_some_and(|list| list.len() != 1) {
        return Err("aud must be the issuer alone".into());
    }
    if claims.iss != claims.sub {
        return Err("iss and sub must both be the client id".into());
    }
    if claims.jti.len() > LONGEST_JTI {
        return Err(format!("jti has more than {LONGEST_JTI} bytes"));
    }
    if claims.exp > now + LIFE + LEEWAY {
        return Err(format!("exp lies more than {LIFE} s ahead"));
    }
    Ok((client, claims, now))
}
