//! The extractor that a handler takes its right from.

use super::Scope;
use super::outside::{self, Grant, Person};
use crate::{Hub, Problem};
use axum::{extract::FromRequestParts, http::StatusCode, http::header, http::request::Parts};
use fleet_schemas::{Actor, SiteId};
use serde_json::json;
use std::{collections::BTreeSet, marker::PhantomData, sync::Arc};

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
    /// What it may do where, where that differs: scopes with their sites. Empty = every scope at every site above.
    pub grants: Vec<(Vec<String>, Vec<String>)>,
}

impl Principal {
    /// A problem for a site or a thing beyond its reach, recorded.
    pub(crate) fn out_of_reach(&self, hub: &Hub, method: &str, path: &str, detail: String) -> Problem {
        hub.denials.record(&self.client, "reach", method, path, &detail);
        Problem::new(StatusCode::FORBIDDEN, "out-of-reach", detail)
    }

    /// It, as far as its right to `scope` goes; `None` = it has no such right.
    pub(crate) fn narrowed(mut self, scope: &str, implied_by: &[&str]) -> Option<Self> {
        let holds = |scopes: &[String]| scopes.iter().any(|s| s == scope || implied_by.contains(&s.as_str()));
        if !holds(&self.scopes) {
            return None;
        }
        if !self.grants.is_empty() {
            let sites: BTreeSet<_> = self.grants.iter().filter(|(scopes, _)| holds(scopes)).flat_map(|(_, sites)| sites.clone()).collect();
            self.sites = sites.into_iter().collect();
        }
        Some(self)
    }

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
        let principal = authenticate(parts, hub).await?;
        let client = principal.client.clone();
        principal.narrowed(S::NAME, S::IMPLIED_BY).map(|principal| Self { principal, scope: PhantomData }).ok_or_else(|| {
            denied(parts, hub, &client, "scope", S::NAME);
            let detail = format!("{client} lacks scope {}", S::NAME);
            Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail).with("scope", json!(S::NAME))
        })
    }
}

/// Who asks, and not too often.
pub(super) async fn authenticate(parts: &Parts, hub: &Hub) -> Result<Principal, Problem> {
    let principal = identify(parts, hub).await?;
    // People share their client with others.
    hub.limits.take(&principal.subject)?;
    Ok(principal)
}

async fn identify(parts: &Parts, hub: &Hub) -> Result<Principal, Problem> {
    let refuse = |detail: &str| {
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail).header("www-authenticate", "Bearer realm=\"fleet-manager\"")
    };
    let value = parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    let Some(token) = value.and_then(|v| v.strip_prefix("Bearer ")) else {
        denied(parts, hub, "", "no-token", "");
        return Err(refuse("no bearer token; get one at /oauth/token"));
    };
    if let Some(outside) = outside::issuer_of(token).and_then(|iss| hub.outside.iter().find(|o| o.url == iss)) {
        return outside.check(token).await.map(person).map_err(|why| {
            denied(parts, hub, "", "bad-token", &why);
            refuse(&format!("the token is refused: {why}"))
        });
    }
    match hub.issuer.check(token) {
        Ok(claims) => Ok(Principal {
            grants: vec![],
            subject: claims.sub,
            client: claims.client_id,
            scopes: claims.scope.split(' ').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
            sites: claims.sites,
        }),
        Err(why) => {
            denied(parts, hub, "", "bad-token", &why);
            Err(refuse(&format!("the token is refused: {why}")))
        }
    }
}

/// Whom an outside issuer vouches for, with what this hub's own settings let the person's groups do.
fn person(person: Person) -> Principal {
    let union = |of: fn(&Grant) -> &Vec<String>| -> Vec<String> {
        person.grants.iter().flat_map(|g| of(g).clone()).collect::<BTreeSet<_>>().into_iter().collect()
    };
    Principal {
        scopes: union(|g| &g.scopes),
        sites: union(|g| &g.sites),
        grants: person.grants.iter().map(|g| (g.scopes.clone(), g.sites.clone())).collect(),
        subject: person.subject,
        client: person.client,
    }
}

/// Every denial is counted, told, and kept for auditors.
fn denied(parts: &Parts, hub: &Hub, client: &str, reason: &'static str, detail: &str) {
    hub.denials.record(client, reason, parts.method.as_str(), parts.uri.path(), detail);
}
