//! GET `/audit/denials`: what was denied, newest first.

use super::{listing, query};
use crate::access::{AuditRead, Denial, Granted};
use crate::{Hub, Problem};
use axum::{extract::State, http::Uri, response::Response};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(_: Granted<AuditRead>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Response, Problem> {
    let params = query::params(&uri, &["limit", "cursor"])?;
    let limit = query::limit(&params)?;
    let before = params.get("cursor").map(|c| query::read_cursor(c, "denials")).transpose()?;
    let before = before.map(|parts| parts.first().and_then(|p| p.parse().ok()).ok_or_else(query::bad_cursor)).transpose()?;
    let mut rows = hub.denials.list(before, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|(id, _)| query::cursor("denials", &[&id.to_string()]));
    let items: Vec<_> = rows.iter().map(|(_, d)| item(d)).collect();
    let now = hub.journal.clock().now().to_string();
    let body = json!({"items": items, "next_cursor": next, "meta": {"as_of": now, "lag_seconds": 0.0, "sources": []}});
    Ok(listing::respond(body, next, &uri))
}

fn item(d: &Denial) -> Value {
    json!({
        "at": d.at.to_string(), "client": d.client, "reason": d.reason, "method": d.method, "path": d.path, "detail": d.detail,
        "unrecorded": d.unrecorded,
    })
}
