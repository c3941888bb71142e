//! GET `/devices`, `/devices/{id}`.

use super::{filter, named::Named, query};
use crate::access::{DeviceRead, Granted};
use crate::{Hub, Problem, render};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_projections::{DeviceDoc, DeviceFilter, ListCursor, Reads};
use fleet_schemas::{Owner, Phase, SiteId};
use serde_json::Value;
use std::{fmt::Display, str::FromStr, sync::Arc};

const FIELDS: &[&str] = &["name", "site", "phase", "role", "owner", "rack"];

pub(crate) async fn list(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["filter", "limit", "cursor", "count"])?;
    let limit = query::limit(&params)?;
    let text = params.get("filter").cloned().unwrap_or_default();
    let reads = query::consistent(&hub, &headers).await?;
    let filter = asked(&text, granted.principal.site_filter())?;
    let after = params.get("cursor").map(|c| cursor(c, &text)).transpose()?;
    let mut rows = reads.devices(&filter, after.as_ref(), limit + 1).await?;
    let more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| more).map(|r| query::cursor(&text, &[&r.name, &r.id.to_string()]));
    let reference = hub.journal.reference();
    let now = hub.journal.clock().now();
    let meta = render::meta(&reads, &reference, now);
    let items = rows.iter().map(|r| render::device_item(r, &reference)).collect();
    let mut body = render::list(items, next.clone(), meta);
    if params.get("count").is_some_and(|c| c == "true") {
        body["total"] = reads.count_devices(&filter).await?.into();
    }
    Ok(page(body, next))
}

/// A page with its headers.
pub(crate) fn page(body: Value, next: Option<String>) -> Response {
    let as_of = body["meta"]["as_of"].as_str().unwrap_or_default().to_owned();
    let mut response = Json(body).into_response();
    if let Ok(value) = as_of.parse() {
        response.headers_mut().insert("fleet-as-of", value);
    }
    if let Some(Ok(value)) = next.map(|n| format!("<?cursor={n}>; rel=\"next\"").parse()) {
        response.headers_mut().insert(header::LINK, value);
    }
    response
}

fn asked(text: &str, reach: Option<Vec<String>>) -> Result<DeviceFilter, Problem> {
    let mut given = filter::read(text, FIELDS)?;
    let mut take = |name: &str| given.remove(name);
    let site = word::<SiteId>(take("site"))?;
    let sites = match (site, reach) {
        (Some(site), Some(reach)) => Some(reach.into_iter().filter(|s| *s == site).collect()),
        (Some(site), None) => Some(vec![site]),
        (None, reach) => reach,
    };
    Ok(DeviceFilter {
        sites,
        name: take("name"),
        phase: word::<Phase>(take("phase"))?,
        role: take("role"),
        owner: word::<Owner>(take("owner"))?,
        rack: take("rack"),
    })
}

/// What no device can ever have is refused; an empty list would look like an answer.
fn word<T: FromStr<Err: Display>>(value: Option<String>) -> Result<Option<String>, Problem> {
    match value.as_deref().map(T::from_str) {
        Some(Err(e)) => Err(Problem::invalid("filter", e.to_string())),
        Some(Ok(_)) | None => Ok(value),
    }
}

fn cursor(text: &str, question: &str) -> Result<ListCursor, Problem> {
    let parts = query::read_cursor(text, question)?;
    match parts.as_slice() {
        [name, id] => Ok(ListCursor { name: name.clone(), id: id.parse().map_err(|_| query::bad_cursor())? }),
        _ => Err(query::bad_cursor()),
    }
}

/// The device that a path names, if the caller's right reaches it.
pub(crate) async fn find(reads: &Reads, granted: &crate::access::Principal, text: &str) -> Result<DeviceDoc, Problem> {
    let id = query::device_id(reads, text, granted.site_filter()).await?;
    let found = reads.device(id).await?.filter(|d| d.state.site.as_ref().is_some_and(|s| granted.reaches(s)));
    found.ok_or_else(|| Problem::missing(format!("there is no device {id}")))
}

pub(crate) async fn one(
    granted: Granted<DeviceRead>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let reads = query::consistent(&hub, &headers).await?;
    let doc = find(&reads, &granted.principal, &id).await?;
    let body = render::device(&doc, &hub.journal.reference(), hub.journal.clock().now());
    let mut response = Json(body).into_response();
    if let Ok(etag) = format!("\"v{}\"", doc.version).parse() {
        response.headers_mut().insert(header::ETAG, etag);
    }
    Ok(response)
}
