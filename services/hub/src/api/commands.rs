//! POST `/devices/{id}/commands`: a request, and its decision.

use super::{body::Whole, devices, named::Named, query};
use crate::access::{Granted, LifecycleCreate, Principal};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::StatusCode, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_journal::{Answer, AskError};
use fleet_projections::Reads;
use fleet_schemas::{Ask, Command, CommandId, DeviceId, HOUR, MINUTE, OutcomeKind, StreamId, Timestamp, verbs};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// How long the read model is waited for, so that the answer can name the new phase.
const SHOW_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    command: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    params: Map<String, Value>,
    #[serde(default)]
    dry_run: bool,
    not_after: Option<String>,
}

pub(crate) async fn give(
    granted: Granted<LifecycleCreate>,
    State(hub): State<Arc<Hub>>,
    Named(id): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let body: Body = query::body(&bytes)?;
    let ask = verbs::ask(&body.command, &body.params).map_err(|e| Problem::invalid(&e.field, e.problem))?;
    said_why(&body.reason)?;
    let doc = devices::to_write(&hub, &granted.principal, &id, "POST", &uri).await?;
    let stream = StreamId::Device(doc.state.id);
    let command = Command {
        id: command_id(&granted.principal, uri.path(), &headers)?,
        not_after: not_after(body.not_after.as_deref(), hub.journal.clock().now())?,
        expected_version: expected_version(&headers)?,
        dry_run: body.dry_run,
        trace_id: trace_id(&headers),
        ..command(stream, &ask, &granted.principal, &body.reason, hub.journal.clock().now())
    };
    match put(&hub, &command, &headers).await? {
        // There is no operation before the decision; the device shows what comes.
        Came::Pending => Ok(pending(&command, format!("/api/v1/devices/{}", doc.state.id))),
        Came::Decided(answer) => decided(&hub, &command, doc.state.id, &answer).await,
    }
}

/// A reason is words for the history.
pub(crate) fn said_why(reason: &str) -> Result<(), Problem> {
    if reason.trim().is_empty() || reason.chars().count() > 500 || reason.chars().any(char::is_control) {
        return Err(Problem::invalid("reason", "say why: 1 to 500 characters, no control characters"));
    }
    Ok(())
}

/// A command with the usual life, to be refined.
pub(crate) fn command(stream: StreamId, ask: &Ask, principal: &Principal, reason: &str, now: Timestamp) -> Command {
    Command {
        id: CommandId(Uuid::new_v4()),
        stream,
        ask: ask.encode(),
        actor: principal.actor(),
        reason: reason.trim().to_owned(),
        expected_version: None,
        dry_run: false,
        issued_at: now,
        not_after: now.plus(10 * MINUTE),
        trace_id: String::new(),
        reaction: None,
    }
}

/// What came of a command that was put.
pub(crate) enum Came {
    /// Its decision.
    Decided(Answer),
    /// Nothing yet, or nobody waits.
    Pending,
}

/// Puts a command and waits for its decision, unless the request asks not to.
pub(crate) async fn put(hub: &Hub, command: &Command, headers: &HeaderMap) -> Result<Came, Problem> {
    let answer = if respond_async(headers) {
        hub.journal.put(command, hub.patience).await.and(Err(AskError::Pending))
    } else {
        hub.journal.ask(command, hub.patience).await
    };
    match answer {
        Ok(answer) => Ok(Came::Decided(answer)),
        Err(AskError::Pending) => Ok(Came::Pending),
        Err(AskError::NotStored(why)) => {
            tracing::error!(why, "a command could not be stored");
            let detail = "the command could not be stored, and nothing will come of it; try again";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-stored", detail).header("retry-after", "1"))
        }
        Err(AskError::IdReused) => {
            let detail = "this Idempotency-Key was used for another request within 24 hours";
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key-reused", detail))
        }
    }
}

/// 202: `location` shows what comes.
pub(crate) fn pending(command: &Command, location: String) -> Response {
    let body = json!({"command": command.id.to_string(), "state": "pending",
        "detail": "not decided yet; the same request with the same Idempotency-Key asks again without doing it twice"});
    let headers = [(header::LOCATION, location), (header::RETRY_AFTER, "1".to_owned())];
    (StatusCode::ACCEPTED, headers, Json(body)).into_response()
}

/// Whether the decision grants what was asked, in earnest or in rehearsal; else the refusal as a problem.
pub(crate) fn granted(command: &Command, answer: &Answer) -> Result<(), Problem> {
    let (decided, outcome) = (&answer.decided, &answer.decided.outcome);
    let refused = outcome.kind == OutcomeKind::Rejected || (outcome.kind == OutcomeKind::Noted && outcome.code != "dry-run");
    if !refused {
        return Ok(());
    }
    let problem = Problem::refused(outcome).with("decision", json!(decided.decision.to_string())).with("dry_run", json!(command.dry_run));
    Err(problem.header(query::CONSISTENCY, &query::consistency_token(decided.at)))
}

/// Whether the read model shows the decision by now, which is waited for a little.
pub(crate) async fn shown(reads: &Reads, answer: &Answer) -> bool {
    reads.reached(answer.decided.at.0, answer.decided.at.1, SHOW_PATIENCE).await
}

/// Adds the decision's token, and the version as an ETag.
pub(crate) fn stamped(mut response: Response, answer: &Answer) -> Response {
    let decided = &answer.decided;
    let headers = response.headers_mut();
    if let (Ok(token), Ok(etag)) = (query::consistency_token(decided.at).parse(), format!("\"v{}\"", decided.version).parse()) {
        headers.insert(query::CONSISTENCY, token);
        headers.insert(header::ETAG, etag);
    }
    response
}

pub(crate) async fn decided(hub: &Hub, command: &Command, id: DeviceId, answer: &Answer) -> Result<Response, Problem> {
    granted(command, answer)?;
    let (decided, outcome) = (&answer.decided, &answer.decided.outcome);
    let reads = hub.reads();
    let row = if shown(&reads, answer).await { reads.device_row(id).await? } else { None };
    let body = json!({
        "operation": decided.operation.map(|o| o.to_string()), "decision": decided.decision.to_string(), "repeated": answer.repeated,
        "dry_run": command.dry_run, "would": command.dry_run.then_some(&outcome.seen),
        "device": {"id": id.to_string(), "name": row.as_ref().map(|r| r.name.clone()), "phase": row.as_ref().and_then(|r| r.phase.clone()), "version": decided.version},
    });
    Ok(stamped(Json(body).into_response(), answer))
}

/// A repeat carries the same key and gets the same id, whoever answers it.
pub(crate) fn command_id(principal: &Principal, path: &str, headers: &HeaderMap) -> Result<CommandId, Problem> {
    command_id_of(principal, "POST", path, headers)
}

/// The same for any method.
pub(crate) fn command_id_of(principal: &Principal, method: &str, path: &str, headers: &HeaderMap) -> Result<CommandId, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(CommandId(Uuid::new_v4())) };
    let key = key.to_str().ok().filter(|k| (1..=200).contains(&k.len()));
    let key = key.ok_or_else(|| Problem::invalid("Idempotency-Key", "1 to 200 visible characters"))?;
    let name = format!("{}\n{}\n{method}\n{path}\n{key}", principal.client, principal.subject);
    Ok(CommandId(Uuid::new_v5(&fleet_schemas::NAMESPACE, name.as_bytes())))
}

fn not_after(text: Option<&str>, now: Timestamp) -> Result<Timestamp, Problem> {
    let Some(text) = text else { return Ok(now.plus(10 * MINUTE)) };
    let at: Timestamp = text.parse().map_err(|_| Problem::invalid("not_after", "an RFC 3339 time"))?;
    if at > now && at.since(now) <= 24 * HOUR { Ok(at) } else { Err(Problem::invalid("not_after", "a time within the next 24 hours")) }
}

pub(crate) fn expected_version(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|v| v.strip_prefix("\"v")?.strip_suffix('"')?.parse().ok());
    version.filter(|v| *v <= i64::MAX as u64).map(Some).ok_or_else(|| Problem::invalid("If-Match", "an ETag of ours: \"v<version>\""))
}

fn respond_async(headers: &HeaderMap) -> bool {
    headers.get_all("prefer").iter().any(|v| v.to_str().is_ok_and(|v| v.split(',').any(|p| p.trim() == "respond-async")))
}

/// The trace of W3C's `traceparent`.
pub(crate) fn trace_id(headers: &HeaderMap) -> String {
    let id = headers.get("traceparent").and_then(|v| v.to_str().ok()).and_then(|v| v.split('-').nth(1));
    id.filter(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())).unwrap_or_default().to_owned()
}
