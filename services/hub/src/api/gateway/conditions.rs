//! Conditions from those who may state them: a batch of a site, or one of a device.

use super::{About, Admitted, Devices, admit, bounded, unclaimed};
use crate::access::{ConditionCreate, Granted};
use crate::api::{body::Whole, devices, named::Named, query};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::StatusCode, http::Uri, response::IntoResponse, response::Response};
use fleet_schemas::wire::{BatchAnswer, ConditionItem, ConditionsBatch, ItemResult, Run, Sweep};
use fleet_schemas::{
    ConditionReport, ConditionsSeen, DeviceId, Fact, LookFailed, LookFault, Observation, SourceSeq, StreamId, SweepCompleted, Timestamp,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// How long a changed condition is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// POST `/sites/{site}/conditions:batch`.
pub(crate) async fn batch(
    granted: Granted<ConditionCreate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Json<BatchAnswer>, Problem> {
    query::params(&uri, &[])?;
    let batch: ConditionsBatch = query::body(&bytes)?;
    let items = batch.conditions.len() + batch.unclaimed.len();
    let admitted = admit(&hub, &granted.principal, &site, &batch.run, items, ("POST", &uri)).await?;
    let devices = admitted.devices(batch.conditions.iter().map(|c| c.device.as_str())).await?;
    let mut answer = BatchAnswer::default();
    let mut looks: Vec<(About, Vec<ConditionReport>)> = Vec::new();
    for item in batch.conditions {
        let taken = about(&admitted, &devices, &item).and_then(|about| may(&admitted, &item, &uri).map(|()| about));
        answer.results.push(match taken {
            Ok(about) => {
                match looks.last_mut() {
                    Some((last, reports)) if same(last, &about) => reports.push(item.report()),
                    _ => looks.push((about, vec![item.report()])),
                }
                ItemResult::stored()
            }
            Err(refused) => refused,
        });
    }
    let fact = |reports| ConditionsSeen { conditions: reports }.into();
    let mut observations: Vec<Observation> =
        looks.into_iter().map(|(about, reports)| admitted.observation(about, &fact(reports), None)).collect();
    if let Some(sweep) = batch.sweep {
        let ended = end_of(&admitted, sweep)?;
        observations.push(ended);
        answer.results.push(ItemResult::stored());
        answer.device_list = Some(admitted.list_digest().await?);
    }
    unclaimed::take(&admitted, batch.unclaimed, &mut observations, &mut answer.results);
    admitted.store(&observations, answer).await.map(Json)
}

/// Statements of one look at one device, which are one fact.
fn same(a: &About, b: &About) -> bool {
    a.stream == b.stream && a.seq == b.seq && a.native_id == b.native_id && a.observed_at == b.observed_at
}

fn about(admitted: &Admitted<'_>, devices: &Devices, item: &ConditionItem) -> Result<About, ItemResult> {
    let id: DeviceId = devices.find(&item.device)?;
    let linked = devices.by_id.get(&id).and_then(Option::as_deref);
    if let Some(other) = item.native_id.as_deref().filter(|n| Some(*n) != linked) {
        let detail = format!("the device is linked to `{}`, not to `{other}`", linked.unwrap_or_default());
        return Err(ItemResult::refused("identity-mismatch", detail));
    }
    let seq = admitted.seq(item.source_seq.as_ref())?;
    let native_id = item.native_id.clone().unwrap_or_default();
    Ok(About { stream: StreamId::Device(id), native_id, observed_at: item.observed_at, seq })
}

/// Whether the sender may state this type; another is refused whether or not it exists.
fn may(admitted: &Admitted<'_>, item: &ConditionItem, uri: &Uri) -> Result<(), ItemResult> {
    let granted = admitted.hub.clients.get(&admitted.principal.client).is_some_and(|c| c.conditions.contains(&item.r#type));
    if !granted {
        let detail = format!("`{}` is not for {} to state", item.r#type.chars().take(80).collect::<String>(), admitted.principal.client);
        admitted.hub.denials.record(&admitted.principal.client, "type", "POST", uri.path(), &detail);
        return Err(ItemResult::refused("type-not-granted", detail));
    }
    let camel = item.reason.chars().next().is_some_and(|c| c.is_ascii_uppercase())
        && item.reason.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | ' ' | '_'));
    if !camel {
        return Err(ItemResult::refused(
            "invalid",
            format!("reason: `{}` is not CamelCase", item.reason.chars().take(80).collect::<String>()),
        ));
    }
    bounded("reason", &item.reason, 128)?;
    bounded("subject", &item.subject, 128)?;
    bounded("message", &item.message, 4096)
}

fn end_of(admitted: &Admitted<'_>, sweep: Sweep) -> Result<Observation, Problem> {
    if sweep.source != admitted.source.as_str() {
        let detail = format!("`{}`: {} looks at {}", sweep.source, admitted.principal.client, admitted.source);
        return Err(Problem::invalid("sweep.source", detail));
    }
    let known = admitted.hub.journal.reference().source(&admitted.site, admitted.source).map_or(60, |s| s.config.interval_seconds);
    let interval_seconds = sweep.interval_seconds.unwrap_or(known);
    if !(1..=86_400).contains(&interval_seconds) || sweep.count < 0 {
        return Err(Problem::invalid("sweep", "interval_seconds from 1 to 86,400; count from 0"));
    }
    let refused = |r: ItemResult| Problem::invalid("sweep.source_seq", r.detail);
    let seq = admitted.seq(sweep.source_seq.as_ref()).map_err(refused)?;
    let source = admitted.source;
    let fact: Fact = if sweep.complete {
        SweepCompleted { source, interval_seconds, count: sweep.count }.into()
    } else {
        let message = sweep.message.chars().take(500).collect();
        LookFailed { source, interval_seconds, fault: sweep.fault.unwrap_or(LookFault::NoData), message }.into()
    };
    let site = StreamId::Site(admitted.site.clone());
    let about = About { stream: site, native_id: admitted.site.to_string(), observed_at: sweep.observed_at, seq };
    Ok(admitted.observation(about, &fact, None))
}

/// POST `/devices/{id}/conditions`.
pub(crate) async fn one(
    granted: Granted<ConditionCreate>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let item: ConditionItem = query::body(&bytes)?;
    let principal = &granted.principal;
    let doc = devices::to_write(&hub, principal, &id, "POST", &uri).await?;
    let Some(site) = doc.state.site.clone() else { return Err(Problem::missing(format!("there is no device {id}"))) };
    if !item.device.is_empty() {
        return Err(Problem::invalid("device", "the path names it"));
    }
    let run = Run { epoch: item.source_seq.as_ref().map(|s: &SourceSeq| s.epoch), ..Run::default() };
    let admitted = admit(&hub, principal, site.as_str(), &run, 1, ("POST", &uri)).await?;
    let device = DeviceId::to_string(&doc.state.id);
    let item = ConditionItem { device, ..item };
    may(&admitted, &item, &uri).map_err(problem)?;
    let linked = doc.state.inventory.as_ref().and_then(|i| i.slurm_node.clone());
    let devices = super::Devices::of(doc.state.id, linked);
    let about = about(&admitted, &devices, &item).map_err(problem)?;
    let observation = admitted.observation(about, &ConditionsSeen { conditions: vec![item.report()] }.into(), None);
    let stands = |c: &fleet_lifecycle::device::Condition| {
        (c.status, &c.reason, &c.message, &c.site, c.confirmed_live) == (item.status, &item.reason, &item.message, &site, true)
    };
    let unchanged = doc.state.conditions.get(&item.r#type, &item.subject).is_some_and(stands);
    admitted.store(std::slice::from_ref(&observation), BatchAnswer::default()).await?;
    if !unchanged {
        shown(&hub, &observation.stream).await?;
    }
    let now = hub.journal.clock().now();
    let doc = devices::find(&hub.reads(), principal, &id).await?;
    let Some(condition) = doc.state.conditions.get(&item.r#type, &item.subject) else {
        // The decider set it aside; the history says why.
        let detail = "the statement was kept without effect; the device's history says why";
        return Err(Problem::new(StatusCode::CONFLICT, "set-aside", detail));
    };
    let body = render::condition(condition, doc.state.site.as_ref(), &hub.journal.reference(), now);
    Ok(stamped(&hub, body, now))
}

fn problem(refused: ItemResult) -> Problem {
    let status = match refused.code.as_str() {
        "type-not-granted" => StatusCode::FORBIDDEN,
        "identity-mismatch" => StatusCode::CONFLICT,
        "unknown-device" => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    };
    Problem::new(status, &refused.code, refused.detail)
}

/// With how old the read model is.
fn stamped(hub: &Hub, body: Value, now: Timestamp) -> Response {
    let as_of = render::meta(&hub.reads(), &hub.journal.reference(), now)["as_of"].as_str().unwrap_or_default().to_owned();
    let mut response = Json(json!(body)).into_response();
    if let Ok(value) = as_of.parse() {
        response.headers_mut().insert("fleet-as-of", value);
    }
    response
}

/// Waits until whatever was appended about `stream` so far is decided, and the read model shows it.
pub(crate) async fn shown(hub: &Hub, stream: &StreamId) -> Result<(), Problem> {
    let late = || {
        let detail = "stored, and not decided or not shown yet; read the device in a moment";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "projection-lagging", detail).header("retry-after", "1")
    };
    let partition = stream.partition(hub.journal.topics().partitions);
    let decided = tokio::time::timeout(PATIENCE, hub.journal.observed(partition));
    let end = decided.await.map_err(|_| late())?.map_err(|e| Problem::internal(&e))?;
    if end > 0 && !hub.reads().reached(partition, end - 1, PATIENCE).await {
        return Err(late());
    }
    Ok(())
}
