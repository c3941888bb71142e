//! `/sites/{site}/freezes/`: nothing at the site advances or is destroyed while one stands.

use crate::access::{Granted, SiteRead, SiteUpdate};
use crate::api::writing::Writing;
use crate::api::{body::Whole, named::Named, named::Within, query, sites};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_lifecycle::Site;
use fleet_schemas::{LiftFreeze, PlaceFreeze, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<SiteRead>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let (site, _) = sites::find(&hub, &granted.principal, &site, &headers).await?;
    Ok(Json(all(&site)))
}

fn all(site: &Site) -> Value {
    json!({"items": site.freezes.iter().map(|(name, f)| sites::freeze(name, f)).collect::<Vec<_>>()})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: String,
    reason: String,
    until: Option<String>,
}

pub(crate) async fn place(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "POST", &site, uri, headers)?;
    let body: Body = query::body(&bytes)?;
    let until = body.until.map(|t| t.parse::<Timestamp>()).transpose().map_err(|_| Problem::invalid("until", "an RFC 3339 time"))?;
    let name = body.name;
    if name.contains('/') {
        return Err(Problem::invalid("name", "without `/`: it stands in a path"));
    }
    let location = format!("/api/v1/sites/{}/freezes/", writing.site);
    let ask = PlaceFreeze { name: name.clone(), until }.into();
    let show = |site: &Site, _: u64| site.freezes.get(&name).map_or_else(|| json!({"name": name}), |f| sites::freeze(&name, f));
    writing.because(&body.reason)?.ask(&ask, Some(location), show).await
}

pub(crate) async fn lift(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Within(site, name): Within,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "DELETE", &site, uri, headers)?;
    writing.ask(&LiftFreeze { name }.into(), None, |site, _| all(site)).await
}
