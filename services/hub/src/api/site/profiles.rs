//! `/sites/{site}/role-profiles/{role}/`: how much of the lifecycle applies to a role's devices.

use crate::access::{Granted, SiteRead, SiteUpdate};
use crate::api::writing::Writing;
use crate::api::{body::Whole, named::Named, named::Within, query, sites};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::HeaderMap, http::Uri, response::Response};
use fleet_lifecycle::Site;
use fleet_schemas::{ChangeRoleProfile, Dhcp, Provisioner, RoleProfile, Scheduler};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn list(
    granted: Granted<SiteRead>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Json<Value>, Problem> {
    query::params(&uri, &[])?;
    let (site, _) = sites::find(&hub, &granted.principal, &site, &headers).await?;
    Ok(Json(json!({"items": site.profiles.keys().map(|role| shown(&site, role)).collect::<Vec<_>>()})))
}

pub(crate) async fn one(
    granted: Granted<SiteRead>,
    State(hub): State<Arc<Hub>>,
    Within(site, role): Within,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    query::params(&uri, &[])?;
    let (site, version) = sites::find(&hub, &granted.principal, &site, &headers).await?;
    if !site.profiles.contains_key(&role) {
        return Err(Problem::missing(format!("role {} has no profile at {}", role.chars().take(80).collect::<String>(), site.id)));
    }
    Ok(sites::tagged(shown(&site, &role), version))
}

fn shown(site: &Site, role: &str) -> Value {
    let mut body = site.profiles.get(role).map_or_else(|| json!({}), sites::profile);
    (body["site_id"], body["role"]) = (site.id.as_str().into(), role.into());
    body
}

/// What is given; `null` and `"none"` both say that there is none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    provisioner: Option<Provisioner>,
    scheduler: Option<Scheduler>,
    dhcp: Option<Dhcp>,
    workload_proofs: Option<Vec<String>>,
    #[serde(default, deserialize_with = "given")]
    bom: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    firmware: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    validation: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    burn_in: Option<Option<String>>,
}

fn given<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(d).map(|text| Some(text.filter(|t| t != "none")))
}

pub(crate) async fn change(
    granted: Granted<SiteUpdate>,
    State(hub): State<Arc<Hub>>,
    Within(site, role): Within,
    uri: Uri,
    headers: HeaderMap,
    Whole(bytes): Whole,
) -> Result<Response, Problem> {
    let writing = Writing::new(hub, granted.principal, "PATCH", &site, uri, headers)?;
    let slug = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if role.is_empty() || role.len() > 100 || !role.chars().all(slug) {
        return Err(Problem::invalid("role", "the slug of a NetBox device role: letters, digits, - and _"));
    }
    let body: Body = query::body(&bytes)?;
    let (set, profile) = named(body);
    let ask = ChangeRoleProfile { role: role.clone(), set, profile }.into();
    writing.ask(&ask, None, |site, _| shown(site, &role)).await
}

/// The fields that a body names, and a profile that has their values; whatever it has elsewhere is never looked at.
fn named(body: Body) -> (Vec<String>, RoleProfile) {
    let names = [
        ("provisioner", body.provisioner.is_some()),
        ("scheduler", body.scheduler.is_some()),
        ("dhcp", body.dhcp.is_some()),
        ("workload_proofs", body.workload_proofs.is_some()),
        ("bom", body.bom.is_some()),
        ("firmware", body.firmware.is_some()),
        ("validation", body.validation.is_some()),
        ("burn_in", body.burn_in.is_some()),
    ];
    let profile = RoleProfile {
        provisioner: body.provisioner.unwrap_or(Provisioner::External),
        scheduler: body.scheduler.unwrap_or(Scheduler::None),
        dhcp: body.dhcp.unwrap_or(Dhcp::None),
        workload_proofs: body.workload_proofs.unwrap_or_default(),
        bom: body.bom.flatten(),
        firmware: body.firmware.flatten(),
        validation: body.validation.flatten(),
        burn_in: body.burn_in.flatten(),
    };
    (names.into_iter().filter(|(_, named)| *named).map(|(name, _)| name.to_owned()).collect(), profile)
}
