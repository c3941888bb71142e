//! `satellite --config`: the systems of a site, and the hub.

use super::systems::{self, AgentClient, Netbox, Slurm};
use super::there;
use anyhow::{Context, bail};
use fleet_satellite::hub;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeSet, net::SocketAddr, path::Path, path::PathBuf, time::Duration};

/// The whole file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Folder of the outbox.
    pub data: PathBuf,
    /// The hub.
    pub hub: Hub,
    /// SLURM clusters, one a site.
    #[serde(default)]
    pub slurm: Vec<Slurm>,
    /// NetBoxes.
    #[serde(default)]
    pub netbox: Vec<Netbox>,
    /// Seconds after which unchanged observations are sent again.
    #[serde(default = "systems::resync")]
    pub resync_seconds: u64,
    /// Seconds between device lists; the hub's word that its list changed is heeded at once.
    #[serde(default = "list")]
    pub list_seconds: u64,
    /// Address on which NetBox's webhooks are taken, as hints to look at once; absent = none are.
    pub webhooks_listen: Option<SocketAddr>,
    /// Days that what the hub does not take is kept.
    #[serde(default = "keep")]
    pub keep_days: u64,
}

/// Where the hub is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hub {
    /// Its URL: https, or http on loopback.
    pub url: String,
    /// The CA that signed its certificate, PEM, or two while it rotates; absent = the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Its issuer; absent = what its metadata names.
    pub issuer: Option<String>,
    /// Seconds one call may take.
    #[serde(default = "systems::deadline")]
    pub deadline_seconds: u64,
}

/// What is looked at, wherever the hub is.
pub struct Systems {
    /// SLURM clusters.
    pub slurm: Vec<Slurm>,
    /// NetBoxes.
    pub netbox: Vec<Netbox>,
    /// Seconds after which unchanged observations are sent again.
    pub resync_seconds: u64,
}

fn list() -> u64 {
    300
}
fn keep() -> u64 {
    7
}

impl Systems {
    /// Refuses what no agent could work with: the agents are made.
    pub fn verify(&self) -> anyhow::Result<()> {
        systems::positive(&[("resync_seconds", self.resync_seconds)])?;
        let (mut sites, mut instances) = (BTreeSet::new(), BTreeSet::new());
        for slurm in &self.slurm {
            slurm.agent()?;
            if !sites.insert(&slurm.site) {
                bail!("site {} has two SLURM clusters", slurm.site);
            }
        }
        let mut bound = BTreeSet::new();
        for netbox in &self.netbox {
            netbox.verify()?;
            if let Some(site) = netbox.sites.iter().find(|site| !bound.insert(*site)) {
                bail!("site {site} is bound to two NetBoxes; a site has one");
            }
            // Devices' ids are made of it: two NetBoxes under one name would share devices.
            if !instances.insert(&netbox.instance) {
                bail!("netbox `{}`: an instance has a name of its own, without blanks around it", netbox.instance);
            }
        }
        Ok(())
    }
}

impl Configuration {
    /// Reads the file, and refuses whatever `satellite` would.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        super::read(file, |read: &mut Self, base| {
            read.data = base.join(&read.data);
            read.hub.ca_file = read.hub.ca_file.take().map(|f| base.join(f));
            read.slurm.iter_mut().for_each(|s| s.rebase(base));
            read.netbox.iter_mut().for_each(|n| n.rebase(base));
            read.verify()
        })
    }

    fn verify(&self) -> anyhow::Result<()> {
        self.systems().verify()?;
        let hub = &self.hub;
        systems::positive(&[
            ("list_seconds", self.list_seconds),
            ("keep_days", self.keep_days),
            ("deadline_seconds", hub.deadline_seconds),
        ])?;
        if self.webhooks_listen.is_some_and(|at| !at.ip().is_loopback()) {
            bail!("webhooks_listen: loopback alone; what comes from elsewhere comes through a proxy that speaks TLS");
        }
        if self.slurm.is_empty() && self.netbox.is_empty() {
            bail!("nothing is looked at: name a [[slurm]] or a [[netbox]]");
        }
        match self.clients().find(|c| c.client.is_none() || c.key_file.is_none()) {
            Some(c) => bail!("{}: `client` and `key_file` say how the hub's roster knows it", c.what),
            None => Ok(()),
        }
    }

    /// Makes the way to the hub of every agent once, so that what could not be one is refused before anything is made.
    pub fn ways(&self) -> anyhow::Result<()> {
        self.clients().try_for_each(|c| self.hub.client(&c).map(|_| ()))
    }

    fn clients(&self) -> impl Iterator<Item = AgentClient<'_>> {
        self.slurm.iter().map(Slurm::agent_client).chain(self.netbox.iter().map(Netbox::agent_client))
    }

    /// What is looked at.
    pub fn systems(&self) -> Systems {
        Systems { slurm: self.slurm.clone(), netbox: self.netbox.clone(), resync_seconds: self.resync_seconds }
    }

    /// What the file says, in lines.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = vec![format!("hub {}", self.hub.url)];
        for slurm in &self.slurm {
            let client = slurm.client.as_deref().unwrap_or_default();
            lines.push(format!("slurm of {}: {} as {client}, every {} s", slurm.site, slurm.url, slurm.interval_seconds));
            there(&format!("slurm of {}: jwt_file", slurm.site), &slurm.jwt_file)?;
        }
        for netbox in &self.netbox {
            let client = netbox.client.as_deref().unwrap_or_default();
            lines.push(format!("netbox {}: {} as {client}, sites {}", netbox.instance, netbox.url, netbox.sites.join(", ")));
            there(&format!("netbox {}: token_file", netbox.instance), &netbox.token_file)?;
        }
        for c in self.clients() {
            there(&format!("{}: key_file", c.what), c.key_file.map_or(Path::new(""), PathBuf::as_path))?;
        }
        self.ways()?;
        Ok(lines)
    }
}

impl Hub {
    /// The way to it of one agent.
    pub fn client(&self, of: &AgentClient<'_>) -> anyhow::Result<hub::Client> {
        let missing = |field: &str| format!("{}: `{field}` says how the hub's roster knows it", of.what);
        let settings = hub::Settings {
            url: self.url.clone(),
            client: of.client.with_context(|| missing("client"))?.clone(),
            key_file: of.key_file.with_context(|| missing("key_file"))?.clone(),
            kid: of.kid.cloned(),
            issuer: self.issuer.clone(),
            ca_file: self.ca_file.clone(),
            deadline: Duration::from_secs(self.deadline_seconds),
        };
        hub::Client::new(&settings).with_context(|| of.what.clone())
    }
}
