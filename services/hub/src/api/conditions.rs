//! GET `/conditions`, `/devices/{id}/conditions`.

use super::{listing, named::Named, past, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_lifecycle::Reference;
use fleet_projections::{ConditionFilter, ConditionRow, filter::CONDITION_FIELDS};
use fleet_schemas::{SiteId, Source, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const LIST: listing::Kind = listing::Kind {
    fields: CONDITION_FIELDS,
    sort: ConditionRow::sort,
    shows: &[
        "device",
        "name",
        "type",
        "subject",
        "status",
        "said",
        "reason",
        "message",
        "severity",
        "source",
        "site",
        "bad",
        "observed_at",
        "last_transition_at",
        "age_seconds",
    ],
};

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, listing::PARAMS)?;
    let (reference, now) = (hub.journal.reference(), hub.journal.clock().now());
    let asked = listing::asked(&params, &LIST, "", &reference)?;
    let reads = query::consistent(&hub, &headers).await?;
    let filter = ConditionFilter { sites: granted.principal.site_filter(), matching: asked.matching.clone() };
    let page = reads.conditions(&filter, &asked.sort, asked.after.as_deref(), asked.limit).await?;
    let total = if asked.count { Some(reads.count_conditions(&filter).await?) } else { None };
    Ok(asked.answer(&uri, &page, total, (&hub, &reads), |row| item(row, &reference, now)))
}

/// As last said; `status` reads Unknown where the source is stale, and `said` keeps what it said.
fn item(r: &ConditionRow, reference: &Reference, now: Timestamp) -> Value {
    let site = r.site.parse::<SiteId>().ok();
    let source = r.source.parse::<Source>().ok();
    let silent = matches!((&site, source), (Some(site), Some(source)) if !reference.fresh(site, source));
    let over = site.as_ref().is_some_and(|s| render::expired(&r.r#type, s, r.observed_at, reference, now));
    let stale = silent || over;
    let reason = if over { render::EXPIRED } else { r.reason.as_str() };
    json!({
        "device": r.device.to_string(), "name": r.name, "type": r.r#type, "subject": r.subject,
        "status": if stale { "Unknown" } else { &r.status }, "said": stale.then_some(&r.status), "reason": reason, "message": r.message,
        "severity": r.severity, "source": r.source, "site": r.site, "bad": render::is_bad(&r.r#type, if stale { "Unknown" } else { &r.status }, &r.severity),
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
    let params = query::params(&uri, &["at"])?;
    let point = past::point(&params, hub.journal.clock().now())?;
    let reads = query::consistent(&hub, &headers).await?;
    let past::Seen { doc, reference, now, then } = past::see(&hub, &reads, &granted.principal, &id, point).await?;
    let item = |c| {
        let mut item = render::condition(c, doc.state.site.as_ref(), &reference, now);
        (item["device"], item["name"]) = (doc.state.id.to_string().into(), doc.state.name().into());
        item
    };
    let mut body = render::list(doc.state.conditions.iter().map(item).collect(), None, render::meta(&reads, &reference, now));
    if then {
        body["at"] = now.to_string().into();
    }
    Ok(Json(body))
}
