//! PATCH `/sites/{site}`: modes per source, and who answers for what.

use crate::access::{Granted, SiteUpdate};
use crate::api::writing::Writing;
use crate::api::{body::Whole, named::Named, query, sites};
use crate::{Hub, Problem};
use axum::{extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_schemas::{ChangeSite, Mode, RoleTeam, Source, SourceMode, SourceTeam};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::Arc};

/// A merge-patch: what is not named stays, `null` takes away.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    modes: BTreeMap<String, Mode>,
    #[serde(default)]
    owners: Owners,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Owners {
    #[serde(default)]
    sources: BTreeMap<String, Option<String>>,
    #[serde(default)]
    roles: BTreeMap<String, Option<String>>,
}

pub(crate) async fn change(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "PATCH", &site, uri, headers)?;
    let body: Body = query::body(&bytes)?;
    let source = |field: &str, name: String| {
        name.parse::<Source>()
            .map_err(|e| Problem::invalid(&format!("{field}.{}", name.chars().take(64).collect::<String>()), e.to_string()))
    };
    let modes = body.modes.into_iter().map(|(name, mode)| Ok(SourceMode { source: source("modes", name)?, mode }));
    let teams = body.owners.sources.into_iter().map(|(name, team)| Ok(SourceTeam { source: source("owners.sources", name)?, team }));
    let ask = ChangeSite {
        modes: modes.collect::<Result<_, Problem>>()?,
        source_teams: teams.collect::<Result<_, Problem>>()?,
        role_teams: body.owners.roles.into_iter().map(|(role, team)| RoleTeam { role, team }).collect(),
    };
    writing.ask(&ask.into(), None, sites::whole).await
}
