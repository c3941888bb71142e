//! `/sites/{site}/slurm-bootstrap-configs/`: what machines are installed with. Both forms of each path, with and without the slash at
//! its end, are the same route; neither redirects.

mod body;
mod read;
mod write;

use super::query;
use crate::access::Routes;
use crate::openapi::op;
use crate::{Hub, Problem};
use fleet_lifecycle::bootstrap::{Config, not_adoptable};
use fleet_projections::Reads;
use fleet_schemas::{SiteId, StreamId};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;

const LIST: &str = "/sites/{site}/slurm-bootstrap-configs";

const FIELDS: &str = "image*:string? flavor*:string? features*:[string]? gres*:string? user_data*:string?";

pub(crate) fn routes() -> Routes {
    let both = |path: String| [path.clone(), format!("{path}/")];
    let writes = |id, summary| {
        op(id, summary).query("dry_run", "bool", "decide, say what would happen, change nothing").query("reason", "string", "why").decides()
    };
    let named = format!("{{device_role:string {FIELDS}}}");
    let list = || op("listBootstrapConfigs", "What machines of each role are installed with").reads();
    let one = || {
        op("getBootstrapConfig", "One of them, user-data included; that it was read is recorded").query(
            "version",
            "int",
            "as it was at this version",
        )
    };
    let lists = both(LIST.to_owned()).into_iter().fold(Routes::default(), |routes, path| {
        routes
            .get(&path, list().ok("{items:[BootstrapConfig] next_cursor:string? meta:Meta}"), read::list)
            .post(
                &path,
                writes("createBootstrapConfig", "The first of a role").body(&named).answer(201, "BootstrapConfig").ok("BootstrapConfig"),
                write::create,
            )
            .patch(
                &path,
                writes("updateNamedBootstrapConfig", "A merge-patch; the body names the role").body(&named).ok("BootstrapConfig"),
                write::update_named,
            )
    });
    both(format!("{LIST}/{{config}}")).into_iter().fold(lists, |routes, path| {
        let body = format!("{{device_role*:string {FIELDS}}}");
        routes
            .get(&path, one().reads().ok("BootstrapConfig").problems(&[404, 409, 410]), read::one)
            .patch(&path, writes("updateBootstrapConfig", "A merge-patch").body(&body).ok("BootstrapConfig"), write::update)
            .delete(&path, writes("retireBootstrapConfig", "Nothing is installed with it any more").ok("BootstrapConfig"), write::retire)
    })
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
