//! `/`, `/livez`, `/readyz`: open to all.

use crate::Hub;
use crate::access::Routes;
use crate::openapi::open_op;
use axum::{Json, extract::State, http::StatusCode, response::IntoResponse, response::Response};
use fleet_journal::Phase;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// A loop that did not go round for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);
/// A read model older than this is not ready to serve.
const LAG: Duration = Duration::from_secs(30);

pub(crate) fn routes() -> Routes {
    let ready = "{ok:bool lag_seconds:number? partitions:[object] projections_halted:[object]}";
    let live = "{ok:bool stuck:[{partition:int seconds:int}]}";
    Routes::default()
        .open_get(
            "/",
            open_op("getRoot", "What answers here")
                .ok("{name:string version:string api:string docs:string openapi:string health:[string]}"),
            root,
        )
        .open_get("/livez", open_op("getLive", "Whether every loop goes round").ok(live).answer(503, live), livez)
        .open_get("/readyz", open_op("getReady", "Whether it can serve").ok(ready).answer(503, ready), readyz)
}

async fn root() -> Json<Value> {
    Json(
        json!({"name": "fleet-manager", "version": env!("CARGO_PKG_VERSION"), "api": "/api/v1", "docs": "/docs", "openapi": "/openapi.json", "health": ["/livez", "/readyz"]}),
    )
}

/// Each loop made progress lately; never a dependency.
async fn livez(State(hub): State<Arc<Hub>>) -> Response {
    let stuck: Vec<_> = hub
        .journal
        .statuses()
        .iter()
        .filter(|s| s.beat.elapsed() > STUCK && !matches!(s.phase, Phase::Stopped(_)))
        .map(|s| json!({"partition": s.partition, "seconds": s.beat.elapsed().as_secs()}))
        .collect();
    let status = if stuck.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"ok": stuck.is_empty(), "stuck": stuck}))).into_response()
}

/// The same of a hub that serves nothing but this: it needs no read model.
pub(crate) fn without_api() -> axum::Router<Arc<Hub>> {
    let ready = async |State(hub): State<Arc<Hub>>| {
        let ok = settled(&hub);
        let partitions: Vec<_> = hub.journal.statuses().iter().map(partition).collect();
        let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(json!({"ok": ok, "partitions": partitions}))).into_response()
    };
    axum::Router::new().route("/livez", axum::routing::get(livez)).route("/readyz", axum::routing::get(ready))
}

fn settled(hub: &Hub) -> bool {
    hub.journal.statuses().iter().all(|s| matches!(s.phase, Phase::Leading | Phase::Standby | Phase::Stopped(_)))
}

/// Every partition leads, reads along or is shown stopped, and the read model is close behind.
async fn readyz(State(hub): State<Arc<Hub>>) -> Response {
    let reads = hub.reads();
    let lag = reads.lag();
    let partitions: Vec<_> = hub.journal.statuses().iter().map(partition).collect();
    let halted: Vec<_> =
        reads.progress().partitions.iter().filter_map(|(p, s)| s.stopped.clone().map(|why| json!({"partition": p, "why": why}))).collect();
    let ok = settled(&hub) && lag < LAG;
    let body = json!({
        "ok": ok, "lag_seconds": (lag != Duration::MAX).then_some(lag.as_secs_f64()), "partitions": partitions, "projections_halted": halted,
    });
    (if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, Json(body)).into_response()
}

fn partition(s: &fleet_journal::Status) -> Value {
    let (phase, why) = match &s.phase {
        Phase::Following => ("following", None),
        Phase::Standby => ("standby", None),
        Phase::Claiming => ("claiming", None),
        Phase::Leading => ("leading", None),
        Phase::Stopped(why) => ("stopped", Some(why)),
    };
    json!({
        "partition": s.partition, "phase": phase, "why": why, "term": s.term, "decisions": s.stats.decisions, "fenced": s.stats.fenced, "streams": s.stats.streams,
    })
}
