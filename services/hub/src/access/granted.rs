//! The extractor that a handler takes its right from.

use super::Scope;
use crate::{Hub, Problem};
use axum::{extract::FromRequestParts, http::StatusCode, http::header, http::request::Parts};
use fleet_schemas::{Actor, SiteId};
use serde_json::json;
use std::{marker::PhantomData, sync::Arc};

/// Who asks.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Opaque subject id.
    pub subject: String,
    /// Client.
    pub client: String,
    /// Scopes.
    pub scopes: Vec<String>,
    /// Sites; `*` = all.
    pub sites: Vec<String>,
}

impl Principal {
    /// As an actor of a command.
    pub fn actor(&self) -> Actor {
        Actor { subject: self.subject.clone(), client: self.client.clone(), on_behalf_of: None, reach: self.sites.clone() }
    }

    /// Whether its right reaches a site.
    pub fn reaches(&self, site: &SiteId) -> bool {
        self.actor().reaches(site)
    }

    /// Its sites as a filter; `None` = all.
    pub fn site_filter(&self) -> Option<Vec<String>> {
        (!self.sites.iter().any(|s| s == "*")).then(|| self.sites.clone())
    }
}

/// Proof that the caller has scope `S`; there is no other way to get one than from a request that has it.
#[derive(Clone, Debug)]
pub struct Granted<S: Scope> {
    /// Who.
    pub principal: Principal,
    scope: PhantomData<S>,
}

impl<S: Scope> FromRequestParts<Arc<Hub>> for Granted<S> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Problem> {
        let principal = authenticate(parts, hub)?;
        if !principal.scopes.iter().any(|s| s == S::NAME) {
            denied(parts, &principal.client, "scope");
            let detail = format!("{} lacks scope {}", principal.client, S::NAME);
            return Err(Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail).with("scope", json!(S::NAME)));
        }
        Ok(Self { principal, scope: PhantomData })
    }
}

pub(super) fn authenticate(parts: &Parts, hub: &Hub) -> Result<Principal, Problem> {
    let refuse = |detail: &str| {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail).header("www-authenticate", "Bearer realm=\"fleet-manager\"")
    };
    let value = parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let Some(token) = value.and_then(|v| v.strip_prefix("Bearer ")) else {
        denied(parts, "", "no-token");
        return Err(refuse("no bearer token; get one at /oauth/token"));
    };
    match hub.issuer.check(token) {
        Ok(claims) => Ok(Principal {
            subject: claims.sub,
            client: claims.client_id,
            scopes: claims.scope.split(' ').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
            sites: claims.sites,
        }),
        Err(why) => {
            denied(parts, "", "bad-token");
            Err(refuse(&format!("the token is refused: {why}")))
        }
    }
}

/// Every denial is counted and told.
fn denied(parts: &Parts, client: &str, reason: &'static str) {
    metrics::counter!("fm_auth_denied_total", "reason" => reason).increment(1);
    tracing::warn!(client, reason, method = %parts.method, path = parts.uri.path(), "denied");
}
