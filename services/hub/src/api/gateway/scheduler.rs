//! PATCH of section `scheduler`: what SLURM itself says of a device's node. An observation, though it looks like a change.

use super::{About, Devices, admit, bounded};
use crate::access::{DeviceUpdate, Granted, Principal};
use crate::api::{body::Whole, named::Named, query};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::StatusCode, http::Uri, response::IntoResponse, response::Response};
use fleet_schemas::wire::{BatchAnswer, DeviceItem, DevicesBatch, ItemResult, Run, SchedulerPatch};
use fleet_schemas::{Fact, Observation, SchedulerSeen, SourceSeq, StreamId, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn batch(
    granted: Granted<DeviceUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Json<BatchAnswer>, Problem> {
    query::params(&uri, &[])?;
    let batch: DevicesBatch = query::body(&bytes)?;
    let admitted = admit(&hub, &granted.principal, &site, &batch.run, batch.devices.len(), ("PATCH", &uri)).await?;
    let devices = admitted.devices(batch.devices.iter().map(|d| d.device.as_str())).await?;
    let (mut observations, mut answer) = (Vec::new(), BatchAnswer::default());
    for item in batch.devices {
        answer.results.push(match observation(&admitted, &devices, item) {
            Ok(observation) => {
                observations.push(observation);
                ItemResult::stored()
            }
            Err(refused) => refused,
        });
    }
    admitted.store(&observations, answer).await.map(Json)
}

fn observation(admitted: &super::Admitted<'_>, devices: &Devices, item: DeviceItem) -> Result<Observation, ItemResult> {
    let id = devices.find(&item.device)?;
    let seq = admitted.seq(item.source_seq.as_ref())?;
    let section = item.scheduler.map(|patch| checked(patch, &item.slurm_node)).transpose()?;
    let fact: Fact = SchedulerSeen { slurm_node: item.slurm_node.clone(), section }.into();
    let about = About { stream: StreamId::Device(id), native_id: item.slurm_node, observed_at: item.observed_at, seq };
    Ok(admitted.observation(about, &fact, None))
}

fn checked(patch: SchedulerPatch, slurm_node: &str) -> Result<fleet_schemas::SchedulerSection, ItemResult> {
    if let Some(other) = patch.slurm_node.as_deref().filter(|n| *n != slurm_node) {
        return Err(ItemResult::refused("identity-mismatch", format!("scheduler.slurm_node is `{other}`, not `{slurm_node}`")));
    }
    let texts = [&patch.reservation, &patch.gres, &patch.reason, &patch.user];
    for (name, text) in ["reservation", "gres", "reason", "user"].into_iter().zip(texts) {
        bounded(&format!("scheduler.{name}"), text.as_deref().unwrap_or_default(), 4096)?;
    }
    for (name, list) in [("state", &patch.state), ("partitions", &patch.partitions), ("features", &patch.features)] {
        bounded(&format!("scheduler.{name}"), &list.join(","), 8192)?;
    }
    Ok(patch.section(slurm_node))
}

/// PATCH `/devices/{id}`: section `scheduler` from the SLURM agent of the device's site.
pub(crate) async fn one(
    granted: Granted<DeviceUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let body: serde_json::Map<String, Value> = query::body(&bytes)?;
    if let Some(field) = body.keys().find(|f| *f != "scheduler" && *f != "annotations") {
        return Err(not_writable(&hub, &granted.principal, &uri, field));
    }
    let is_agent = hub.clients.get(&granted.principal.client).is_some_and(|c| c.source.is_some());
    match (body.get("scheduler"), body.get("annotations")) {
        (Some(_), _) if !is_agent => Err(not_writable(&hub, &granted.principal, &uri, "scheduler")),
        (_, Some(_)) if is_agent => Err(not_writable(&hub, &granted.principal, &uri, "annotations")),
        (Some(scheduler), None) => seen(&hub, &granted.principal, &id, scheduler, &uri).await,
        (None, Some(annotations)) => crate::api::annotations::set(&hub, &granted.principal, &id, annotations, &uri, &headers).await,
        (_, _) => Err(Problem::invalid("body", "`scheduler` from an agent, `annotations` from people")),
    }
}

fn not_writable(hub: &Hub, principal: &Principal, uri: &Uri, field: &str) -> Problem {
    let detail = format!("`{field}` is not for {} to write", principal.client);
    hub.denials.record(&principal.client, "field", "PATCH", uri.path(), &detail);
    Problem::new(StatusCode::FORBIDDEN, "field-forbidden", detail).with("field", json!(field))
}

/// Section `scheduler` of one device; `source_seq` stands inside it where the writer keeps an order.
async fn seen(hub: &Hub, principal: &Principal, id: &str, scheduler: &Value, uri: &Uri) -> Result<Response, Problem> {
    let mut patch = scheduler.clone();
    let mut take = |name: &str| patch.as_object_mut().and_then(|o| o.remove(name)).filter(|v| !v.is_null());
    let seq: Option<SourceSeq> = take("source_seq").map(|v| field(v, "scheduler.source_seq")).transpose()?;
    let observed_at: Option<String> = take("observed_at").map(|v| field(v, "scheduler.observed_at")).transpose()?;
    let observed_at: Option<Timestamp> =
        observed_at.map(|t| t.parse().map_err(|_| Problem::invalid("scheduler.observed_at", "an RFC 3339 time"))).transpose()?;
    let patch: SchedulerPatch = field(patch, "scheduler")?;
    let doc = crate::api::devices::to_write(hub, principal, id, "PATCH", uri).await?;
    let Some(site) = doc.state.site.clone() else { return Err(Problem::missing(format!("there is no device {id}"))) };
    let run = Run { epoch: seq.as_ref().map(|s| s.epoch), ..Run::default() };
    let admitted = admit(hub, principal, site.as_str(), &run, 1, ("PATCH", uri)).await?;
    let linked = doc.state.inventory.as_ref().and_then(|i| i.slurm_node.clone()).unwrap_or_default();
    let slurm_node = patch.slurm_node.clone().unwrap_or_else(|| linked.clone());
    if slurm_node.is_empty() || slurm_node != linked {
        let detail = format!("the device is linked to SLURM node `{linked}`, not to `{slurm_node}`");
        return Err(Problem::new(StatusCode::CONFLICT, "identity-mismatch", detail));
    }
    let refused = |r: ItemResult| Problem::new(StatusCode::BAD_REQUEST, &r.code, r.detail).with("field", json!("scheduler"));
    let seq = admitted.seq(seq.as_ref()).map_err(refused)?;
    let section = checked(patch, &slurm_node).map_err(refused)?;
    let before = doc.state.scheduler.as_ref() == Some(&section);
    let fact: Fact = SchedulerSeen { slurm_node: slurm_node.clone(), section: Some(section) }.into();
    let about = About { stream: StreamId::Device(doc.state.id), native_id: slurm_node, observed_at, seq };
    let observation = admitted.observation(about, &fact, None);
    admitted.store(std::slice::from_ref(&observation), BatchAnswer::default()).await?;
    if !before {
        super::conditions::shown(hub, &observation.stream).await?;
    }
    let device = crate::api::devices::find(&hub.reads(), principal, id).await?;
    let body = crate::render::device(&device, &hub.journal.reference(), hub.journal.clock().now());
    Ok(Json(json!({"id": body["id"], "name": body["name"], "version": body["version"], "scheduler": body["scheduler"]})).into_response())
}

fn field<T: serde::de::DeserializeOwned>(value: Value, name: &str) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|e| {
        let path = e.path().to_string();
        let path = if path == "." { name.to_owned() } else { format!("{name}.{path}") };
        Problem::invalid(&path, e.into_inner().to_string())
    })
}
