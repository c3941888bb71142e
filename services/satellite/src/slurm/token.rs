//! The JWT's own end, read without asking anybody: 22.05 answers an expired token as it answers for a dead controller (section 3).

use crate::error::{ClientError, ErrorClass};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use fleet_schemas::{LookFault, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use std::path::Path;

/// The token in `path`, unless its `exp` has passed. The signature is not checked; a token without `exp` lives for ever.
pub(crate) fn read(path: &Path, now: Timestamp) -> Result<SecretString, ClientError> {
    let token = crate::http::read_secret(path)?;
    let asked = format!("read {}", path.display());
    let permanent = |came: String, fault| ClientError::new(ErrorClass::Permanent, asked.as_str(), came, fault);
    let Some(claims) = claims(token.expose_secret()) else {
        return Err(permanent("what is in it is no JWT".into(), LookFault::NoData));
    };
    match end_of(&claims) {
        Some(end) if end <= now => Err(permanent(format!("our token expired at {end}; SLURM was not asked"), LookFault::TokenExpired)),
        _ => Ok(token),
    }
}

fn end_of(claims: &Value) -> Option<Timestamp> {
    claims.get("exp").and_then(|e| e.as_i64().or_else(|| e.as_f64().map(|e| e as i64))).map(Timestamp::from_seconds)
}

/// When a token ends; `None` = never.
pub(crate) fn ends(token: &SecretString) -> Option<Timestamp> {
    claims(token.expose_secret()).as_ref().and_then(end_of)
}

fn claims(token: &str) -> Option<Value> {
    let mut parts = token.split('.');
    let (Some(_), Some(claims), Some(_), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else { return None };
    let claims = serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?).ok()?;
    claims.is_object().then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_judged_by_their_own_claims() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/slurm/tokens");
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        for (file, fault, says) in [
            ("valid_admin_2099.jwt", None, ""),
            ("valid_user_2099.jwt", None, ""),
            // Signed with another key: only the server can know.
            ("foreign_key_2099.jwt", None, ""),
            ("no_exp.jwt", None, ""),
            ("expired_2023.jwt", Some(LookFault::TokenExpired), "expired at 2023-11-14T22:13:20"),
            ("garbage.jwt", Some(LookFault::NoData), "no JWT"),
            ("absent.jwt", Some(LookFault::NoData), "No such file"),
        ] {
            match read(&folder.join(file), now) {
                Ok(token) => assert!(fault.is_none() && token.expose_secret().starts_with("ey"), "{file}"),
                Err(error) => {
                    assert_eq!(Some(error.fault), fault, "{file}");
                    assert!(error.came.contains(says) && !error.to_string().contains("eyJ"), "{error}");
                }
            }
        }
        assert!(read(&folder.join("valid_admin_2099.jwt"), "2099-01-02T00:00:00Z".parse().unwrap()).is_err());
    }
}
