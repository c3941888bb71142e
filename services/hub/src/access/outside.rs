//! People log in elsewhere: tokens of an outside OIDC issuer, by its published keys. What such a token says of scopes is ignored; this
//! hub's own settings say what a group of that issuer may do, and where. No mapping, no access.

use fleet_log::Fut;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How far clocks may differ, seconds.
const LEEWAY: u64 = 30;
/// Keys are asked for again when a token names one that we do not have, but not more often than this.
const AGAIN: Duration = Duration::from_secs(30);
/// And when they are this old.
const OLD: Duration = Duration::from_secs(3600);

/// Where an issuer's keys come from.
pub trait KeySource: Send + Sync {
    /// The keys as they are published now.
    fn fetch(&self) -> Fut<'_, Result<JwkSet, String>>;
}

/// What a group may do, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The group, as the issuer names it.
    pub group: String,
    /// Scopes.
    pub scopes: Vec<String>,
    /// Sites; `*` = all.
    pub sites: Vec<String>,
}

/// One outside issuer.
pub struct Outside {
    /// `iss` of its tokens.
    pub url: String,
    /// `aud` that its tokens for us have.
    pub audience: String,
    /// Claim that lists a person's groups.
    pub groups_claim: String,
    /// What groups may do.
    pub grants: Vec<Grant>,
    /// Its keys.
    pub keys: Box<dyn KeySource>,
    /// The keys that were last published, and when they were asked for.
    pub held: Mutex<Option<(JwkSet, Instant)>>,
}

/// A person whom an issuer vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// `<issuer>#<sub>`: opaque, and nobody else's.
    pub subject: String,
    /// The client through which the person came.
    pub client: String,
    /// What the person may do, group by group.
    pub grants: Vec<Grant>,
}

/// The issuer that a token names, unverified: only to find whose keys to verify it with.
pub(crate) fn issuer_of(token: &str) -> Option<String> {
    let claims: Map<String, Value> = jsonwebtoken::dangerous::insecure_decode_claims(token).ok()?;
    claims.get("iss")?.as_str().map(str::to_owned)
}

impl Outside {
    /// Whom the token names, if it is this issuer's, for us, and in time.
    pub async fn check(&self, token: &str) -> Result<Person, String> {
        let header = decode_header(token).map_err(|e| e.to_string())?;
        let algorithm = header.alg;
        if !matches!(algorithm, Algorithm::ES256 | Algorithm::RS256 | Algorithm::PS256 | Algorithm::EdDSA) {
            return Err(format!("alg {algorithm:?} is refused"));
        }
        if !matches!(header.typ.as_deref(), None | Some("JWT" | "at+jwt" | "application/at+jwt")) {
            return Err("typ is that of no access token".into());
        }
        let kid = header.kid.ok_or("the token names no key")?;
        let key = self.key(&kid).await?;
        let mut validation = Validation::new(algorithm);
        validation.set_audience(&[&self.audience]);
        validation.set_issuer(&[&self.url]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY;
        let claims = decode::<Map<String, Value>>(token, &key, &validation).map_err(|e| e.to_string())?.claims;
        // A time that is no number proves nothing.
        if let Some(name) = ["exp", "nbf", "iat"].into_iter().find(|name| claims.get(*name).is_some_and(|v| !v.is_number())) {
            return Err(format!("{name} is no number"));
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let groups: Vec<&str> = match claims.get(&self.groups_claim) {
            Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(one)) => vec![one],
            _ => vec![],
        };
        Ok(Person {
            subject: format!("{}#{}", self.url, text("sub").unwrap_or_default()),
            client: text("azp").or(text("client_id")).unwrap_or("oidc").to_owned(),
            grants: self.grants.iter().filter(|g| groups.contains(&g.group.as_str())).cloned().collect(),
        })
    }

    /// The key of this id. One fetch at a time; who waits for it takes what it brought.
    async fn key(&self, kid: &str) -> Result<DecodingKey, String> {
        let mut held = self.held.lock().await;
        let known = |held: &Option<(JwkSet, Instant)>| held.as_ref().and_then(|(keys, _)| keys.find(kid).cloned());
        let age = held.as_ref().map(|(_, at)| at.elapsed());
        let due = age.is_none_or(|age| age > OLD || (known(&held).is_none() && age > AGAIN));
        if due {
            match self.keys.fetch().await {
                Ok(keys) => *held = Some((keys, Instant::now())),
                Err(why) => {
                    tracing::error!(issuer = self.url, why, "an issuer's keys could not be read");
                    // Those that are known count on; an unknown one is refused, and asked for again after a while.
                    let keys = held.take().map(|(keys, _)| keys).unwrap_or(JwkSet { keys: vec![] });
                    *held = Some((keys, Instant::now()));
                }
            }
        }
        let jwk = known(&held).ok_or_else(|| format!("{} has no key with that kid", self.url))?;
        DecodingKey::from_jwk(&jwk).map_err(|e| format!("the issuer's key: {e}"))
    }
}
