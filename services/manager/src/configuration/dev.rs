//! `dev --config`: sites with their systems in one file, for a hub and a satellite in one process.

use super::sites::{self, Commands, Role};
use super::systems::{self, Netbox, Slurm};
use super::{satellite, there};
use anyhow::bail;
use fleet_schemas::Source;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, path::Path};

/// The whole file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Sites.
    pub sites: Vec<Site>,
    /// NetBoxes.
    #[serde(default)]
    pub netbox: Vec<Netbox>,
    /// Seconds after which unchanged observations are sent again.
    #[serde(default = "systems::resync")]
    pub resync_seconds: u64,
}

/// A site.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its short name; the slug it has in NetBox.
    pub name: String,
    /// Its SLURM.
    pub slurm: Option<Slurm>,
    /// Profiles by role slug; a role without one is inventory only.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

impl Configuration {
    /// Reads the file, and refuses whatever `dev` would.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        super::read(file, |read: &mut Self, base| {
            for site in &mut read.sites {
                if let Some(slurm) = &mut site.slurm {
                    slurm.rebase(base);
                    slurm.site.clone_from(&site.name);
                }
            }
            read.netbox.iter_mut().for_each(|netbox| netbox.rebase(base));
            read.verify()
        })
    }

    fn verify(&self) -> anyhow::Result<()> {
        let systems = self.satellite();
        let clients = systems.slurm.iter().map(|s| &s.client).chain(systems.netbox.iter().map(|n| &n.client));
        if let Some(client) = clients.flatten().next() {
            bail!("client {client}: `dev` makes its own clients; `client` and `key_file` are for `satellite --config`");
        }
        systems.verify()?;
        let mut bound = BTreeMap::new();
        for netbox in &self.netbox {
            for site in &netbox.sites {
                if !self.sites.iter().any(|s| s.name == *site) {
                    bail!("netbox {}: site {site} is not listed under sites", netbox.instance);
                }
                if let Some(other) = bound.insert(site, &netbox.instance) {
                    bail!("site {site} is bound to two NetBoxes, {other} and {}", netbox.instance);
                }
            }
        }
        if let Some(site) = self.sites.iter().find(|s| !bound.contains_key(&s.name)) {
            bail!("site {} is bound to no NetBox; name it in a NetBox's `sites`", site.name);
        }
        sites::verify(self.commands()?)
    }

    /// The commands that make the site streams say what this file says.
    pub fn commands(&self) -> anyhow::Result<Vec<Commands>> {
        let of = |site: &Site| {
            let netbox = self.netbox.iter().find(|n| n.sites.contains(&site.name)).map(|n| (Source::Netbox, n.interval_seconds));
            let slurm = site.slurm.as_ref().map(|s| (Source::Slurm, s.interval_seconds));
            sites::commands(&site.name, netbox.into_iter().chain(slurm), &site.roles)
        };
        self.sites.iter().map(of).collect()
    }

    /// The satellite's half.
    pub fn satellite(&self) -> satellite::Systems {
        satellite::Systems {
            slurm: self.sites.iter().filter_map(|s| s.slurm.clone()).collect(),
            netbox: self.netbox.clone(),
            resync_seconds: self.resync_seconds,
        }
    }

    /// What the file says, in lines.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        for site in &self.sites {
            let netbox = self.netbox.iter().find(|n| n.sites.contains(&site.name)).map_or("none", |n| n.instance.as_str());
            let slurm = site.slurm.as_ref().map_or("none", |s| s.url.as_str());
            let roles: Vec<_> = site.roles.keys().map(String::as_str).collect();
            lines.push(format!("site {}: netbox {netbox}, slurm {slurm}, roles {}", site.name, roles.join(", ")));
            if let Some(slurm) = &site.slurm {
                there(&format!("site {}: jwt_file", site.name), &slurm.jwt_file)?;
            }
        }
        for netbox in &self.netbox {
            let (every, whole) = (netbox.interval_seconds, netbox.sweep_seconds);
            lines.push(format!("netbox {}: {}, every {every} s, whole every {whole} s", netbox.instance, netbox.url));
            there(&format!("netbox {}: token_file", netbox.instance), &netbox.token_file)?;
        }
        Ok(lines)
    }
}
