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
    kid: String,
    key: EncodingKey,
    /// By `kid`; the first one signs.
    checks: Vec<(String, DecodingKey, Value)>,
}

impl Issuer {
    /// An issuer with this URL and these keys (PEM), at least one: the first signs, all count. A rotation puts the new key second, then
    /// first, then takes the old one away, each step once every hub has taken the one before, and the last after a token's life.
    /// Signs and verifies once, so that a wrong build shows at start.
    pub fn new(url: &str, private_pems: &[String]) -> Result<Self, String> {
        let check = |pem: &String| {
            let jwk = super::public_jwk(pem)?;
            let parsed: jsonwebtoken::jwk::Jwk = serde_json::from_value(jwk.clone()).map_err(|e| format!("issuer key: {e}"))?;
            let kid = parsed.common.key_id.clone().unwrap_or_default();
            Ok::<_, String>((kid, DecodingKey::from_jwk(&parsed).map_err(|e| format!("issuer key: {e}"))?, jwk))
        };
        let checks = private_pems.iter().map(check).collect::<Result<Vec<_>, _>>()?;
        let (Some(first), Some((kid, ..))) = (private_pems.first(), checks.first()) else { return Err("the issuer has no key".into()) };
        let key = EncodingKey::from_ec_pem(first.as_bytes()).map_err(|e| format!("issuer key: {e}"))?;
        let issuer = Self { url: url.into(), kid: kid.clone(), key, checks };
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
        serde_json::json!({"keys": self.checks.iter().map(|(_, _, jwk)| jwk).collect::<Vec<_>>()})
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
        let header = Header { typ: Some(TYP.into()), kid: Some(self.kid.clone()), ..Header::new(Algorithm::ES256) };
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
        let kid = jsonwebtoken::decode_header(token).map_err(|e| e.to_string())?.kid.unwrap_or_default();
        let key = self.checks.iter().find(|(own, ..)| *own == kid).map(|(_, key, _)| key).ok_or("no key of this issuer has that kid")?;
        let data = decode::<Claims>(token, key, &validation).map_err(|e| e.to_string())?;
        match data.header.typ.as_deref() {
            Some(TYP) => Ok(data.claims),
            other => Err(format!("typ is {}, must be {TYP}", other.unwrap_or("absent"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::generate_key;

    /// A time that is no number proves nothing, whoever signed it.
    #[test]
    fn a_time_that_is_a_text_is_no_time() {
        let pem = generate_key().unwrap().private_pem;
        let issuer = Issuer::new("http://hub", std::slice::from_ref(&pem)).unwrap();
        let good = serde_json::to_value(issuer.check(&issuer.issue("a", "", &[]).unwrap()).unwrap()).unwrap();
        let sign = |claims: &Value| {
            let header = Header { typ: Some(TYP.into()), kid: Some(issuer.kid.clone()), ..Header::new(Algorithm::ES256) };
            encode(&header, claims, &issuer.key).unwrap()
        };
        assert!(issuer.check(&sign(&good)).is_ok());
        for name in ["nbf", "exp", "iat"] {
            for text in [Value::from("soon"), Value::from(good[name].to_string()), Value::Null] {
                let mut claims = good.clone();
                claims[name] = text;
                assert!(issuer.check(&sign(&claims)).is_err(), "{claims}");
            }
        }
    }

    #[test]
    fn a_rotation_refuses_no_token_that_lives_and_ends_with_the_old_key() {
        let (old, new) = (generate_key().unwrap().private_pem, generate_key().unwrap().private_pem);
        let issuer = |keys: &[&String]| Issuer::new("http://hub", &keys.iter().map(|k| (*k).clone()).collect::<Vec<_>>()).unwrap();
        let token = issuer(&[&old]).issue("a", "", &[]).unwrap();
        let steps: [(&[&String], bool); 4] = [(&[&old], true), (&[&old, &new], true), (&[&new, &old], true), (&[&new], false)];
        for (keys, counts) in steps {
            assert_eq!(issuer(keys).check(&token).is_ok(), counts);
            assert_eq!(issuer(keys).jwks()["keys"].as_array().unwrap().len(), keys.len());
        }
        let by_new = issuer(&[&new, &old]).issue("a", "", &[]).unwrap();
        assert!(issuer(&[&old, &new]).check(&by_new).is_ok(), "a hub that has not put the new key first yet takes its tokens");
    }
}
