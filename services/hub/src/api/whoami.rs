//! GET `/whoami`, `/can-i`: what a token may do, told to whoever holds it.

use super::query;
use crate::access::{Anyone, SCOPES, implied_by};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::Uri};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn whoami(anyone: Anyone, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let p = &anyone.principal;
    Ok(Json(json!({"subject": p.subject, "client": p.client, "scopes": p.scopes, "sites": p.sites})))
}

/// One question, one answer, 200 either way.
pub(crate) async fn can_i(anyone: Anyone, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    let params = query::params(&uri, &["scope", "site"])?;
    let Some(scope) = params.get("scope") else { return Err(Problem::invalid("scope", "name a scope: `scope=device:read`")) };
    if !SCOPES.contains(&scope.as_str()) {
        return Err(Problem::invalid("scope", format!("`{scope}` is no scope; scopes are: {}", SCOPES.join(", "))));
    }
    let site = params.get("site").map(|s| s.parse::<fleet_schemas::SiteId>()).transpose();
    let site = site.map_err(|e| Problem::invalid("site", e.to_string()))?;
    let p = &anyone.principal;
    let holds = p.scopes.iter().any(|s| s == scope || implied_by(scope).contains(&s.as_str()));
    let reaches = site.as_ref().is_none_or(|s| p.reaches(s));
    // Of sites that it does not reach nobody is told whether they are there.
    let there = site.as_ref().is_none_or(|s| hub.journal.reference().sites.contains_key(s));
    let because = match (holds, reaches, there) {
        (false, _, _) => format!("the token has not the scope {scope}"),
        (true, false, _) => "the token does not reach the site".into(),
        (true, true, false) => "there is no such site".into(),
        (true, true, true) => "scope and site are the token's".into(),
    };
    let allowed = holds && reaches && there;
    Ok(Json(json!({"allowed": allowed, "scope": scope, "site": site.map(|s| s.to_string()), "because": because})))
}
