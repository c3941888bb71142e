//! GET of the list, and of one with its user-data.

use super::{find, missing, readable, shown, stream};
use crate::access::{BootstrapRead, Granted, Principal};
use crate::api::named::{Named, Within};
use crate::api::{commands, query};
use crate::vault::{self, UserData};
use crate::{Hub, Problem, render};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::{Json, extract::State, response::IntoResponse, response::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_lifecycle::bootstrap::Config;
use fleet_projections::Reads;
use fleet_schemas::{OutcomeKind, ReadUserData};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(
    granted: Granted<BootstrapRead>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let site = readable(&hub, &granted.principal, &site)?;
    let reads = query::consistent(&hub, &headers).await?;
    let configs = reads.configs(&site).await?;
    let items = configs.iter().filter(|c| c.standing).map(|c| shown(c)).collect();
    let meta = render::meta(&reads, &hub.journal.reference(), hub.journal.clock().now());
    Ok(Json(render::list(items, None, meta)))
}

/// One, as it is or as it was in `?version=`. Where it has user-data, the read stands in the journal before the bytes go out.
pub(super) async fn one(
    granted: Granted<BootstrapRead>,
    State(hub): State<Arc<Hub>>,
    Within(site, name): Within,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let params = query::params(&uri, &["version"])?;
    let site = readable(&hub, &granted.principal, &site)?;
    let version = params.get("version").map(|v| v.parse::<u64>().map_err(|_| Problem::invalid("version", "a number"))).transpose()?;
    let reads = query::consistent(&hub, &headers).await?;
    let now = find(&reads, &site, &name).await?;
    let config = at_version(&reads, &now, version).await?;
    let mut body = shown(&config);
    body["user_data"] = match user_data(&hub, &reads, &config).await? {
        Some(user_data) => {
            record(&hub, &granted.principal, &config, &headers).await?;
            json!(STANDARD.encode(user_data.0))
        }
        None => Value::Null,
    };
    let headers = [(header::ETAG, format!("\"v{}\"", config.version)), (header::CACHE_CONTROL, "no-store".to_owned())];
    Ok((headers, Json(body)).into_response())
}

async fn at_version(reads: &Reads, now: &Arc<Config>, version: Option<u64>) -> Result<Arc<Config>, Problem> {
    let config = match version {
        None => now.clone(),
        Some(version) => {
            let found = reads.config_version(&stream(now), version).await?;
            found.ok_or_else(|| Problem::missing(format!("{} at {} has no version {version}", now.role, now.site)))?.config
        }
    };
    if config.standing {
        return Ok(config);
    }
    let problem = missing(&now.site, now.role.as_str());
    Err(problem.with("retired_version", json!(config.version)).with("helps", json!("?version= shows the versions before")))
}

/// The user-data of this version in clear.
async fn user_data(hub: &Hub, reads: &Reads, config: &Config) -> Result<Option<UserData>, Problem> {
    let Some(set) = &config.user_data else { return Ok(None) };
    let stream = stream(config);
    let sealed = reads.config_version(&stream, set.version).await?.and_then(|v| v.sealed);
    let sealed = sealed.ok_or_else(|| Problem::internal(&format!("{stream}: version {} has no user-data", set.version)))?;
    match hub.vault.open(&stream, &sealed).await {
        Ok(user_data) => Ok(Some(user_data)),
        // Never null in its place: a machine would be installed without it.
        Err(vault::Error::Erased(_)) => {
            let detail = format!(
                "the user-data of version {} cannot be read any more: its key is not in the vault; it was erased, or the vault was lost",
                config.version
            );
            Err(Problem::new(StatusCode::GONE, "user-data-erased", detail).with("helps", json!("give the configuration new user-data")))
        }
        Err(e) => Err(Problem::internal(&e)),
    }
}

/// The journal says who is given which user-data; without that nobody is.
async fn record(hub: &Hub, principal: &Principal, config: &Config, headers: &HeaderMap) -> Result<(), Problem> {
    let ask = ReadUserData { version: config.version }.into();
    let usual = commands::command(stream(config), &ask, principal, "", hub.journal.clock().now());
    let command = fleet_schemas::Command { trace_id: commands::trace_id(headers), ..usual };
    match hub.journal.ask(&command, hub.patience).await {
        Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Noted => Ok(()),
        Ok(answer) => Err(Problem::refused(&answer.decided.outcome)),
        Err(e) => {
            tracing::error!(error = %e, config = %stream(config), "a read of user-data could not be recorded, and was not answered");
            let detail = "the read could not be recorded, so the user-data is not given out; try again";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "read-not-recorded", detail).header("retry-after", "1"))
        }
    }
}
