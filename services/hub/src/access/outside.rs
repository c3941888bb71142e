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
/// Keys that could not be read anew for so long count no more.
const TOO_OLD: Duration = Duration::from_secs(24 * 3600);
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
    /// The keys that were last published.
    pub held: Mutex<Held>,
    /// One fetch at a time; nobody with a known key waits for it.
    pub fetching: Mutex<()>,
}

/// What is known of an issuer's keys.
#[derive(Default)]
pub struct Held {
    keys: Option<(JwkSet, Instant)>,
    asked: Option<Instant>,
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
            // Never a name that the roster could have: there no `#` is allowed.
            client: format!("{}#{}", self.url, text("azp").or(text("client_id")).unwrap_or_default()),
            grants: self.grants.iter().filter(|g| groups.contains(&g.group.as_str())).cloned().collect(),
        })
    }

    /// The key of this id.
    async fn key(&self, kid: &str) -> Result<DecodingKey, String> {
        if self.due(kid).await {
            let _one = self.fetching.lock().await;
            // Who waited takes what the fetch before brought.
            if self.due(kid).await {
                self.fetch().await;
            }
        }
        let held = self.held.lock().await;
        // Fail closed: what an issuer published long ago may be what it has withdrawn.
        let keys = held.keys.as_ref().filter(|(_, at)| at.elapsed() < TOO_OLD).map(|(keys, _)| keys);
        let jwk = keys.and_then(|keys| keys.find(kid)).ok_or_else(|| format!("{} has no key with that kid", self.url))?;
        DecodingKey::from_jwk(jwk).map_err(|e| format!("the issuer's key: {e}"))
    }

    /// Whether the keys are to be asked for: a key that is known and not old needs no question.
    async fn due(&self, kid: &str) -> bool {
        let held = self.held.lock().await;
        let lately = held.asked.is_some_and(|at| at.elapsed() < AGAIN);
        let good = held.keys.as_ref().is_some_and(|(keys, at)| at.elapsed() < OLD && keys.find(kid).is_some());
        !good && !lately
    }

    async fn fetch(&self) {
        let fetched = self.keys.fetch().await;
        let mut held = self.held.lock().await;
        held.asked = Some(Instant::now());
        match fetched {
            Ok(keys) => held.keys = Some((keys, Instant::now())),
            Err(why) => tracing::error!(issuer = self.url, why, "an issuer's keys could not be read"),
        }
    }
}
