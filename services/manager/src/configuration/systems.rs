//! The outside systems that a satellite looks at.

use anyhow::{Context, bail};
use fleet_satellite::{SlurmLink, netbox, slurm};
use fleet_schemas::SiteId;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{path::Path, path::PathBuf, time::Duration};

/// The longest span in seconds; more is a slip.
const YEAR: u64 = 366 * 24 * 3600;

/// A site's SLURM.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
    /// The site; a satellite needs it, `dev` takes it from where this stands.
    #[serde(default)]
    pub site: String,
    /// How the hub's roster calls us. (`dev` makes its own clients.)
    pub client: Option<String>,
    /// File with that client's private key: P-256, PKCS#8, PEM.
    pub key_file: Option<PathBuf>,
    /// The key's id; absent = its thumbprint.
    pub kid: Option<String>,
    /// URL of slurmrestd.
    pub url: String,
    /// User name that goes with the token.
    #[serde(default = "slurm_user")]
    pub user: String,
    /// File with the JWT.
    pub jwt_file: PathBuf,
    /// Seconds between looks.
    #[serde(default = "minute")]
    pub interval_seconds: u64,
    /// Seconds one call may take.
    #[serde(default = "deadline")]
    pub deadline_seconds: u64,
}

/// A NetBox.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Netbox {
    /// How the hub's roster calls us. (`dev` makes its own clients.)
    pub client: Option<String>,
    /// File with that client's private key: P-256, PKCS#8, PEM.
    pub key_file: Option<PathBuf>,
    /// The key's id; absent = its thumbprint.
    pub kid: Option<String>,
    /// Our name for it; part of every device's id, so it never changes.
    pub instance: String,
    /// Its URL.
    pub url: String,
    /// File with the token.
    pub token_file: PathBuf,
    /// Slugs of the sites it speaks for.
    pub sites: Vec<String>,
    /// Seconds between polls of the change feed.
    #[serde(default = "minute")]
    pub interval_seconds: u64,
    /// Seconds between full sweeps.
    #[serde(default = "resync")]
    pub sweep_seconds: u64,
    /// Seconds that each poll reads back: longer than the longest transaction.
    #[serde(default = "window")]
    pub window_seconds: u64,
    /// Seconds one call may take.
    #[serde(default = "deadline")]
    pub deadline_seconds: u64,
    /// File with the secret that this NetBox signs its webhooks with; absent = none are taken.
    pub webhook_secret_file: Option<PathBuf>,
    /// What links a device to a SLURM node: `custom-field:<name>`, or `name`.
    #[serde(default = "slurm_link")]
    pub slurm_node: String,
}

pub(super) fn resync() -> u64 {
    900
}
fn minute() -> u64 {
    60
}
fn window() -> u64 {
    600
}
pub(super) fn deadline() -> u64 {
    30
}
fn slurm_user() -> String {
    "slurm".into()
}
fn slurm_link() -> String {
    "custom-field:slurm_node".into()
}

/// Refuses spans that nobody means.
pub(super) fn positive(spans: &[(&str, u64)]) -> anyhow::Result<()> {
    match spans.iter().find(|(_, seconds)| !(1..=YEAR).contains(seconds)) {
        Some((name, seconds)) => bail!("{name} is {seconds}; 1 to {YEAR}"),
        None => Ok(()),
    }
}

/// An agent as the hub's roster is to know it.
pub struct AgentClient<'a> {
    /// What it looks at, in words.
    pub what: String,
    /// The sites that it speaks of.
    pub sites: &'a [String],
    /// Its client at the hub.
    pub client: Option<&'a String>,
    /// That client's private key.
    pub key_file: Option<&'a PathBuf>,
    /// The key's id; absent = its thumbprint.
    pub kid: Option<&'a String>,
}

impl Slurm {
    /// Its agent, as the hub's roster is to know it.
    pub fn agent_client(&self) -> AgentClient<'_> {
        let what = format!("slurm of {}", self.site);
        let (client, key_file, kid) = (self.client.as_ref(), self.key_file.as_ref(), self.kid.as_ref());
        AgentClient { what, sites: std::slice::from_ref(&self.site), client, key_file, kid }
    }

    /// Relative paths count from the file.
    pub(super) fn rebase(&mut self, base: &Path) {
        self.jwt_file = base.join(&self.jwt_file);
        self.key_file = self.key_file.take().map(|f| base.join(f));
    }

    /// Its agent.
    pub fn agent(&self) -> anyhow::Result<slurm::Agent> {
        positive(&[("deadline_seconds", self.deadline_seconds)]).with_context(|| format!("slurm of {}", self.site))?;
        let settings = slurm::Settings {
            site: self.site.parse()?,
            url: self.url.clone(),
            user: self.user.clone(),
            jwt_file: self.jwt_file.clone(),
            interval: Duration::from_secs(self.interval_seconds),
            deadline: Duration::from_secs(self.deadline_seconds),
        };
        slurm::Agent::new(settings).with_context(|| format!("slurm of {}", self.site))
    }
}

impl Netbox {
    /// Its agent, as the hub's roster is to know it.
    pub fn agent_client(&self) -> AgentClient<'_> {
        let what = format!("netbox {}", self.instance);
        let (client, key_file, kid) = (self.client.as_ref(), self.key_file.as_ref(), self.kid.as_ref());
        AgentClient { what, sites: &self.sites, client, key_file, kid }
    }

    /// Relative paths count from the file.
    pub(super) fn rebase(&mut self, base: &Path) {
        self.token_file = base.join(&self.token_file);
        self.webhook_secret_file = self.webhook_secret_file.take().map(|f| base.join(f));
        self.key_file = self.key_file.take().map(|f| base.join(f));
    }

    /// Refuses spans that nobody means, and names that would mix devices up.
    pub(super) fn verify(&self) -> anyhow::Result<()> {
        let instance = &self.instance;
        if instance.trim().is_empty() || instance.trim() != instance {
            bail!("netbox `{instance}`: an instance has a name of its own, without blanks around it");
        }
        let (sweep, window, deadline) = (self.sweep_seconds, self.window_seconds, self.deadline_seconds);
        let spans = [("sweep_seconds", sweep), ("window_seconds", window), ("deadline_seconds", deadline)];
        positive(&spans).with_context(|| format!("netbox {instance}"))?;
        self.agent().map(|_| ())
    }

    fn link(&self) -> anyhow::Result<SlurmLink> {
        match self.slurm_node.split_once(':') {
            Some(("custom-field", field)) if !field.is_empty() => Ok(SlurmLink::CustomField(field.into())),
            None if self.slurm_node == "name" => Ok(SlurmLink::Name),
            _ => bail!("netbox {}: slurm_node is `{}`; `custom-field:<name>` or `name`", self.instance, self.slurm_node),
        }
    }

    /// Its agent.
    pub fn agent(&self) -> anyhow::Result<netbox::Agent> {
        let sites: Result<Vec<SiteId>, _> = self.sites.iter().map(|s| s.parse()).collect();
        let settings = netbox::Settings {
            instance: self.instance.clone(),
            url: self.url.clone(),
            token_file: self.token_file.clone(),
            sites: sites?,
            interval: Duration::from_secs(self.interval_seconds),
            sweep_every: Duration::from_secs(self.sweep_seconds),
            window: Duration::from_secs(self.window_seconds),
            deadline: Duration::from_secs(self.deadline_seconds),
            slurm_link: self.link()?,
        };
        netbox::Agent::new(settings).with_context(|| format!("netbox {}", self.instance))
    }
}
