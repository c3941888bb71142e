//! From rows and states to the bodies that the API promises.

use fleet_lifecycle::device::{Condition, TaskState, instruction};
use fleet_lifecycle::{Device, Reference, Sense, condition_type, device::tenant_state};
use fleet_projections::{DeviceDoc, DeviceRow, Reads};
use fleet_schemas::{Severity, SiteId, Source, Status, Timestamp};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// `meta` of a list: how old it is, and how fresh each source. When a source was last looked at is known to the leader of its site
/// alone; the journal keeps the changes.
pub(crate) fn meta(reads: &Reads, reference: &Reference, now: Timestamp) -> Value {
    let lag = reads.lag();
    let known = lag != Duration::MAX;
    let as_of = Timestamp(now.0 - if known { lag.as_micros() as i64 } else { 0 });
    json!({
        "as_of": known.then(|| as_of.to_string()),
        "lag_seconds": known.then_some(lag.as_secs_f64()),
        "sources": reference.sites.values().flat_map(|s| s.sources.iter().map(|(source, state)| json!({
            "site": s.id.as_str(), "source": source.as_str(), "fresh": state.fresh,
            "since": state.changed_at.to_string(),
        }))).collect::<Vec<_>>(),
    })
}

/// A device in the list.
pub(crate) fn device_item(row: &DeviceRow, reference: &Reference) -> Value {
    let mut bad: Vec<Value> = serde_json::from_str(&row.conditions_bad).unwrap_or_default();
    for source in stale_sources(&row.site, reference) {
        let fault = reason_of_silence(&row.site, source, reference);
        // What a stale source said counts for nothing, good or bad.
        bad.retain(|c| c["type"].as_str().and_then(condition_type).is_none_or(|t| t.source != source.as_str()));
        if row.slurm_node.is_some() || source != Source::Slurm {
            bad.push(json!({"type": summary_type(source), "status": "Unknown", "reason": fault}));
        }
    }
    json!({
        "id": row.id.to_string(), "name": row.name, "site": row.site, "role": row.role, "phase": row.phase, "owner": row.owner,
        "tenant_state": row.tenant_state, "rack": row.rack, "slurm_node": row.slurm_node, "conditions_bad": bad, "updated_at": row.updated_at.to_string(), "version": row.version,
    })
}

/// The condition that stands for a source where the whole source is not known.
fn summary_type(source: Source) -> &'static str {
    match source {
        Source::Netbox => "InventoryMatched",
        Source::Slurm => "SlurmSchedulable",
    }
}

fn stale_sources(site: &str, reference: &Reference) -> Vec<Source> {
    let Ok(site) = site.parse::<SiteId>() else { return vec![] };
    let Some(state) = reference.sites.get(&site) else { return vec![] };
    state.sources.iter().filter(|(_, s)| !s.fresh).map(|(source, _)| *source).collect()
}

fn reason_of_silence(site: &str, source: Source, reference: &Reference) -> String {
    let state = site.parse::<SiteId>().ok().and_then(|s| reference.source(&s, source).and_then(|s| s.fault));
    state.map_or_else(|| "NoData".into(), |f| f.to_string())
}

/// One condition, as it reads now: what a stale source said reads Unknown, with why.
pub(crate) fn condition(c: &Condition, device_site: Option<&SiteId>, reference: &Reference, now: Timestamp) -> Value {
    let over = expired(&c.r#type, &c.site, c.observed_at, reference, now);
    let believed = if over { Status::Unknown } else { c.believed(device_site, reference) };
    let said = believed == c.status;
    let reason = match (said, over) {
        (true, _) => c.reason.clone(),
        (false, true) => EXPIRED.to_owned(),
        (false, false) => silence(c, device_site, reference),
    };
    json!({
        "type": c.r#type, "subject": c.subject, "status": believed.as_str(), "reason": reason, "message": c.message,
        "said": (!said).then(|| c.status.as_str()),
        "severity": c.severity.as_str(), "effects": c.effects.iter().map(|e| e.as_str()).collect::<Vec<_>>(), "source": c.source, "site": c.site.as_str(),
        "observed_at": c.observed_at.to_string(), "last_transition_at": c.last_transition_at.to_string(),
        "age_seconds": now.since(c.observed_at) / fleet_schemas::SECOND, "confirmed_live": c.confirmed_live,
    })
}

/// Reason of a statement that was not repeated in its type's time.
pub(crate) const EXPIRED: &str = "Expired";

/// Whether a statement counts no more, since its type asks for one more often. Types of sources rest on their freshness instead.
pub(crate) fn expired(r#type: &str, site: &SiteId, observed_at: Timestamp, reference: &Reference, now: Timestamp) -> bool {
    let ttl = reference.condition_type(site, r#type).and_then(|t| t.ttl_seconds);
    ttl.is_some_and(|seconds| now.since(observed_at) > seconds * fleet_schemas::SECOND)
}

fn silence(c: &Condition, device_site: Option<&SiteId>, reference: &Reference) -> String {
    if device_site != Some(&c.site) {
        return "OtherSite".into();
    }
    let source = c.source.parse::<Source>().ok();
    match source.filter(|s| !reference.fresh(&c.site, *s)) {
        Some(source) => reason_of_silence(c.site.as_str(), source, reference),
        None => "NotConfirmedLive".into(),
    }
}

/// Whether a condition stands the wrong way.
pub(crate) fn is_bad(r#type: &str, status: &str, severity: &str) -> bool {
    match condition_type(r#type).map(|t| t.sense) {
        Some(Sense::Readiness) => status != "True",
        Some(Sense::Problem) => status != "False",
        Some(Sense::Fact) => false,
        None => severity != Severity::Info.as_str(),
    }
}

/// A device whole, in its sections.
pub(crate) fn device(doc: &DeviceDoc, reference: &Reference, now: Timestamp) -> Value {
    let d = &doc.state;
    json!({
        "id": d.id.to_string(), "name": d.name(), "version": doc.version, "updated_at": doc.updated_at.to_string(),
        "hash": doc.hash.to_string(), "stopped": doc.stopped,
        "identity": identity(d), "inventory": inventory(d), "lifecycle": lifecycle(d), "scheduler": scheduler(d),
        "conditions": d.conditions.iter().map(|c| condition(c, d.site.as_ref(), reference, now)).collect::<Vec<_>>(),
        "operation": d.operation.as_ref().map(|o| json!({
            "id": o.id.to_string(), "verb": o.verb, "by": o.by, "reason": o.reason, "since": o.since.to_string(), "deadline": o.deadline.map(|t| t.to_string()),
        })),
        "annotations": d.annotations,
        "plans": plans(d),
        "waiting_for": waiting(d, reference),
    })
}

fn identity(d: &Device) -> Value {
    let Some(i) = &d.inventory else { return Value::Null };
    let slurm = i.slurm_node.as_ref().map(|n| json!({"system": "slurm", "id": n, "from": i.slurm_node_from}));
    let netbox = json!({"system": "netbox", "instance": i.instance, "id": i.netbox_id, "from": "record"});
    let links: Vec<_> = std::iter::once(netbox).chain(slurm).collect();
    // What only one device may have, and whether it is this one's.
    let names = d.claimed().map(|(name, grant)| {
        json!({"kind": name.kind.as_str(), "value": name.value, "held": grant.held, "other": grant.other.map(|o| o.to_string())})
    });
    json!({"serial": i.serial, "asset_tag": i.asset_tag, "links": links, "names": names.collect::<Vec<_>>()})
}

fn inventory(d: &Device) -> Value {
    let Some(i) = &d.inventory else { return Value::Null };
    json!({
        "name": i.name, "display": i.display, "site": d.site.as_ref().map(|s| s.as_str()), "role": i.role, "device_type": i.device_type, "rack": i.rack,
        "position": i.position_tenths.map(|t| t as f64 / 10.0), "face": i.face, "status": i.status, "fleet_phase": i.fleet_phase, "tenant": i.tenant, "tags": i.tags,
    })
}

fn lifecycle(d: &Device) -> Value {
    json!({
        "phase": d.phase.map(|p| p.as_str()), "since": d.phase_since.to_string(), "stage": d.stage.map(|s| s.as_str()), "cause": d.cause,
        "then": d.then.map(|t| t.as_str()), "drain_proven": d.drain_proven, "until": d.until.map(|t| t.to_string()), "owner": d.owner.as_str(),
        "tenant_state": tenant_state(d.phase, d.impaired()),
        "untested": d.untested.iter().map(|s| s.as_str()).collect::<Vec<_>>(),
        "profile_site": d.profile_site.as_ref().map(|s| s.as_str()),
        "holds": d.holds.iter().map(|(name, h)| json!({
            "name": name, "by": h.by, "reason": h.reason, "since": h.since.to_string(), "expires_at": h.expires_at.map(|t| t.to_string()),
        })).collect::<Vec<_>>(),
        "attention": d.attention.iter().map(|(name, a)| json!({
            "name": name, "why": a.why, "since": a.since.to_string(), "ways_out": a.ways_out,
            "acknowledged": a.acknowledged.as_ref().map(|k| json!({"by": k.by, "at": k.at.to_string(), "reason": k.reason})),
        })).collect::<Vec<_>>(),
    })
}

fn scheduler(d: &Device) -> Value {
    let Some(s) = &d.scheduler else { return Value::Null };
    json!({
        "slurm_node": s.slurm_node, "state": s.state, "reservation": s.reservation, "slurmd_start_time": s.slurmd_start_time.map(|t| t.to_string()),
        "cpus": s.cpus, "alloc_cpus": s.alloc_cpus, "partitions": s.partitions, "features": s.features, "gres": s.gres, "reason": s.reason,
        "user": s.reason_user, "since": s.reason_since.map(|t| t.to_string()), "drain_since": s.drain_since.map(|t| t.to_string()),
    })
}

/// Planned tasks with what a person types.
pub(crate) fn plans(d: &Device) -> Value {
    let row = |(id, t): (&fleet_schemas::TaskId, &fleet_lifecycle::device::Task)| {
        let open = t.state == TaskState::Open;
        json!({
            "task": id.to_string(), "kind": t.kind.as_str(), "target": t.target, "mark": t.mark, "why": t.why, "since": t.since.to_string(),
            "state": if open { "open" } else { "done" }, "instruction": open.then(|| instruction(t.kind, &t.target, &t.mark)),
        })
    };
    d.tasks.iter().map(row).collect()
}

/// What it waits for.
pub(crate) fn waiting(d: &Device, reference: &Reference) -> Value {
    let waits = fleet_lifecycle::why::waits(d, reference);
    waits
        .iter()
        .map(|w| {
            json!({
                "what": w.what, "since": w.since.map(|t| t.to_string()), "until": w.until.map(|t| t.to_string()), "owner": w.owner, "helps": w.helps,
            })
        })
        .collect()
}

/// A list body.
pub(crate) fn list(items: Vec<Value>, next_cursor: Option<String>, meta: Value) -> Value {
    Value::Object(Map::from_iter([
        ("items".to_owned(), items.into()),
        ("next_cursor".to_owned(), json!(next_cursor)),
        ("meta".to_owned(), meta),
    ]))
}
