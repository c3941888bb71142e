//! `/admin`: parked input, projections.

use super::{body::Whole, query};
use crate::access::{Admin, Granted};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::Uri};
use fleet_projections::ParkedRow;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn parked(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    let params = query::params(&uri, &["limit"])?;
    let rows = hub.reads().parked(query::limit(&params)?).await?;
    Ok(Json(json!({"items": rows.iter().map(item).collect::<Vec<_>>()})))
}

/// The input's bytes are shown by size alone: whatever could not be decoded could hold anything.
fn item(p: &ParkedRow) -> Value {
    json!({
        "topic": p.topic, "partition": p.partition, "offset": p.offset, "key": String::from_utf8_lossy(&p.key), "bytes": p.value.len(),
        "parked_by": p.parked_by, "why": p.why, "parked_at": p.parked_at.to_string(),
    })
}

pub(crate) async fn projections(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let reads = hub.reads();
    let progress = reads.progress();
    let partitions: Vec<_> = progress
        .partitions
        .iter()
        .map(|(p, s)| json!({"partition": p, "next": s.next, "recorded_at": s.recorded_at.to_string(), "stopped": s.stopped}))
        .collect();
    Ok(Json(json!({"items": [{"generation": reads.generation(), "active": true, "idle": progress.idle, "partitions": partitions}]})))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rebuild {
    #[serde(default)]
    flip_anyway: bool,
}

pub(crate) async fn rebuild(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri, Whole(bytes): Whole) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let asked: Rebuild = if bytes.is_empty() { Rebuild::default() } else { query::body(&bytes)? };
    let generations = hub.generations.clone();
    // Of its own, so that a caller who leaves does not leave it half done.
    let built = tokio::spawn(async move { generations.rebuild(asked.flip_anyway).await }).await.map_err(|e| Problem::internal(&e))??;
    let differences: Vec<_> =
        built.differences.iter().map(|d| json!({"table": d.table, "served": d.served, "rebuilt": d.rebuilt})).collect();
    Ok(Json(json!({
        "generation": built.generation, "decisions": built.decisions, "devices": built.devices, "seconds": built.took.as_secs_f64(),
        "equal": differences.is_empty(), "differences": differences, "flipped": built.flipped,
    })))
}
