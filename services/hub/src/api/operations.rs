//! GET `/operations`, `/operations/{id}`.

use super::{listing, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_projections::{OperationFilter, OperationRow, filter::OPERATION_FIELDS};
use fleet_schemas::{OperationId, OperationState};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const LIST: listing::Kind = listing::Kind {
    fields: OPERATION_FIELDS,
    sort: OperationRow::sort,
    shows: &["id", "device", "name", "site", "verb", "state", "by", "reason", "message", "started_at", "ended_at", "deadline"],
};

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &[&["device", "state"], listing::PARAMS].concat())?;
    let reads = query::consistent(&hub, &headers).await?;
    let device = match params.get("device") {
        Some(text) => Some(query::device_id(&reads, text, granted.principal.site_filter()).await?),
        None => None,
    };
    let state = params.get("state").cloned();
    if let Some(Err(e)) = state.as_ref().map(|s| s.parse::<OperationState>()) {
        return Err(Problem::invalid("state", e.to_string()));
    }
    let asked = listing::asked(&params, &LIST, &format!("{device:?} {state:?}"), &hub.journal.reference())?;
    let filter = OperationFilter { id: None, device, state, sites: granted.principal.site_filter(), matching: asked.matching.clone() };
    let page = reads.operations(&filter, &asked.sort, asked.after.as_deref(), asked.limit).await?;
    let total = if asked.count { Some(reads.count_operations(&filter).await?) } else { None };
    Ok(asked.answer(&uri, &page, total, (&hub, &reads), item))
}

pub(crate) async fn one(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    let params = query::params(&uri, &["fields"])?;
    let fields = listing::fields(&params, LIST.shows)?;
    let reads = query::consistent(&hub, &headers).await?;
    let id: OperationId = id.parse().map_err(|_| Problem::missing("an operation's id is a uuid"))?;
    let filter = OperationFilter { id: Some(id), sites: granted.principal.site_filter(), ..Default::default() };
    let found = reads.operations(&filter, &OperationRow::sort(None), None, 1).await?.rows;
    found
        .first()
        .map(|o| Json(listing::pick(item(o), fields.as_deref())))
        .ok_or_else(|| Problem::missing(format!("there is no operation {id}")))
}

fn item(o: &OperationRow) -> Value {
    json!({
        "id": o.id.to_string(), "device": o.device.to_string(), "name": o.name, "site": o.site, "verb": o.verb, "state": o.state, "by": o.by, "reason": o.reason,
        "message": o.message, "started_at": o.started_at.to_string(), "ended_at": o.ended_at.map(|t| t.to_string()),
        "deadline": o.deadline.map(|t| t.to_string()),
    })
}
