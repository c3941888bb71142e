//! A change of a site: one command, its decision, the site as it then is.

use crate::access::Principal;
use crate::api::{commands, query, sites};
use crate::{Hub, Problem};
use axum::{Json, http::HeaderMap, http::StatusCode, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_lifecycle::Site;
use fleet_schemas::{Ask, Command, SiteId, StreamId};
use serde_json::{Value, json};
use std::sync::Arc;

/// One request to change a site.
pub(super) struct Writing {
    pub(super) hub: Arc<Hub>,
    pub(super) site: SiteId,
    pub(super) principal: Principal,
    method: &'static str,
    uri: Uri,
    headers: HeaderMap,
    reason: String,
    dry_run: bool,
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
        if params.contains_key("reason") {
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

    /// The site as it is now, and its version.
    pub(super) async fn now(&self) -> Result<(Arc<Site>, u64), Problem> {
        sites::find(&self.hub, &self.principal, self.site.as_str(), &self.headers).await
    }

    /// Asks, and shows what of the site `show` picks; `created` is where the new thing is. `on` is the version that the request was
    /// made from, where it was.
    pub(super) async fn ask(
        self,
        ask: &Ask,
        on: Option<u64>,
        created: Option<String>,
        show: impl Fn(&Site, u64) -> Value,
    ) -> Result<Response, Problem> {
        let (now, path) = (self.hub.journal.clock().now(), self.uri.path().trim_end_matches('/'));
        let command = Command {
            id: commands::command_id_of(&self.principal, self.method, path, &self.headers)?,
            expected_version: commands::expected_version(&self.headers)?.or(on),
            dry_run: self.dry_run,
            trace_id: commands::trace_id(&self.headers),
            ..commands::command(StreamId::Site(self.site.clone()), ask, &self.principal, &self.reason, now)
        };
        let answer = match commands::put(&self.hub, &command, &self.headers).await? {
            commands::Came::Pending => return Ok(commands::pending(&command, format!("/api/v1/sites/{}", self.site))),
            commands::Came::Decided(answer) => answer,
        };
        commands::granted(&command, &answer)?;
        let decided = &answer.decided;
        if self.dry_run {
            let body = json!({"dry_run": true, "would": decided.outcome.seen, "version": decided.version});
            return Ok(commands::stamped(Json(body).into_response(), &answer));
        }
        let reads = self.hub.reads();
        let shown = if commands::shown(&reads, &answer).await { reads.site(&self.site).await? } else { None };
        let Some((site, version)) = shown else {
            let detail = "decided and in the journal; the read model does not show it yet";
            let body = json!({"decision": decided.decision.to_string(), "version": decided.version, "detail": detail});
            return Ok(commands::stamped((StatusCode::ACCEPTED, Json(body)).into_response(), &answer));
        };
        let body = Json(show(&site, version));
        let response = match created {
            Some(location) => (StatusCode::CREATED, [(header::LOCATION, location)], body).into_response(),
            None => body.into_response(),
        };
        Ok(commands::stamped(response, &answer))
    }
}
