//! GET `/devices/{id}/why`: what it waits for, and what may be asked of it now.

use super::{devices, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri};
use fleet_lifecycle::why::{Verdict, verdicts};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn why(
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
    let verbs: Vec<_> = verdicts(&doc.state, doc.version, &reference, now).iter().map(verb).collect();
    Ok(Json(json!({
        "id": doc.state.id.to_string(), "name": doc.state.name(), "phase": doc.state.phase.map(|p| p.as_str()), "version": doc.version,
        "waiting_for": render::waiting(&doc.state, &reference), "plans": render::plans(&doc.state), "verbs": verbs,
    })))
}

fn verb(v: &Verdict) -> Value {
    match &v.refusal {
        None => json!({"verb": v.verb, "allowed": true}),
        Some(r) => json!({
            "verb": v.verb, "allowed": false, "code": r.code, "guard": r.guard, "expected": r.expected, "seen": r.seen, "helps": r.helps,
        }),
    }
}
