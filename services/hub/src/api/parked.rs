//! `/admin/parked`: input that could not be used, and what becomes of it.

use super::{body::Whole, commands, named::Named, query};
use crate::access::{Admin, Granted, Principal};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::StatusCode, http::Uri};
use fleet_projections::{CloseError, ParkedRow};
use fleet_schemas::{Closing, Hash, ParkedClosed};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    let params = query::params(&uri, &["limit", "closed"])?;
    let rows = hub.reads().parked(query::flag(&params, "closed")?, query::limit(&params)?).await?;
    Ok(Json(json!({"items": rows.iter().map(item).collect::<Vec<_>>()})))
}

pub(crate) async fn one(_: Granted<Admin>, State(hub): State<Arc<Hub>>, Named(id): Named, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    Ok(Json(item(&find(&hub, &id).await?)))
}

/// The input's bytes are shown by size and digest alone: whatever could not be decoded could hold anything.
fn item(p: &ParkedRow) -> Value {
    let closed = p.closed.as_ref().map(|(how, by, reason, at)| json!({"how": how, "by": by, "reason": reason, "at": at.to_string()}));
    json!({
        "id": format!("{}:{}:{}", p.topic, p.partition, p.offset), "topic": p.topic, "partition": p.partition, "offset": p.offset,
        "key": String::from_utf8_lossy(&p.key), "bytes": p.value.len(), "sha256": Hash::of(&p.value).to_string(),
        "parked_by": p.parked_by, "why": p.why, "parked_at": p.parked_at.to_string(), "closed": closed,
    })
}

async fn find(hub: &Hub, id: &str) -> Result<ParkedRow, Problem> {
    let missing = || Problem::missing("there is no such parked input; its id is <topic>:<partition>:<offset>");
    let mut parts = id.rsplitn(3, ':');
    let (offset, partition) = (parts.next().and_then(|o| o.parse().ok()), parts.next().and_then(|p| p.parse().ok()));
    let (Some(offset), Some(partition), Some(topic)) = (offset, partition, parts.next()) else { return Err(missing()) };
    hub.reads().parked_one(topic, partition, offset).await?.ok_or_else(missing)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    reason: String,
}

pub(crate) async fn replay(
    granted: Granted<Admin>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Json<Value>, Problem> {
    close(&granted.principal, &hub, &id, &uri, &bytes, Closing::Replayed).await
}

pub(crate) async fn discard(
    granted: Granted<Admin>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Json<Value>, Problem> {
    close(&granted.principal, &hub, &id, &uri, &bytes, Closing::Discarded).await
}

async fn close(principal: &Principal, hub: &Hub, id: &str, uri: &Uri, bytes: &[u8], closing: Closing) -> Result<Json<Value>, Problem> {
    query::params(uri, &[])?;
    let body: Body = query::body(bytes)?;
    commands::said_why(&body.reason)?;
    let row = find(hub, id).await?;
    if let Some((how, by, ..)) = &row.closed {
        return Err(taken(format!("it was {how} by {by} already")));
    }
    let (by, reason, closed_at) = (principal.subject.clone(), body.reason, hub.journal.clock().now());
    let closed = ParkedClosed { topic: row.topic.clone(), partition: row.partition, offset: row.offset, closing, by, reason, closed_at };
    hub.generations.close_parked(&row, &closed).await.map_err(|e| match e {
        CloseError::Taken => taken("somebody else closes it at this moment, or has".into()),
        CloseError::Log(_) | CloseError::Control(_) => not_stored(&e),
    })?;
    Ok(Json(json!({"id": id, "how": closing.as_str(), "by": closed.by, "at": closed.closed_at.to_string()})))
}

fn taken(detail: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "parked-closed", detail)
}

fn not_stored(error: &CloseError) -> Problem {
    tracing::error!(%error, "a parked input could not be closed");
    let detail = "the log may not have it; look at the input again before another try";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-stored", detail).header("retry-after", "1")
}
