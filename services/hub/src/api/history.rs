//! GET `/devices/{id}/history` (decisions) and `/timeline` (people's reading of them).

use super::{devices, listing, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render, telling};
use axum::{extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_projections::HistoryRow;
use fleet_schemas::{StreamId, payload_to_json};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn history(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    page(&granted, &hub, &id, &uri, &headers, |row| vec![decision(row)]).await
}

pub(crate) async fn timeline(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    page(&granted, &hub, &id, &uri, &headers, entries).await
}

async fn page(
    granted: &Granted<DeviceRead>,
    hub: &Hub,
    id: &str,
    uri: &Uri,
    headers: &HeaderMap,
    show: impl Fn(&HistoryRow) -> Vec<Value>,
) -> Result<Response, Problem> {
    let params = query::params(uri, &["limit", "cursor"])?;
    let limit = query::limit(&params)?;
    let reads = query::consistent(hub, headers).await?;
    let doc = devices::find(&reads, &granted.principal, id).await?;
    let question = doc.state.id.to_string();
    let before = match params.get("cursor") {
        Some(cursor) => match query::read_cursor(cursor, &question)?.as_slice() {
            [offset] => Some(offset.parse().map_err(|_| query::bad_cursor())?),
            _ => return Err(query::bad_cursor()),
        },
        None => None,
    };
    let mut rows = reads.history(&StreamId::Device(doc.state.id), before, limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|r| query::cursor(&question, &[&r.offset.to_string()]));
    let meta = render::meta(&reads, &hub.journal.reference(), hub.journal.clock().now());
    Ok(listing::respond(render::list(rows.iter().flat_map(show).collect(), next.clone(), meta), next, uri))
}

fn cite(row: &HistoryRow) -> Value {
    json!({"partition": row.partition, "offset": row.offset, "hash": row.hash.to_string()})
}

fn decision(row: &HistoryRow) -> Value {
    let d = &row.decision;
    let event = |p: &fleet_schemas::Payload| payload_to_json(p).unwrap_or_else(|e| json!({"type": p.r#type, "undecodable": e.to_string()}));
    let cause = json!({
        "kind": d.cause.kind.as_str(), "command": d.cause.command.map(|c| c.to_string()), "observation": d.cause.observation.map(|o| o.to_string()),
        "source": d.cause.source.map(|s| s.as_str()), "wait": d.cause.wait.map(|w| w.as_str()), "offset": d.cause.offset,
    });
    json!({
        "id": d.id.to_string(), "version": d.version, "recorded_at": d.recorded_at.to_string(), "occurred_at": d.occurred_at.map(|t| t.to_string()),
        "observed_at": d.observed_at.map(|t| t.to_string()), "received_at": d.received_at.map(|t| t.to_string()), "cause": cause,
        "actor": {"subject": d.actor.subject, "client": d.actor.client, "on_behalf_of": d.actor.on_behalf_of}, "reason": d.reason,
        "outcome": {"kind": d.outcome.kind.as_str(), "code": d.outcome.code, "guard": d.outcome.guard, "expected": d.outcome.expected,
            "seen": d.outcome.seen, "helps": d.outcome.helps},
        "events": d.events.iter().map(event).collect::<Vec<_>>(),
        "prev_hash": d.prev_hash.to_string(), "journal": cite(row),
    })
}

fn entries(row: &HistoryRow) -> Vec<Value> {
    let d = &row.decision;
    let lines = telling::tell(d);
    let entry = |text: String| {
        json!({
            "at": d.recorded_at.to_string(), "version": d.version, "actor": d.actor.subject, "cause": d.cause.kind.as_str(), "text": text, "journal": cite(row),
        })
    };
    lines.into_iter().rev().map(entry).collect()
}
