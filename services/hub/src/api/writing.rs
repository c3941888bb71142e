//! A write below `/sites/{site}`: who asks, where, why; one command, and what comes of it. What each shows is its own.

use super::commands::{self, Came};
use super::query;
use crate::access::Principal;
use crate::{Hub, Problem};
use axum::{Json, http::HeaderMap, http::StatusCode, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_journal::Answer;
use fleet_schemas::{Ask, Command, SiteId, StreamId};
use serde_json::{Value, json};
use std::sync::Arc;

/// One request to change something of a site.
pub(super) struct Writing {
    pub(super) hub: Arc<Hub>,
    pub(super) site: SiteId,
    pub(super) principal: Principal,
    pub(super) reason: String,
    pub(super) dry_run: bool,
    method: &'static str,
    uri: Uri,
    headers: HeaderMap,
}

impl Writing {
    /// Reads `reason` and `dry_run`, and whether the site is there for the caller.
    pub(super) fn new(
        hub: Arc<Hub>,
        principal: Principal,
        method: &'static str,
        site: &str,
        uri: Uri,
        headers: HeaderMap,
    ) -> Result<Self, Problem> {
        let params = query::params(&uri, &["reason", "dry_run"])?;
        let reason = params.get("reason").cloned().unwrap_or_default();
        // An empty one is none.
        if !reason.is_empty() {
            commands::said_why(&reason)?;
        }
        let site = query::site_id(site)?;
        if !principal.reaches(&site) {
            return Err(principal.out_of_reach(&hub, method, uri.path(), format!("{} has no right at {site}", principal.client)));
        }
        if !hub.journal.reference().sites.get(&site).is_some_and(|s| s.registered) {
            return Err(Problem::missing(format!("there is no site {site}")));
        }
        let dry_run = query::flag(&params, "dry_run")?;
        Ok(Self { hub, site, principal, method, uri, headers, reason, dry_run })
    }

    /// With a reason that came in the body.
    pub(super) fn because(mut self, reason: &str) -> Result<Self, Problem> {
        commands::said_why(reason)?;
        self.reason = reason.to_owned();
        Ok(self)
    }

    /// The command for `stream`, and what came of it.
    pub(super) async fn put(&self, stream: StreamId, ask: &Ask) -> Result<(Command, Came), Problem> {
        let (now, path) = (self.hub.journal.clock().now(), self.uri.path().trim_end_matches('/'));
        let command = Command {
            id: commands::command_id_of(&self.principal, self.method, path, &self.headers)?,
            expected_version: commands::expected_version(&self.headers)?,
            dry_run: self.dry_run,
            trace_id: commands::trace_id(&self.headers),
            ..commands::command(stream, ask, &self.principal, &self.reason, now)
        };
        let came = commands::put(&self.hub, &command, &self.headers).await?;
        Ok((command, came))
    }
}

/// The decision's answer: 201 where something new is at `created`; 202 where the read model does not show it yet.
pub(super) fn answered(body: Option<Value>, created: Option<String>, answer: &Answer) -> Response {
    let response = match (body, created) {
        (Some(body), Some(location)) => (StatusCode::CREATED, [(header::LOCATION, location)], Json(body)).into_response(),
        (Some(body), None) => Json(body).into_response(),
        (None, _) => {
            let detail = "decided and in the journal; the read model does not show it yet";
            let decided = &answer.decided;
            let body = json!({"decision": decided.decision.to_string(), "version": decided.version, "detail": detail});
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
    };
    commands::stamped(response, answer)
}
