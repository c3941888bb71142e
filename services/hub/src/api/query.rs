//! Query parameters, cursors, bodies and consistency: what every route reads the same way.

use crate::{Hub, Problem};
use axum::{http::HeaderMap, http::StatusCode, http::Uri};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fleet_projections::Reads;
use fleet_schemas::{DeviceId, SiteId};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

/// Header with which a write's answer can be waited for.
pub(crate) const CONSISTENCY: &str = "fleet-consistency-token";
/// Code of a read model that is behind.
pub(crate) const LAGGING: &str = "projection-lagging";
/// How long a read waits for what its token names.
const CONSISTENCY_PATIENCE: Duration = Duration::from_secs(5);
/// Lines a page may have.
const LIMIT: u32 = 500;

/// The parameters of a request; those not in `known` are refused by name.
pub(crate) fn params(uri: &Uri, known: &[&str]) -> Result<BTreeMap<String, String>, Problem> {
    let parsed: axum::extract::Query<Vec<(String, String)>> =
        axum::extract::Query::try_from_uri(uri).map_err(|e| Problem::invalid("query", e.body_text()))?;
    let mut out = BTreeMap::new();
    for (name, value) in parsed.0 {
        if !known.contains(&name.as_str()) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Problem::invalid(&name, format!("there is no parameter `{name}`; there are: {known}")));
        }
        if out.insert(name.clone(), value).is_some() {
            return Err(Problem::invalid(&name, format!("`{name}` is given twice")));
        }
    }
    Ok(out)
}

/// `limit`, 50 where absent.
pub(crate) fn limit(params: &BTreeMap<String, String>) -> Result<u32, Problem> {
    match params.get("limit").map(|l| l.parse::<u32>()) {
        None => Ok(50),
        Some(Ok(limit)) if (1..=LIMIT).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::invalid("limit", format!("a number from 1 to {LIMIT}"))),
    }
}

/// A parameter that is `true` or `false`; false where absent.
pub(crate) fn flag(params: &BTreeMap<String, String>, name: &str) -> Result<bool, Problem> {
    match params.get(name).map(String::as_str) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Problem::invalid(name, "true or false")),
    }
}

/// An opaque cursor, bound to the question it was given for.
pub(crate) fn cursor(question: &str, parts: &[&str]) -> String {
    URL_SAFE_NO_PAD.encode(json!([question, parts]).to_string())
}

/// And back.
pub(crate) fn read_cursor(text: &str, question: &str) -> Result<Vec<String>, Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad_cursor())?;
    let (asked, parts): (String, Vec<String>) = serde_json::from_slice(&bytes).map_err(|_| bad_cursor())?;
    if asked == question {
        Ok(parts)
    } else {
        Err(Problem::invalid("cursor", "this cursor belongs to another filter or order; begin without one"))
    }
}

/// A cursor that we did not make.
pub(crate) fn bad_cursor() -> Problem {
    Problem::invalid("cursor", "this is no cursor of ours")
}

/// The device that `text` names: a uuid, or a name that only one device has.
pub(crate) async fn device_id(reads: &Reads, text: &str, sites: Option<Vec<String>>) -> Result<DeviceId, Problem> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let filter = fleet_projections::DeviceFilter { name: Some(text.to_owned()), sites, ..Default::default() };
    let found = reads.devices(&filter, None, 20).await?;
    match found.as_slice() {
        [] => Err(Problem::missing(format!("there is no device `{}`", text.chars().take(120).collect::<String>()))),
        [one] => Ok(one.id),
        many => {
            let ids: Vec<_> = many.iter().map(|d| json!({"id": d.id.to_string(), "site": d.site})).collect();
            let detail = format!("{} devices are called `{text}`; name one by its id", many.len());
            Err(Problem::new(StatusCode::CONFLICT, "name-ambiguous", detail).with("devices", ids.into()))
        }
    }
}

/// A site name from a path.
pub(crate) fn site_id(text: &str) -> Result<SiteId, Problem> {
    text.parse().map_err(|e: fleet_schemas::BadSiteId| Problem::missing(e.to_string()))
}

/// A JSON body; what does not fit is named by its path.
pub(crate) fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // A list would be taken for the fields in their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Problem::invalid("body", "an object is expected, not a list"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = serde_path_to_error::deserialize(&mut reader);
    let value = read.map_err(|e| {
        let path = e.path().to_string();
        Problem::invalid(if matches!(path.as_str(), "." | "?") { "body" } else { &path }, e.into_inner().to_string())
    })?;
    reader.end().map_err(|e| Problem::invalid("body", e.to_string()))?;
    Ok(value)
}

/// The read model, once it has what the request's token names.
pub(crate) async fn consistent(hub: &Hub, headers: &HeaderMap) -> Result<Reads, Problem> {
    let reads = hub.reads();
    let Some(token) = headers.get(CONSISTENCY) else { return Ok(reads) };
    let parsed = token.to_str().ok().and_then(|t| t.split_once(':')).and_then(|(p, o)| Some((p.parse().ok()?, o.parse().ok()?)));
    let Some((partition, offset)) = parsed else {
        return Err(Problem::invalid(CONSISTENCY, "this is no token of ours"));
    };
    if reads.reached(partition, offset, CONSISTENCY_PATIENCE).await {
        return Ok(hub.reads());
    }
    let detail = "the read model has not reached what this token names";
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, LAGGING, detail).header("retry-after", "1"))
}

/// The token of a decision.
pub(crate) fn consistency_token(at: (u32, u64)) -> String {
    format!("{}:{}", at.0, at.1)
}
