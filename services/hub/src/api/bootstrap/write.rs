//! POST, PATCH and DELETE: requests to the decider.

use super::{body, body::Said, find, location, shown};
use crate::access::{BootstrapCreate, BootstrapUpdate, Granted};
use crate::api::body::Whole;
use crate::api::commands::{self, Came};
use crate::api::named::{Named, Within};
use crate::api::writing::{Writing, answered};
use crate::{Hub, Problem};
use axum::http::{HeaderMap, Uri};
use axum::{Json, extract::State, response::IntoResponse, response::Response};
use fleet_journal::Answer;
use fleet_lifecycle::bootstrap::Config;
use fleet_lifecycle::{Context, Decider, Entity, Fleet, Request};
use fleet_schemas::{
    Ask, Command, CreateBootstrapConfig, RetireBootstrapConfig, RoleName, SealedUserData, StreamId, UpdateBootstrapConfig,
};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn create(
    granted: Granted<BootstrapCreate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "POST", &site, uri, headers)?;
    let said = body::read(&bytes)?;
    let role = said.role.clone().ok_or_else(|| Problem::invalid("device_role", "name the role"))?;
    let user_data = writing.sealed(&role, &said).await?;
    writing.ask_config(role, &CreateBootstrapConfig { fields: said.fields, user_data }.into()).await
}

/// PATCH of the collection: the body names the role.
pub(super) async fn update_named(
    granted: Granted<BootstrapUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "PATCH", &site, uri, headers)?;
    let said = body::read(&bytes)?;
    let role = said.role.clone().ok_or_else(|| Problem::invalid("device_role", "name the role, here or in the path"))?;
    writing.update(role, said).await
}

pub(super) async fn update(
    granted: Granted<BootstrapUpdate>,
    State(hub): State<Arc<Hub>>,
    Within(site, name): Within,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "PATCH", &site, uri, headers)?;
    let role = writing.role(&name).await?;
    let said = body::read(&bytes)?;
    if said.role.as_ref().is_some_and(|named| *named != role) {
        return Err(Problem::invalid("device_role", format!("the path names {role}; leave it out, or name the same")));
    }
    writing.update(role, said).await
}

pub(super) async fn retire(
    granted: Granted<BootstrapUpdate>,
    State(hub): State<Arc<Hub>>,
    Within(site, name): Within,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "DELETE", &site, uri, headers)?;
    let role = writing.role(&name).await?;
    writing.ask_config(role, &RetireBootstrapConfig {}.into()).await
}

impl Writing {
    /// The role that a path names; an id names one that there is.
    async fn role(&self, name: &str) -> Result<RoleName, Problem> {
        if let Ok(found) = find(&self.hub.reads(), &self.site, name).await {
            return Ok(found.role.clone());
        }
        // The read model may not have it yet: the decider knows.
        name.parse().map_err(|_| super::missing(&self.site, name))
    }

    /// User-data never leaves this process in clear, and enters no topic so.
    async fn sealed(&self, role: &RoleName, said: &Said) -> Result<Option<SealedUserData>, Problem> {
        let Some(user_data) = &said.user_data else { return Ok(None) };
        let stream = StreamId::BootstrapConfig(self.site.clone(), role.clone());
        self.hub.vault.seal(&stream, user_data).await.map(Some).map_err(|e| Problem::internal(&e))
    }

    async fn update(self, role: RoleName, said: Said) -> Result<Response, Problem> {
        let user_data = self.sealed(&role, &said).await?;
        self.ask_config(role, &UpdateBootstrapConfig { set: said.set, fields: said.fields, user_data }.into()).await
    }

    async fn ask_config(self, role: RoleName, ask: &Ask) -> Result<Response, Problem> {
        let (command, came) = self.put(StreamId::BootstrapConfig(self.site.clone(), role.clone()), ask).await?;
        match came {
            Came::Pending => Ok(commands::pending(&command, location(&Config::new(self.site, role)))),
            Came::Decided(answer) => self.answer(&command, ask, &answer).await,
        }
    }

    /// The configuration as the decision left it; a repeat is answered as the first was.
    async fn answer(&self, command: &Command, ask: &Ask, answer: &Answer) -> Result<Response, Problem> {
        commands::granted(command, answer)?;
        let reads = self.hub.reads();
        let known = if commands::shown(&reads, answer).await {
            reads.config_version(&command.stream, answer.decided.version).await?.map(|v| v.config)
        } else {
            None
        };
        if self.dry_run {
            return Ok(self.rehearsed(command, ask, answer, known));
        }
        let created = known.as_deref().filter(|_| matches!(ask, Ask::CreateBootstrapConfig(_))).map(location);
        let body = known.as_deref().map(|config| {
            let mut body = shown(config);
            if !config.standing {
                body["retired"] = json!(true);
            }
            body
        });
        Ok(answered(body, created, answer))
    }

    /// What would be, by the decider's own functions on what is known.
    fn rehearsed(&self, command: &Command, ask: &Ask, answer: &Answer, known: Option<Arc<Config>>) -> Response {
        let (reference, now) = (self.hub.journal.reference(), self.hub.journal.clock().now());
        let mut entity = known.map_or_else(|| Fleet::new(&command.stream), Entity::BootstrapConfig);
        let (version, decision, actor) = (answer.decided.version, answer.decided.decision, &command.actor);
        let (stream, reference) = (&command.stream, reference.as_ref());
        let ctx = Context { now, stream, version, decision, actor, reason: &self.reason, reference, leading_since: now };
        let request = Request { ask: ask.clone(), expected_version: None };
        let events = Fleet::decide(&entity, &request, &ctx).unwrap_or_default();
        events.iter().for_each(|event| Fleet::evolve(&mut entity, event, now));
        let mut body = entity.bootstrap_config().map_or_else(|| json!({}), |config| shown(config));
        (body["dry_run"], body["would"]) = (json!(true), json!(answer.decided.outcome.seen));
        commands::stamped(Json(body).into_response(), answer)
    }
}
