//! The configuration file: sites with their sources, and the NetBoxes. Unknown keys are refused; `FM_CFG__…` overrides.

use anyhow::{Context, anyhow, bail};
use fleet_lifecycle::{self as decider, Decider, Fleet, Reference, Request};
use fleet_satellite::{SlurmLink, netbox, slurm};
use fleet_schemas::{
    Actor, DecisionId, Dhcp, Mode, Provisioner, RegisterSite, RoleProfile, Scheduler, SetRoleProfile, SiteId, Source, SourceConfig,
    StreamId, Timestamp,
};
use serde::Deserialize;
use std::{collections::BTreeMap, collections::BTreeSet, path::Path, path::PathBuf, time::Duration};

/// The longest span in seconds; more is a slip.
const YEAR: u64 = 366 * 24 * 3600;

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Sites.
    pub sites: Vec<Site>,
    /// NetBoxes.
    #[serde(default)]
    pub netbox: Vec<Netbox>,
    /// Seconds after which unchanged observations are sent again.
    #[serde(default = "resync")]
    pub resync_seconds: u64,
}

/// A site.
#[derive(Clone, Debug, Deserialize)]
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

/// A site's SLURM.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slurm {
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

/// A role's profile.
#[derive(Clone, Debug, Deserialize)]
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

/// A NetBox.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Netbox {
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
    /// What links a device to a SLURM node: `custom-field:<name>`, or `name`.
    #[serde(default = "slurm_link")]
    pub slurm_node: String,
}

fn resync() -> u64 {
    900
}
fn minute() -> u64 {
    60
}
fn window() -> u64 {
    600
}
fn deadline() -> u64 {
    30
}
fn slurm_user() -> String {
    "slurm".into()
}
fn external() -> String {
    "external".into()
}
fn none() -> String {
    "none".into()
}
fn slurm_link() -> String {
    "custom-field:slurm_node".into()
}

impl Configuration {
    /// Reads the file; relative paths in it count from it. What is wrong is said without what could be a password.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        Self::load(file).map_err(|e| anyhow!(without_userinfo(&format!("{e:#}"))))
    }

    fn load(file: &Path) -> anyhow::Result<Self> {
        let name = file.display().to_string();
        if !file.exists() {
            bail!("{name}: no such file");
        }
        let source = config::File::new(&name, config::FileFormat::Toml);
        let env = config::Environment::with_prefix("FM_CFG").prefix_separator("__").separator("__");
        let built = config::Config::builder().add_source(source).add_source(env).build().with_context(|| name.clone())?;
        let mut read: Self = built.try_deserialize().with_context(|| name.clone())?;
        let base = file.parent().unwrap_or(Path::new("."));
        for slurm in read.sites.iter_mut().filter_map(|s| s.slurm.as_mut()) {
            slurm.jwt_file = base.join(&slurm.jwt_file);
        }
        for netbox in &mut read.netbox {
            netbox.token_file = base.join(&netbox.token_file);
        }
        read.verify().with_context(|| name)?;
        Ok(read)
    }

    /// Refuses whatever `dev` would: the agents are made, and the decider is asked.
    fn verify(&self) -> anyhow::Result<()> {
        let mut names = BTreeSet::new();
        for site in &self.sites {
            if !names.insert(&site.name) {
                bail!("site {} is listed twice", site.name);
            }
            if let Some(slurm) = &site.slurm {
                positive(&[("deadline_seconds", slurm.deadline_seconds)]).with_context(|| format!("slurm of {}", site.name))?;
            }
            site.slurm_agent()?;
        }
        positive(&[("resync_seconds", self.resync_seconds)])?;
        let (mut bound, mut instances) = (BTreeMap::new(), BTreeSet::new());
        for netbox in &self.netbox {
            let instance = &netbox.instance;
            // Devices' ids are made of it: two NetBoxes under one name would share devices.
            if instance.trim().is_empty() || instance.trim() != instance || !instances.insert(instance) {
                bail!("netbox `{instance}`: an instance has a name of its own, without blanks around it");
            }
            let (sweep, window, deadline) = (netbox.sweep_seconds, netbox.window_seconds, netbox.deadline_seconds);
            let spans = [("sweep_seconds", sweep), ("window_seconds", window), ("deadline_seconds", deadline)];
            positive(&spans).with_context(|| format!("netbox {instance}"))?;
            netbox.agent()?;
            for site in &netbox.sites {
                if !names.contains(site) {
                    bail!("netbox {instance}: site {site} is not listed under sites");
                }
                if let Some(other) = bound.insert(site, instance) {
                    bail!("site {site} is bound to two NetBoxes, {other} and {instance}");
                }
            }
        }
        if let Some(site) = self.sites.iter().find(|s| !bound.contains_key(&s.name)) {
            bail!("site {} is bound to no NetBox; name it in a NetBox's `sites`", site.name);
        }
        self.commands()?.into_iter().try_for_each(|(site, register, profiles)| accepted(&site, register, profiles))
    }

    /// The commands that make the site streams say what this file says.
    pub fn commands(&self) -> anyhow::Result<Vec<(SiteId, RegisterSite, Vec<SetRoleProfile>)>> {
        let mut out = Vec::new();
        for site in &self.sites {
            let netbox = self.netbox.iter().find(|n| n.sites.contains(&site.name)).map(|n| (Source::Netbox, n.interval_seconds));
            let slurm = site.slurm.as_ref().map(|s| (Source::Slurm, s.interval_seconds));
            let sources = netbox.into_iter().chain(slurm).map(|(source, interval)| SourceConfig {
                source,
                interval_seconds: interval as i64,
                mode: Mode::Observe,
            });
            let profiles: anyhow::Result<Vec<_>> =
                site.roles.iter().map(|(role, r)| Ok(SetRoleProfile { role: role.clone(), profile: r.profile()? })).collect();
            let profiles = profiles.with_context(|| format!("site {}", site.name))?;
            out.push((site.id()?, RegisterSite { sources: sources.collect() }, profiles));
        }
        Ok(out)
    }
}

/// `http://user:password@host` as `http://@host`.
fn without_userinfo(text: &str) -> String {
    let mut parts = text.split("://");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| {
        let end = part.find(|c: char| c.is_whitespace() || c == '/').unwrap_or(part.len());
        format!("{out}://{}", &part[part[..end].rfind('@').unwrap_or(0)..])
    })
}

fn positive(spans: &[(&str, u64)]) -> anyhow::Result<()> {
    match spans.iter().find(|(_, seconds)| !(1..=YEAR).contains(seconds)) {
        Some((name, seconds)) => bail!("{name} is {seconds}; 1 to {YEAR}"),
        None => Ok(()),
    }
}

/// Whether the decider takes these for a site that it does not know yet.
fn accepted(site: &SiteId, register: RegisterSite, profiles: Vec<SetRoleProfile>) -> anyhow::Result<()> {
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

impl Site {
    /// Its name as an id.
    pub fn id(&self) -> anyhow::Result<SiteId> {
        Ok(self.name.parse()?)
    }

    /// Its SLURM agent.
    pub fn slurm_agent(&self) -> anyhow::Result<Option<slurm::Agent>> {
        let Some(s) = &self.slurm else { return Ok(None) };
        let settings = slurm::Settings {
            site: self.id()?,
            url: s.url.clone(),
            user: s.user.clone(),
            jwt_file: s.jwt_file.clone(),
            interval: Duration::from_secs(s.interval_seconds),
            deadline: Duration::from_secs(s.deadline_seconds),
        };
        slurm::Agent::new(settings).map(Some).with_context(|| format!("slurm of {}", self.name))
    }
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

impl Netbox {
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

/// `config check`.
pub fn check(file: &Path) -> anyhow::Result<()> {
    let read = Configuration::read(file)?;
    for site in &read.sites {
        let netbox = read.netbox.iter().find(|n| n.sites.contains(&site.name)).map_or("none", |n| n.instance.as_str());
        let slurm = site.slurm.as_ref().map_or("none", |s| s.url.as_str());
        let roles: Vec<_> = site.roles.keys().map(String::as_str).collect();
        crate::print::lines(&format!("site {}: netbox {netbox}, slurm {slurm}, roles {}", site.name, roles.join(", ")));
        if let Some(file) = site.slurm.as_ref().map(|s| &s.jwt_file).filter(|f| !f.exists()) {
            bail!("site {}: jwt_file {} does not exist", site.name, file.display());
        }
    }
    for netbox in &read.netbox {
        crate::print::lines(&format!(
            "netbox {}: {}, every {} s, whole every {} s",
            netbox.instance, netbox.url, netbox.interval_seconds, netbox.sweep_seconds
        ));
        if !netbox.token_file.exists() {
            bail!("netbox {}: token_file {} does not exist", netbox.instance, netbox.token_file.display());
        }
    }
    crate::print::lines(&format!("{}: fine", file.display()));
    Ok(())
}
