//! `/sites/{site}/type-registry/`: what types of conditions mean at a site, and who may state them.

use crate::access::{Granted, SiteRead, SiteUpdate};
use crate::api::writing::Writing;
use crate::api::{body::Whole, named::Named, query, sites};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_lifecycle::{EXTERNAL, KnownType, Site, condition_types};
use fleet_schemas::{Effect, RegisterType, Sense, Severity, TypeDefinition};
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
    let built_in = condition_types().iter().map(KnownType::from);
    let all: Vec<_> = built_in.chain(site.types.values().map(KnownType::from)).map(|t| shown(&t)).collect();
    Ok(Json(json!({"items": all})))
}

fn shown(t: &KnownType<'_>) -> Value {
    json!({
        "name": t.name, "built_in": t.source != EXTERNAL, "source": (t.source != EXTERNAL).then_some(t.source), "sense": t.sense.as_str(),
        "severity": t.severity.as_str(), "effects": t.effects.iter().map(|e| e.as_str()).collect::<Vec<_>>(), "ttl_seconds": t.ttl_seconds,
        "writers": t.writers, "about": t.about,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    name: String,
    sense: Sense,
    #[serde(default)]
    effects: Vec<Effect>,
    severity: Severity,
    ttl_seconds: Option<i64>,
    writers: Vec<String>,
    about: String,
}

pub(crate) async fn register(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "POST", &site, uri, headers)?;
    let b: Body = query::body(&bytes)?;
    let (name, effects, writers) = (b.name.clone(), b.effects, b.writers);
    let definition =
        TypeDefinition { name: b.name, sense: b.sense, effects, severity: b.severity, ttl_seconds: b.ttl_seconds, writers, about: b.about };
    let location = format!("/api/v1/sites/{}/type-registry/", writing.site);
    let show = |site: &Site, _: u64| site.types.get(&name).map_or_else(|| json!({"name": name}), |d| shown(&KnownType::from(d)));
    writing.ask(&RegisterType { definition }.into(), Some(location), show).await
}
