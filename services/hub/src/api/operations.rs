//! GET `/operations`, `/operations/{id}`.

use super::{devices, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_projections::{OperationFilter, OperationRow};
use fleet_schemas::{OperationId, OperationState, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["device", "state", "limit", "cursor"])?;
    let limit = query::limit(&params)?;
    let reads = query::consistent(&hub, &headers).await?;
    let device = match params.get("device") {
        Some(text) => Some(query::device_id(&reads, text, granted.principal.site_filter()).await?),
        None => None,
    };
    let state = params.get("state").cloned();
    if let Some(Err(e)) = state.as_ref().map(|s| s.parse::<OperationState>()) {
        return Err(Problem::invalid("state", e.to_string()));
    }
    let question = format!("{device:?} {state:?}");
    let before = params.get("cursor").map(|c| query::read_cursor(c, &question).and_then(|p| position(&p))).transpose()?;
    let filter = OperationFilter { id: None, device, state, sites: granted.principal.site_filter() };
    let mut rows = reads.operations(&filter, before, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|r| query::cursor(&question, &[&r.started_at.0.to_string(), &r.id.to_string()]));
    let meta = render::meta(&reads, &hub.journal.reference(), hub.journal.clock().now());
    Ok(devices::page(render::list(rows.iter().map(item).collect(), next.clone(), meta), next))
}

fn position(parts: &[String]) -> Result<(Timestamp, OperationId), Problem> {
    match parts {
        [at, id] => Ok((Timestamp(at.parse().map_err(|_| query::bad_cursor())?), id.parse().map_err(|_| query::bad_cursor())?)),
        _ => Err(query::bad_cursor()),
    }
}

pub(crate) async fn one(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let reads = query::consistent(&hub, &headers).await?;
    let id: OperationId = id.parse().map_err(|_| Problem::missing("an operation's id is a uuid"))?;
    let filter = OperationFilter { id: Some(id), device: None, state: None, sites: granted.principal.site_filter() };
    let found = reads.operations(&filter, None, 1).await?;
    found.first().map(|o| Json(item(o))).ok_or_else(|| Problem::missing(format!("there is no operation {id}")))
}

fn item(o: &OperationRow) -> Value {
    json!({
        "id": o.id.to_string(), "device": o.device.to_string(), "name": o.name, "site": o.site, "verb": o.verb, "state": o.state, "by": o.by, "reason": o.reason,
        "message": o.message, "started_at": o.started_at.to_string(), "ended_at": o.ended_at.map(|t| t.to_string()),
        "deadline": o.deadline.map(|t| t.to_string()),
    })
}
