//! GET `/attention`, POST `/attention/{id}/acknowledge`: whatever waits for a person.

use super::{body::Whole, commands, devices, listing, named::Named, query};
use crate::access::{DeviceRead, Granted, LifecycleCreate};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::IntoResponse, response::Response};
use fleet_lifecycle::Reference;
use fleet_projections::{AttentionFilter, AttentionRow, filter::ATTENTION_FIELDS};
use fleet_schemas::{AcknowledgeAttention, Command, SiteId, StreamId, WaitKind};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const LIST: listing::Kind = listing::Kind {
    fields: ATTENTION_FIELDS,
    sort: AttentionRow::sort,
    shows: &["id", "device", "name", "site", "role", "item", "why", "since", "owner", "ways_out", "acknowledged"],
};

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, listing::PARAMS)?;
    let reference = hub.journal.reference();
    let asked = listing::asked(&params, &LIST, "", &reference)?;
    let reads = query::consistent(&hub, &headers).await?;
    let filter = AttentionFilter { sites: granted.principal.site_filter(), matching: asked.matching.clone() };
    let page = reads.attention(&filter, &asked.sort, asked.after.as_deref(), asked.limit).await?;
    let total = if asked.count { Some(reads.count_attention(&filter).await?) } else { None };
    Ok(asked.answer(&uri, &page, total, (&hub, &reads), |row| item(row, &reference)))
}

fn item(row: &AttentionRow, reference: &Reference) -> Value {
    let acknowledged = row.acknowledged.as_ref().map(|(by, at, reason)| json!({"by": by, "at": at.to_string(), "reason": reason}));
    json!({
        "id": format!("{}:{}", row.device, row.item), "device": row.device.to_string(), "name": row.name, "site": row.site, "role": row.role,
        "item": row.item, "why": row.why, "since": row.since.to_string(), "owner": owner(row, reference),
        "ways_out": row.ways_out, "acknowledged": acknowledged,
    })
}

/// The team that the site's owner map names: of the source that is not seen, else of the device's role.
fn owner(row: &AttentionRow, reference: &Reference) -> String {
    let site = row.site.parse::<SiteId>().ok();
    let waits = row.item.strip_prefix("unobservable-").and_then(|w| w.parse::<WaitKind>().ok());
    let source = waits.and_then(fleet_lifecycle::device::source_of);
    site.and_then(|s| reference.team(&s, source, &row.role)).unwrap_or("operator").to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    reason: String,
}

pub(crate) async fn acknowledge(
    granted: Granted<LifecycleCreate>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let body: Body = query::body(&bytes)?;
    commands::said_why(&body.reason)?;
    let (device, item) = id.split_once(':').ok_or_else(|| Problem::missing("an item's id is <device>:<item>"))?;
    let doc = devices::to_write(&hub, &granted.principal, device, "POST", &uri).await?;
    let ask = AcknowledgeAttention { name: item.into() }.into();
    let command = Command {
        id: commands::command_id(&granted.principal, uri.path(), &headers)?,
        expected_version: commands::expected_version(&headers)?,
        trace_id: commands::trace_id(&headers),
        ..commands::command(StreamId::Device(doc.state.id), &ask, &granted.principal, &body.reason, hub.journal.clock().now())
    };
    match commands::put(&hub, &command, &headers).await? {
        commands::Came::Pending => Ok(commands::pending(&command, "/api/v1/attention".into())),
        commands::Came::Decided(answer) => {
            commands::granted(&command, &answer)?;
            let decided = &answer.decided;
            let body = json!({"id": id, "decision": decided.decision.to_string(), "repeated": answer.repeated, "version": decided.version});
            Ok(commands::stamped(Json(body).into_response(), &answer))
        }
    }
}
