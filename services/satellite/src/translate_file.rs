//! `fleet-manager translate`: what the agents would make of one recorded answer. No network, no memory.

use crate::error::{ClientError, ErrorClass};
use crate::http::Answer;
use crate::slurm::{self, ApiVersion, Listing, Partitions};
use crate::{DeviceList, ListedDevice, SlurmLink, netbox};
use fleet_schemas::{
    ConditionReport, DeviceId, LookFault, NetboxDeviceSeen, Payload, Record, SiteId, SlurmNodeSeen, Source, Status, Timestamp,
    payload_to_json,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What cannot be seen in the answer itself.
#[derive(Clone, Debug, Default)]
pub struct FileOptions {
    /// `v0.0.42`; else it is taken from the answer's `meta`.
    pub api_version: Option<String>,
    /// The answer's HTTP status; else that of a recorded exchange, else 200.
    pub http_status: Option<u16>,
    /// SLURM: the devices to speak of; else each name in the answer counts as a device.
    pub devices: Option<DeviceList>,
    /// SLURM: an answer to `/partitions`; else each partition counts as UP.
    pub partitions: Option<String>,
}

/// Translates one answer (bare, or an exchange `{request, response: {status, body}}`) as a first look would.
///
/// One value per object: `{name, conditions: [{type, status, reason, message}], native}`, where `native` is the scheduler section or the
/// inventory, times as RFC 3339. Where no object can be named: one `{error: {class, reason, meaning}}`.
pub fn translate_file(system: Source, options: &FileOptions, text: &str) -> Vec<Value> {
    let answer = recorded(text, options.http_status);
    let lines = match system {
        Source::Slurm => slurm_lines(options, &answer),
        Source::Netbox => netbox_lines(&answer),
    };
    lines.unwrap_or_else(|e| vec![json!({"error": {"class": format!("{:?}", e.class), "reason": e.fault, "meaning": e.to_string()}})])
}

/// The answer in a file.
fn recorded(text: &str, http_status: Option<u16>) -> Answer {
    let exchange = serde_json::from_str::<Value>(text).ok().filter(|v| v.get("response").is_some());
    let asked = |e: &Value| Some(format!("{} {}", e.pointer("/request/method")?.as_str()?, e.pointer("/request/path")?.as_str()?));
    let (asked, code, body) = match &exchange {
        None => (None, None, text.to_owned()),
        Some(exchange) => {
            let body = exchange.pointer("/response/body").unwrap_or(&Value::Null);
            let body = body.as_str().map_or_else(|| body.to_string(), str::to_owned);
            (asked(exchange), exchange.pointer("/response/status").and_then(Value::as_u64), body)
        }
    };
    let code = http_status.or(code.and_then(|c| u16::try_from(c).ok())).unwrap_or(200);
    Answer { asked: asked.unwrap_or_else(|| "recorded answer".into()), code, body }
}

fn version_of(given: Option<&str>, answer: &Answer) -> Result<Option<ApiVersion>, ClientError> {
    if let Some(given) = given {
        let came = format!("`{given}` is no API version; expected v0.0.42 or the like");
        let bad = || ClientError::new(ErrorClass::Permanent, "--api-version", came, LookFault::NoData);
        return ApiVersion::parse(given).map(Some).ok_or_else(bad);
    }
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let meta = ["/meta/plugin/data_parser", "/meta/plugin/type"].into_iter().filter_map(|p| body.pointer(p)?.as_str());
    Ok(meta.into_iter().find_map(ApiVersion::parse))
}

fn slurm_lines(options: &FileOptions, answer: &Answer) -> Result<Vec<Value>, ClientError> {
    let version = version_of(options.api_version.as_deref(), answer)?;
    let list = slurm::check(answer, version, "nodes")?;
    let missing = || ClientError::malformed(&answer.asked, "the answer does not say its API version; give it with --api-version");
    let version = version.ok_or_else(missing)?;
    if list.is_empty() {
        return Err(ClientError::malformed(&answer.asked, "200 without errors, and no node: an empty cluster looks like a missing right"));
    }
    if !version.is_usable() {
        let rows = list.iter().filter_map(|raw| serde_json::from_str::<Value>(raw.get()).ok());
        return Ok(rows.filter_map(|row| too_old(version, &row)).collect());
    }
    let partitions = match &options.partitions {
        None => Partitions::AssumedUp,
        Some(text) => Partitions::Known(slurm::partitions(&slurm::check(&recorded(text, None), Some(version), "partitions")?)),
    };
    let listing = Listing { entries: slurm::entries(&list, version), partitions, confirmed: BTreeMap::new() };
    let as_device =
        |name: &String| ListedDevice { id: DeviceId::from_netbox("file", 0), name: name.clone(), slurm_node: Some(name.clone()) };
    let everything = || DeviceList { devices: listing.entries.keys().map(as_device).collect() };
    let devices = options.devices.clone().unwrap_or_else(everything);
    // Only `drain_since` would show the time of the look; a file has none.
    let seen = slurm::translate(&listing, &devices, &BTreeMap::new(), Timestamp::default()).seen;
    let line_of = |seen: &SlurmNodeSeen| {
        let mut native = as_json(seen, "section");
        _ = native.as_object_mut().map(|section| section.remove("drain_since"));
        line(&seen.slurm_node, &seen.conditions, native)
    };
    Ok(seen.iter().map(|(_, seen)| line_of(seen)).collect())
}

/// A version that we refuse still names its nodes. What it says of them is shown, and believed of none.
fn too_old(version: ApiVersion, row: &Value) -> Option<Value> {
    let name = row.get("name")?.as_str()?;
    let message = format!("{version} loses state flags; we speak v0.0.37, v0.0.38, v0.0.40 and up");
    let conditions = slurm::all(name, Status::Unknown, LookFault::ApiTooOld.as_str(), &message).conditions;
    let state = row.get("state").and_then(Value::as_str).unwrap_or_default().to_uppercase();
    Some(line(name, &conditions, json!({"slurm_node": name, "state": [state], "reason": row.get("reason")})))
}

fn netbox_lines(answer: &Answer) -> Result<Vec<Value>, ClientError> {
    let unreadable =
        |e: serde_json::Error| ClientError::malformed(&answer.asked, format!("{}, and no device can be read: {e}", answer.code));
    if !(200..300).contains(&answer.code) {
        return Err(netbox::refusal(answer));
    }
    let body: Value = serde_json::from_str(&answer.body).map_err(unreadable)?;
    if let Some(detail) = body.get("detail").and_then(Value::as_str) {
        return Err(ClientError::malformed(&answer.asked, format!("{}: {detail}; give the status with --http-status", answer.code)));
    }
    let rows = match body {
        Value::Array(rows) => rows,
        Value::Object(mut list) if list.contains_key("results") => match list.remove("results") {
            Some(Value::Array(rows)) => rows,
            other => return Err(ClientError::malformed(&answer.asked, format!("results are no list: {}", other.unwrap_or_default()))),
        },
        one => vec![one],
    };
    let rows: Vec<netbox::Row> = rows.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(unreadable)?;
    if rows.is_empty() {
        return Err(ClientError::malformed(&answer.asked, "200, and no device: a missing permission looks like this"));
    }
    let conflicts = netbox::conflicts(rows.iter().map(|row| (row.id, Some(row.serial.as_str()))));
    let line_of = |row: &netbox::Row| {
        let bad = |e: fleet_schemas::BadSiteId| ClientError::malformed(&answer.asked, format!("device {}: {e}", row.id));
        let site: SiteId = row.site.slug.parse().map_err(bad)?;
        let inventory = row.inventory("file", &site, &SlurmLink::CustomField("slurm_node".into()));
        let name = inventory.name.clone().unwrap_or_else(|| inventory.display.clone());
        let seen = NetboxDeviceSeen { inventory, conditions: netbox::conditions(row, conflicts.get(&row.id)), edits: Vec::new() };
        Ok(line(&name, &seen.conditions, as_json(&seen, "inventory")))
    };
    rows.iter().map(line_of).collect()
}

fn line(name: &str, conditions: &[ConditionReport], native: Value) -> Value {
    let condition = |c: &ConditionReport| json!({"type": c.r#type, "status": c.status, "reason": c.reason, "message": c.message});
    json!({"name": name, "conditions": conditions.iter().map(condition).collect::<Vec<_>>(), "native": native})
}

/// One field of a record as people read it: ids as text, times as RFC 3339.
fn as_json<T: Record>(record: &T, field: &str) -> Value {
    // A record of this build always decodes under its own schema.
    payload_to_json(&Payload::of(record)).ok().and_then(|mut v| v.get_mut(field).map(Value::take)).unwrap_or_default()
}
