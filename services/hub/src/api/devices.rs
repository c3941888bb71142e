//! GET `/devices`, `/devices/{id}`.

use super::{listing, named::Named, past, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::StatusCode, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_projections::{DeviceDoc, DeviceFilter, DeviceRow, Reads, filter::DEVICE_FIELDS};
use std::sync::Arc;

pub(super) const LIST: listing::Kind = listing::Kind {
    fields: DEVICE_FIELDS,
    sort: DeviceRow::sort,
    shows: &[
        "id",
        "name",
        "site",
        "role",
        "phase",
        "owner",
        "tenant_state",
        "rack",
        "slurm_node",
        "conditions_bad",
        "updated_at",
        "version",
    ],
};

/// The sections of one device.
pub(super) const SECTIONS: &[&str] = &[
    "id",
    "name",
    "version",
    "updated_at",
    "hash",
    "stopped",
    "identity",
    "inventory",
    "lifecycle",
    "scheduler",
    "conditions",
    "operation",
    "annotations",
    "plans",
    "waiting_for",
];

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
    let filter = DeviceFilter { sites: granted.principal.site_filter(), matching: asked.matching.clone(), ..Default::default() };
    let page = reads.device_page(&filter, &asked.sort, asked.after.as_deref(), asked.limit).await?;
    let total = if asked.count { Some(reads.count_devices(&filter).await?) } else { None };
    Ok(asked.answer(&uri, &page, total, (&hub, &reads), |row| render::device_item(row, &reference)))
}

/// The device that a path names, if the caller's right reaches it.
pub(crate) async fn find(reads: &Reads, granted: &crate::access::Principal, text: &str) -> Result<DeviceDoc, Problem> {
    let id = query::device_id(reads, text, granted.site_filter()).await?;
    let found = reads.device(id).await?.filter(|d| d.state.site.as_ref().is_some_and(|s| granted.reaches(s)));
    found.ok_or_else(|| Problem::missing(format!("there is no device {id}")))
}

/// The same for a write. A device that is there but out of reach is told like none, and recorded as a denial.
pub(crate) async fn to_write(
    hub: &Hub,
    granted: &crate::access::Principal,
    text: &str,
    method: &'static str,
    uri: &Uri,
) -> Result<DeviceDoc, Problem> {
    let reads = hub.reads();
    let found = find(&reads, granted, text).await;
    if found.as_ref().is_err_and(|p| p.status() == StatusCode::NOT_FOUND)
        && let Ok(id) = query::device_id(&reads, text, None).await
        && let Some(other) = reads.device(id).await?
    {
        let site = other.state.site.as_ref().map_or("no site", |s| s.as_str());
        hub.denials.record(&granted.client, "reach", method, uri.path(), &format!("the device is at {site}"));
    }
    found
}

pub(crate) async fn one(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["fields", "at", "version"])?;
    let fields = listing::fields(&params, SECTIONS)?;
    let point = past::point(&params, hub.journal.clock().now())?;
    let reads = query::consistent(&hub, &headers).await?;
    let seen = past::see(&hub, &reads, &granted.principal, &id, point).await?;
    let mut body = listing::pick(render::device(&seen.doc, &seen.reference, seen.now), fields.as_deref());
    if seen.then {
        body["at"] = seen.now.to_string().into();
    }
    let mut response = Json(body).into_response();
    if let Ok(etag) = format!("\"v{}\"", seen.doc.version).parse() {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}
