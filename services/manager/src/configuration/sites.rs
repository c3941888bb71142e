//! Sites, as a hub knows them: their sources and the profiles of their roles.

use anyhow::{Context, anyhow, bail};
use fleet_lifecycle::{self as decider, Decider, Fleet, Reference, Request};
use fleet_schemas::{
    Actor, DecisionId, Dhcp, FirstRoleProfile, Mode, Provisioner, RegisterSite, RoleProfile, Scheduler, SiteId, Source, SourceConfig,
    StreamId, Timestamp,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, collections::BTreeSet};

/// What a site's stream is to say.
pub type Commands = (SiteId, RegisterSite, Vec<FirstRoleProfile>);

/// A role's profile.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Role {
    /// `external` so far.
    #[serde(default = "external")]
    pub provisioner: String,
    /// `slurm` or `none`.
    pub scheduler: String,
    /// `kea`, `neutron` or `none`.
    #[serde(default = "none")]
    pub dhcp: String,
    /// `slurm-idle` so far.
    #[serde(default)]
    pub workload_proofs: Vec<String>,
    /// `none` so far.
    #[serde(default = "none")]
    pub bom: String,
    /// `none` so far.
    #[serde(default = "none")]
    pub firmware: String,
    /// `none` so far.
    #[serde(default = "none")]
    pub validation: String,
    /// `none` so far.
    #[serde(default = "none")]
    pub burn_in: String,
}

fn external() -> String {
    "external".into()
}
fn none() -> String {
    "none".into()
}

/// The commands that make the stream of `site` say this.
pub fn commands(site: &str, sources: impl Iterator<Item = (Source, u64)>, roles: &BTreeMap<String, Role>) -> anyhow::Result<Commands> {
    let config = |(source, interval): (Source, u64)| SourceConfig { source, interval_seconds: interval as i64, mode: Mode::Observe };
    let profile = |(role, r): (&String, &Role)| Ok(FirstRoleProfile { role: role.clone(), profile: r.profile()? });
    let profiles = roles.iter().map(profile).collect::<anyhow::Result<Vec<_>>>().with_context(|| format!("site {site}"))?;
    Ok((site.parse()?, RegisterSite { sources: sources.map(config).collect() }, profiles))
}

/// Refuses what the decider would: the same site twice, and what this build cannot do.
pub fn verify(all: Vec<Commands>) -> anyhow::Result<()> {
    let mut names = BTreeSet::new();
    for (site, register, profiles) in all {
        if !names.insert(site.clone()) {
            bail!("site {site} is listed twice");
        }
        accepted(&site, register, profiles)?;
    }
    Ok(())
}

/// Whether the decider takes these for a site that it does not know yet.
fn accepted(site: &SiteId, register: RegisterSite, profiles: Vec<FirstRoleProfile>) -> anyhow::Result<()> {
    let (stream, reference, actor) = (StreamId::Site(site.clone()), Reference::default(), Actor::system("configuration"));
    let (now, decision) = (Timestamp::default(), DecisionId(uuid::Uuid::nil()));
    let (stream, actor, reference) = (&stream, &actor, &reference);
    let ctx = decider::Context { now, stream, version: 0, decision, actor, reason: "", reference, leading_since: now };
    let mut state = Fleet::new(stream);
    for ask in std::iter::once(register.into()).chain(profiles.into_iter().map(Into::into)) {
        let events = Fleet::decide(&state, &Request { ask, expected_version: None }, &ctx)
            .map_err(|r| anyhow!("site {site}: {}: expected {}, seen {}; {}", r.code, r.expected, r.seen, r.helps))?;
        events.iter().for_each(|event| Fleet::evolve(&mut state, event, now));
    }
    Ok(())
}

impl Role {
    fn profile(&self) -> anyhow::Result<RoleProfile> {
        let stage = |value: &str| (value != "none").then(|| value.to_owned());
        Ok(RoleProfile {
            provisioner: self.provisioner.parse::<Provisioner>()?,
            scheduler: self.scheduler.parse::<Scheduler>()?,
            dhcp: self.dhcp.parse::<Dhcp>()?,
            workload_proofs: self.workload_proofs.clone(),
            bom: stage(&self.bom),
            firmware: stage(&self.firmware),
            validation: stage(&self.validation),
            burn_in: stage(&self.burn_in),
        })
    }
}
