//! GET `/whoami`, `/can-i`: what a token may do, told to whoever holds it.

use super::query;
use crate::access::{Anyone, Principal, SCOPES, implied_by};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::Uri};
use fleet_schemas::SiteId;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn whoami(anyone: Anyone, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let p = &anyone.principal;
    let grants: Vec<_> = grants(p).iter().map(|(scopes, sites)| json!({"scopes": scopes, "sites": sites})).collect();
    Ok(Json(json!({"subject": p.subject, "client": p.client, "scopes": p.scopes, "sites": p.sites, "grants": grants})))
}

/// What it may do where: a scope counts at the sites beside it.
fn grants(p: &Principal) -> Vec<(Vec<String>, Vec<String>)> {
    match p.grants.as_slice() {
        [] if p.scopes.is_empty() => vec![],
        [] => vec![(p.scopes.clone(), p.sites.clone())],
        grants => grants.to_vec(),
    }
}

/// One question, one answer, 200 either way.
pub(crate) async fn can_i(anyone: Anyone, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    let params = query::params(&uri, &["scope", "site"])?;
    let Some(scope) = params.get("scope") else { return Err(Problem::invalid("scope", "name a scope: `scope=device:read`")) };
    if !SCOPES.contains(&scope.as_str()) {
        return Err(Problem::invalid("scope", format!("`{scope}` is no scope; scopes are: {}", SCOPES.join(", "))));
    }
    let site = params.get("site").map(|s| s.parse::<SiteId>()).transpose();
    let site = site.map_err(|e| Problem::invalid("site", e.to_string()))?;
    // Of sites that it does not reach nobody is told whether they are there.
    let there = |s: &SiteId| hub.journal.reference().sites.contains_key(s);
    let (allowed, because) = allowed(anyone.principal, scope, site.as_ref(), there);
    Ok(Json(json!({"allowed": allowed, "scope": scope, "site": site.map(|s| s.to_string()), "because": because})))
}

/// As every route asks it: grant by grant, so that a scope at one site and a right at another are no right.
fn allowed(p: Principal, scope: &str, site: Option<&SiteId>, there: impl Fn(&SiteId) -> bool) -> (bool, String) {
    let Some(narrowed) = p.narrowed(scope, implied_by(scope)) else { return (false, format!("the token has not the scope {scope}")) };
    match site {
        Some(site) if !narrowed.reaches(site) => (false, "the token does not reach the site with this scope".into()),
        Some(site) if !there(site) => (false, "there is no such site".into()),
        Some(_) | None => (true, "scope and site are the token's".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_counts_at_the_sites_of_its_own_grant() {
        let text = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let person = Principal {
            subject: "https://issuer#ann".into(),
            client: "oidc".into(),
            scopes: text(&["device:read", "site:update"]),
            sites: text(&["ams1", "lhr1"]),
            grants: vec![(text(&["device:read"]), text(&["ams1"])), (text(&["site:update"]), text(&["lhr1"]))],
        };
        let can = |scope: &str, site: &str| allowed(person.clone(), scope, Some(&site.parse().unwrap()), |_| true).0;
        let rows =
            [("device:read", "ams1", true), ("device:read", "lhr1", false), ("site:update", "ams1", false), ("site:update", "lhr1", true)];
        for (scope, site, expected) in rows {
            assert_eq!(can(scope, site), expected, "{scope} at {site}");
        }
        assert!(allowed(person.clone(), "site:update", None, |_| true).0, "somewhere");
        assert_eq!(grants(&person), person.grants);
        let plain = Principal { grants: vec![], ..person };
        assert_eq!(
            grants(&plain),
            [(plain.scopes.clone(), plain.sites.clone())],
            "without grants of its own it has every scope at every site"
        );
        assert!(allowed(plain, "device:read", Some(&"lhr1".parse().unwrap()), |_| true).0);
    }
}
