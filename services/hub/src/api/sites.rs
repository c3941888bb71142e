//! GET `/sites`, `/sites/{site}`.

use super::{named::Named, query};
use crate::access::{DeviceRead, Granted, Principal, SiteRead};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_lifecycle::{Site, site::Freeze};
use fleet_schemas::RoleProfile;
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let reads = query::consistent(&hub, &headers).await?;
    let sites = reads.sites().await?;
    let items = sites.iter().filter(|s| granted.principal.reaches(&s.id)).map(|s| item(s)).collect();
    let meta = render::meta(&reads, &hub.journal.reference(), hub.journal.clock().now());
    Ok(Json(render::list(items, None, meta)))
}

fn item(site: &Site) -> Value {
    let modes: Map<_, _> = site.sources.iter().map(|(source, s)| (source.to_string(), json!(s.config.mode.as_str()))).collect();
    let sources: Vec<_> = site
        .sources
        .iter()
        .map(|(source, s)| {
            json!({
                "source": source.as_str(), "fresh": s.fresh, "since": s.changed_at.to_string(),
                "interval_seconds": s.config.interval_seconds, "fault": s.fault.map(|f| f.as_str()), "problem": s.problem, "epoch": s.epoch,
            })
        })
        .collect();
    json!({"site_id": site.id.as_str(), "modes": modes, "sources": sources})
}

pub(crate) async fn one(
    granted: Granted<SiteRead>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let (site, version) = find(&hub, &granted.principal, &site, &headers).await?;
    Ok(tagged(whole(&site, version), version))
}

/// The site that a path names, if the caller's right reaches it, and its version.
pub(super) async fn find(hub: &Hub, principal: &Principal, site: &str, headers: &HeaderMap) -> Result<(Arc<Site>, u64), Problem> {
    let id = query::site_id(site)?;
    let reads = query::consistent(hub, headers).await?;
    let found = if principal.reaches(&id) { reads.site(&id).await? } else { None };
    found.ok_or_else(|| Problem::missing(format!("there is no site {id}")))
}

/// A site with everything it is set to.
pub(super) fn whole(site: &Site, version: u64) -> Value {
    let mut body = item(site);
    body["version"] = version.into();
    body["role_profiles"] = site.profiles.iter().map(|(role, p)| (role.clone(), profile(p))).collect::<Map<_, _>>().into();
    body["owners"] = json!({"sources": site.source_teams, "roles": site.role_teams});
    body["freezes"] = site.freezes.iter().map(|(name, f)| freeze(name, f)).collect();
    body
}

/// A role's profile.
pub(super) fn profile(p: &RoleProfile) -> Value {
    let or_none = |v: &Option<String>| v.clone().unwrap_or_else(|| "none".into());
    json!({
        "provisioner": p.provisioner.as_str(), "scheduler": p.scheduler.as_str(), "dhcp": p.dhcp.as_str(), "workload_proofs": p.workload_proofs,
        "bom": or_none(&p.bom), "firmware": or_none(&p.firmware), "validation": or_none(&p.validation), "burn_in": or_none(&p.burn_in),
    })
}

/// A freeze.
pub(super) fn freeze(name: &str, f: &Freeze) -> Value {
    json!({"name": name, "by": f.by, "reason": f.reason, "since": f.since.to_string(), "until": f.until.map(|t| t.to_string())})
}

/// An answer about a site, with the site's version as its ETag.
pub(super) fn tagged(body: Value, version: u64) -> Response {
    let mut response = Json(body).into_response();
    if let Ok(etag) = format!("\"v{version}\"").parse() {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}
