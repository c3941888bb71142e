//! `/sites/{site}/slurm-bootstrap-configs/`: what machines are installed with. Both forms of each path, with and without the slash at
//! its end, are the same route; neither redirects.

mod body;
mod read;
mod write;

use super::query;
use crate::access::Routes;
use crate::{Hub, Problem};
use fleet_lifecycle::bootstrap::{Config, not_adoptable};
use fleet_projections::Reads;
use fleet_schemas::{SiteId, StreamId};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

const LIST: &str = "/sites/{site}/slurm-bootstrap-configs";

pub(crate) fn routes() -> Routes {
    let both = |path: String| [path.clone(), format!("{path}/")];
    let lists = both(LIST.to_owned())
        .into_iter()
        .fold(Routes::default(), |routes, path| routes.get(&path, read::list).post(&path, write::create).patch(&path, write::update_named));
    both(format!("{LIST}/{{config}}"))
        .into_iter()
        .fold(lists, |routes, path| routes.get(&path, read::one).patch(&path, write::update).delete(&path, write::retire))
}

/// Where a configuration is.
fn location(config: &Config) -> String {
    format!("/api/v1/sites/{}/slurm-bootstrap-configs/{}/", config.site, config.role)
}

fn stream(config: &Config) -> StreamId {
    StreamId::BootstrapConfig(config.site.clone(), config.role.clone())
}

/// A configuration as every answer shows it. User-data is added by the one answer that gives it out.
fn shown(config: &Config) -> Value {
    let wrong = not_adoptable(&config.fields);
    let mut body = json!({
        "id": stream(config).uuid().to_string(), "site_id": config.site.as_str(), "device_role": config.role.as_str(), "version": config.version,
        "image": config.fields.image, "flavor": config.fields.flavor, "features": config.fields.features, "gres": config.fields.gres,
        "user_data_sha256": config.user_data.as_ref().map(|u| u.digest.to_string()), "adoptable": wrong.is_empty(),
        "not_adoptable": wrong.iter().map(|w| json!({"field": w.field, "reason": w.reason})).collect::<Vec<_>>(),
        "created_at": config.created_at.to_string(), "updated_at": config.updated_at.to_string(), "updated_by": config.updated_by,
    });
    if !wrong.is_empty() {
        body["warnings"] = wrong.iter().map(|w| format!("{}: {}", w.field, w.reason)).collect();
    }
    body
}

/// The configuration that a path names by role or id, also one that was retired.
async fn find(reads: &Reads, site: &SiteId, name: &str) -> Result<Arc<Config>, Problem> {
    let id = name.parse::<Uuid>().ok();
    let found = reads.configs(site).await?.into_iter().find(|c| c.role.as_str() == name || id == Some(stream(c).uuid()));
    found.ok_or_else(|| missing(site, name))
}

fn missing(site: &SiteId, name: &str) -> Problem {
    Problem::missing(format!("{site} has no bootstrap configuration `{}`", name.chars().take(80).collect::<String>()))
}

/// A site whose configurations may be read: one out of reach is not there.
fn readable(hub: &Hub, principal: &crate::access::Principal, site: &str) -> Result<SiteId, Problem> {
    let site = query::site_id(site)?;
    let known = hub.journal.reference().sites.get(&site).is_some_and(|s| s.registered);
    if known && principal.reaches(&site) { Ok(site) } else { Err(Problem::missing(format!("there is no site {site}"))) }
}
