//! GET `/orphans`: things that sources show and no device claims.

use super::{listing, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_projections::{OrphanFilter, OrphanRow};
use fleet_schemas::{SECOND, Source, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["site", "source", "limit", "cursor"])?;
    let limit = query::limit(&params)?;
    let site = params.get("site").cloned();
    if let Some(Err(e)) = site.as_ref().map(|s| s.parse::<fleet_schemas::SiteId>()) {
        return Err(Problem::invalid("site", e.to_string()));
    }
    let source = params.get("source").cloned();
    if let Some(Err(e)) = source.as_ref().map(|s| s.parse::<Source>()) {
        return Err(Problem::invalid("source", e.to_string()));
    }
    let question = format!("orphans {site:?} {source:?}");
    let after = params.get("cursor").map(|c| query::read_cursor(c, &question)).transpose()?;
    let after = match after.as_deref() {
        Some([site, source, native_id]) => Some([site.as_str(), source.as_str(), native_id.as_str()]),
        Some(_) => return Err(query::bad_cursor()),
        None => None,
    };
    let reads = query::consistent(&hub, &headers).await?;
    let filter = OrphanFilter { site, source, sites: granted.principal.site_filter() };
    let mut rows = reads.orphans(&filter, after, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|r| query::cursor(&question, &[&r.site, &r.source, &r.native_id]));
    let now = hub.journal.clock().now();
    let items = rows.iter().map(|r| item(r, now)).collect();
    Ok(listing::respond(render::list(items, next.clone(), render::meta(&reads, &hub.journal.reference(), now)), next, &uri))
}

fn item(r: &OrphanRow, now: Timestamp) -> Value {
    json!({
        "site": r.site, "source": r.source, "native_id": r.native_id, "detail": r.detail, "since": r.since.to_string(),
        "age_seconds": now.since(r.since) / SECOND,
    })
}
