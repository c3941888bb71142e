//! `/admin/projections`: the generations of the read model.

use super::{body::Whole, query};
use crate::access::{Admin, Granted};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::StatusCode, http::Uri};
use fleet_projections::{Generation, Unturned};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn projections(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    listed(&hub).await
}

async fn listed(hub: &Hub) -> Result<Json<Value>, Problem> {
    let all = hub.generations.list().await?;
    Ok(Json(json!({"items": all.iter().map(item).collect::<Vec<_>>()})))
}

fn item(g: &Generation) -> Value {
    let partition = |(p, next): (&u32, &u64)| {
        let standing = g.progress.partitions.get(p);
        json!({
            "partition": p, "next": next, "recorded_at": standing.map(|s| s.recorded_at.to_string()),
            "stopped": standing.and_then(|s| s.stopped.clone()),
        })
    };
    let partitions: Vec<_> = g.next.iter().map(partition).collect();
    json!({"generation": g.number, "active": g.active, "fed": g.fed, "idle": g.progress.idle, "partitions": partitions})
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

/// These three take no parameter, and answer with the generations as they then are.
pub(crate) async fn flip(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    hub.generations.flip().await.map_err(unturned)?;
    listed(&hub).await
}

pub(crate) async fn roll_back(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    hub.generations.roll_back().await.map_err(unturned)?;
    listed(&hub).await
}

pub(crate) async fn drop_standby(_: Granted<Admin>, State(hub): State<Arc<Hub>>, uri: Uri) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    hub.generations.drop_standby().await?;
    listed(&hub).await
}

fn unturned(why: Unturned) -> Problem {
    match why {
        Unturned::Failed(error) => error.into(),
        Unturned::None(..) => Problem::new(StatusCode::CONFLICT, "no-such-generation", why.to_string()),
        Unturned::Behind { .. } => Problem::new(StatusCode::CONFLICT, "generation-behind", why.to_string()),
    }
}
