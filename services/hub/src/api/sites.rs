//! GET `/sites`, `/sites/{site}`.

use super::{named::Named, query};
use crate::access::{DeviceRead, Granted, SiteRead};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri};
use fleet_lifecycle::Site;
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
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let id = query::site_id(&site)?;
    let reads = query::consistent(&hub, &headers).await?;
    let found = reads.sites().await?.into_iter().find(|s| s.id == id && granted.principal.reaches(&s.id));
    let site = found.ok_or_else(|| Problem::missing(format!("there is no site {id}")))?;
    let mut body = item(&site);
    let profiles = site.profiles.iter().map(|(role, p)| {
        let or_none = |v: &Option<String>| v.clone().unwrap_or_else(|| "none".into());
        let profile = json!({
            "provisioner": p.provisioner.as_str(), "scheduler": p.scheduler.as_str(), "dhcp": p.dhcp.as_str(), "workload_proofs": p.workload_proofs,
            "bom": or_none(&p.bom), "firmware": or_none(&p.firmware), "validation": or_none(&p.validation), "burn_in": or_none(&p.burn_in),
        });
        (role.clone(), profile)
    });
    body["role_profiles"] = Value::Object(profiles.collect());
    Ok(Json(body))
}
