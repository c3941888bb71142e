//! GET, POST `/sites/{site}/baseline`: taking over a fleet that already runs. Preview, then confirm by list.

use super::{body::Whole, commands, named::Named, query};
use crate::access::{Granted, Principal, SiteRead, SiteUpdate};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri};
use fleet_journal::AskError;
use fleet_lifecycle::baseline::propose;
use fleet_lifecycle::{Context, Decider, Entity, Fleet, Reference, Refusal, Request};
use fleet_projections::{DeviceDoc, DeviceFilter};
use fleet_schemas::{Baseline, Command, CommandId, DecisionId, DeviceId, OutcomeKind, Phase, SiteId, StreamId, Timestamp};
use futures::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::{sync::mpsc, time::Instant, time::timeout_at};

/// Devices decided at the same time.
const WIDTH: usize = 64;
/// How long the answer waits: less than `fmctl` and the usual proxies do.
const PATIENCE: Duration = Duration::from_secs(45);
/// Devices that one confirmation may name.
const MOST: usize = 5000;

pub(crate) async fn preview(
    granted: Granted<SiteRead>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let site = reachable(&granted.principal, &hub, &site)?;
    let reads = query::consistent(&hub, &headers).await?;
    let filter = DeviceFilter { sites: Some(vec![site.to_string()]), phase: Some("Discovered".into()), ..Default::default() };
    let (mut items, mut after) = (Vec::new(), None);
    let (reference, now) = (hub.journal.reference(), hub.journal.clock().now());
    loop {
        let rows = reads.devices(&filter, after.as_ref(), 500).await?;
        for row in &rows {
            let Some(doc) = reads.device(row.id).await? else { continue };
            let proposal = propose(&doc.state, &reference);
            let refusal = proposal.phase.and_then(|phase| refusal(&doc, phase, &granted.principal, &reference, now));
            let phase = proposal.phase.filter(|_| refusal.is_none()).map(|p| p.as_str());
            let problem = proposal.problem.or(refusal.map(|r| format!("{}: {}", r.code, r.seen)));
            items.push(
                json!({"id": row.id.to_string(), "name": row.name, "phase": phase, "evidence": proposal.evidence, "problem": problem}),
            );
        }
        match rows.last() {
            Some(last) if rows.len() == 500 => after = Some(fleet_projections::ListCursor { name: last.name.clone(), id: last.id }),
            _ => break,
        }
    }
    let proposed = items.iter().filter(|i| !i["phase"].is_null()).count();
    Ok(Json(json!({"site_id": site.as_str(), "items": items, "proposed": proposed, "undecided": items.len() - proposed})))
}

/// Why the decider would refuse what the evidence proposes, where it would.
fn refusal(doc: &DeviceDoc, phase: Phase, principal: &Principal, reference: &Reference, now: Timestamp) -> Option<Refusal> {
    let (stream, actor) = (StreamId::Device(doc.state.id), principal.actor());
    let decision = DecisionId(doc.state.id.0);
    let ctx = Context { now, stream: &stream, version: doc.version, decision, actor: &actor, reason: "", reference, leading_since: now };
    let request = Request { ask: Baseline { phase }.into(), expected_version: None };
    Fleet::decide(&Entity::Device(doc.state.clone()), &request, &ctx).err()
}

fn reachable(principal: &Principal, hub: &Hub, site: &str) -> Result<SiteId, Problem> {
    let site = query::site_id(site)?;
    let known = hub.journal.reference().sites.contains_key(&site) && principal.reaches(&site);
    if known { Ok(site) } else { Err(Problem::missing(format!("there is no site {site}"))) }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    devices: Vec<Confirmed>,
    reason: String,
}

/// A device and the phase that the person saw in the preview.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Confirmed {
    id: String,
    phase: String,
}

/// What the devices are confirmed with.
struct Confirmation {
    hub: Arc<Hub>,
    principal: Principal,
    site: SiteId,
    reason: String,
}

pub(crate) async fn confirm(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let site = reachable(&granted.principal, &hub, &site)?;
    let body: Body = query::body(&bytes)?;
    if body.reason.trim().is_empty() {
        return Err(Problem::invalid("reason", "say why"));
    }
    if body.devices.is_empty() || body.devices.len() > MOST {
        return Err(Problem::invalid("devices", format!("1 to {MOST} devices")));
    }
    let asked: Vec<_> = body.devices.iter().enumerate().map(|(i, c)| parse(i, c)).collect::<Result<_, _>>()?;
    // A repeat with the same key repeats no device's command.
    let command = |id: &DeviceId| commands::command_id(&granted.principal, &format!("{} {id}", uri.path()), &headers);
    let commands: Vec<_> = asked.iter().map(|(id, _)| command(id)).collect::<Result<_, _>>()?;
    let mut results: Vec<_> = asked.iter().map(|(id, _)| json!({"id": id.to_string(), "result": "pending"})).collect();
    let confirmation = Confirmation { hub, principal: granted.principal, site, reason: body.reason };
    let work = asked.into_iter().zip(commands).enumerate().map(|(i, ((id, phase), command))| (i, id, phase, command)).collect();
    let mut told = start(confirmation, work);
    let until = Instant::now() + PATIENCE;
    while let Ok(Some((i, result))) = timeout_at(until, told.recv()).await {
        results[i] = result;
    }
    let count = |word: &str| results.iter().filter(|r| r["result"] == word).count();
    Ok(Json(json!({"accepted": count("accepted"), "refused": count("refused"), "pending": count("pending"), "items": results})))
}

/// Of its own, so that a caller who leaves does not leave it half done.
fn start(confirmation: Confirmation, work: Vec<(usize, DeviceId, Phase, CommandId)>) -> mpsc::UnboundedReceiver<(usize, Value)> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let confirmation = &confirmation;
        let each = work.into_iter().map(|(i, id, phase, command)| async move { (i, confirmation.one(id, phase, command).await) });
        let mut done = stream::iter(each).buffer_unordered(WIDTH);
        while let Some(result) = done.next().await {
            // Who asked may have left.
            let _ = tell.send(result);
        }
    });
    told
}

fn parse(i: usize, c: &Confirmed) -> Result<(DeviceId, Phase), Problem> {
    let id = c.id.parse().map_err(|_| Problem::invalid(&format!("devices[{i}].id"), "a device's uuid"))?;
    let phase = c.phase.parse().map_err(|e: fleet_schemas::UnknownWord| Problem::invalid(&format!("devices[{i}].phase"), e.to_string()))?;
    Ok((id, phase))
}

impl Confirmation {
    async fn one(&self, id: DeviceId, phase: Phase, command: CommandId) -> Value {
        let hub = &self.hub;
        let refused = |code: &str, detail: String| json!({"id": id.to_string(), "result": "refused", "code": code, "detail": detail});
        let at_site = matches!(hub.reads().device_row(id).await, Ok(Some(row)) if row.site == self.site.as_str());
        if !at_site {
            return refused("not-found", format!("{} has no such device", self.site));
        }
        let ask = Baseline { phase }.into();
        let usual = commands::command(StreamId::Device(id), &ask, &self.principal, &self.reason, hub.journal.clock().now());
        match hub.journal.ask(&Command { id: command, ..usual }, hub.patience).await {
            Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Accepted => {
                json!({"id": id.to_string(), "result": "accepted", "phase": phase.as_str(), "version": answer.decided.version})
            }
            Ok(answer) => {
                let o = &answer.decided.outcome;
                refused(&o.code, format!("expected {}, seen {}", o.expected, o.seen))
            }
            Err(AskError::Pending) => json!({"id": id.to_string(), "result": "pending"}),
            Err(AskError::IdReused) => refused("idempotency-key-reused", "this Idempotency-Key was used for another request".into()),
            Err(AskError::NotStored(why)) => {
                tracing::error!(why, "a command could not be stored");
                refused("not-stored", "the command could not be stored; try again".into())
            }
        }
    }
}
