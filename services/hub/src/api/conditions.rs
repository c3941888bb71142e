//! GET `/conditions`, `/devices/{id}/conditions`.

use super::{devices, filter, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_lifecycle::{Reference, condition_type, condition_types};
use fleet_projections::ConditionRow;
use fleet_schemas::{SiteId, Source, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["filter", "limit", "cursor"])?;
    let limit = query::limit(&params)?;
    let text = params.get("filter").cloned().unwrap_or_default();
    let given = filter::read(&text, &["type", "status"])?;
    let types = || condition_types().iter().map(|t| t.name).collect::<Vec<_>>().join(", ");
    let Some(r#type) = given.get("type") else {
        return Err(Problem::invalid("filter", format!("name a type: `type = SlurmSchedulable`; types are: {}", types())));
    };
    if condition_type(r#type).is_none() {
        return Err(Problem::invalid("filter", format!("there is no type `{type}`; types are: {}", types())));
    }
    let status = given.get("status").map(String::as_str);
    if status.is_some_and(|s| s.parse::<fleet_schemas::Status>().is_err()) {
        return Err(Problem::invalid("filter", "status is True, False or Unknown"));
    }
    let reads = query::consistent(&hub, &headers).await?;
    let after = params.get("cursor").map(|c| query::read_cursor(c, &text)).transpose()?;
    let after = after.as_deref().map(position).transpose()?;
    let after = after.as_ref().map(|(s, d, u)| (s.as_str(), *d, u.as_str()));
    let sites = granted.principal.site_filter();
    let mut rows = reads.conditions(r#type, status, sites.as_deref(), after, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|r| query::cursor(&text, &[&r.status, &r.device.to_string(), &r.subject]));
    let (reference, now) = (hub.journal.reference(), hub.journal.clock().now());
    let items = rows.iter().map(|r| item(r, &reference, now)).collect();
    Ok(devices::page(render::list(items, next.clone(), render::meta(&reads, &reference, now)), next))
}

fn position(parts: &[String]) -> Result<(String, fleet_schemas::DeviceId, String), Problem> {
    match parts {
        [status, device, subject] => Ok((status.clone(), device.parse().map_err(|_| query::bad_cursor())?, subject.clone())),
        _ => Err(query::bad_cursor()),
    }
}

/// As last said; `status` reads Unknown where the source is stale, and `said` keeps what it said.
fn item(r: &ConditionRow, reference: &Reference, now: Timestamp) -> Value {
    let site = r.site.parse::<SiteId>().ok();
    let source = r.source.parse::<Source>().ok();
    let stale = matches!((&site, source), (Some(site), Some(source)) if !reference.fresh(site, source));
    json!({
        "device": r.device.to_string(), "name": r.name, "type": r.r#type, "subject": r.subject,
        "status": if stale { "Unknown" } else { &r.status }, "said": stale.then_some(&r.status), "reason": r.reason, "message": r.message,
        "severity": r.severity, "source": r.source, "site": r.site, "bad": render::is_bad(&r.r#type, if stale { "Unknown" } else { &r.status }),
        "observed_at": r.observed_at.to_string(), "last_transition_at": r.last_transition_at.to_string(),
        "age_seconds": now.since(r.observed_at) / fleet_schemas::SECOND,
    })
}

pub(crate) async fn of_device(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let reads = query::consistent(&hub, &headers).await?;
    let doc = devices::find(&reads, &granted.principal, &id).await?;
    let (reference, now) = (hub.journal.reference(), hub.journal.clock().now());
    let item = |c| {
        let mut item = render::condition(c, doc.state.site.as_ref(), &reference, now);
        (item["device"], item["name"]) = (doc.state.id.to_string().into(), doc.state.name().into());
        item
    };
    Ok(Json(render::list(doc.state.conditions.values().map(item).collect(), None, render::meta(&reads, &reference, now))))
}
