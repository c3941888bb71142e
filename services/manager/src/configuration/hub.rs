//! `hub --config`: where it listens, the sites and the roster.

use super::log::Log;
use super::postgres::{Postgres, VaultDatabase};
use super::sites::{self, Commands, Role};
use super::there;
use anyhow::{Context, anyhow, bail};
use fleet_hub::access::{Client, Clients, SCOPES};
use fleet_schemas::{SiteId, Source, safe_way};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{collections::BTreeMap, net::SocketAddr, path::Path, path::PathBuf};

/// The whole file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Folder of the log, the read models and the keys.
    pub data: PathBuf,
    /// Its name among the hubs that share a log, the same after a restart. Absent = the machine's name.
    pub name: Option<String>,
    /// The Kafka cluster that the log is on. Absent = embedded, in `data`; then this hub is the only one.
    pub log: Option<Log>,
    /// The database of the read models. Absent = files in `data`.
    pub postgres: Option<Postgres>,
    /// The database of the vault: a role, rights and backups of its own. Absent = a file in `data`, which no other hub can read.
    pub vault: Option<VaultDatabase>,
    /// Address to listen on; beyond loopback with `tls` alone.
    pub listen: SocketAddr,
    /// URL under which it is reached: the issuer of its tokens. Absent = what it listens on.
    pub url: Option<String>,
    /// The chart's values, whose `satelliteRoster` says which satellites there are.
    pub roster: PathBuf,
    /// The certificate.
    pub tls: Option<Tls>,
    /// The issuer's keys, PEM: the first signs, all count. Absent = one that is made in `data`.
    #[serde(default)]
    pub issuer_keys: Vec<PathBuf>,
    /// File with the vault's master key: 32 bytes, base64. Absent = one that is made in `data`.
    pub master_key: Option<PathBuf>,
    /// Sites.
    pub sites: Vec<Site>,
    /// Outside OIDC issuers, where people log in.
    #[serde(default)]
    pub issuers: Vec<Issuer>,
    /// How fast one client or person may ask.
    #[serde(default)]
    pub limits: Limits,
}

/// An outside OIDC issuer. Scopes in its tokens are ignored: what its groups may do is said here.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// `iss` of its tokens.
    pub url: String,
    /// `aud` that its tokens for this hub have.
    pub audience: String,
    /// Where its keys are published: https, or http on loopback.
    pub jwks_url: String,
    /// The CA that signed its certificate; absent = the usual ones.
    pub ca_file: Option<PathBuf>,
    /// Claim that lists a person's groups.
    #[serde(default = "groups")]
    pub groups_claim: String,
    /// What groups may do, and where. A group without a line may do nothing.
    pub grants: Vec<Grant>,
}

/// What a group may do, and where.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The group, as the issuer names it.
    pub group: String,
    /// Scopes.
    pub scopes: Vec<String>,
    /// Sites; `*` = all.
    pub sites: Vec<String>,
}

fn groups() -> String {
    "groups".into()
}

/// A certificate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The chain, PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM.
    pub key_file: PathBuf,
}

/// How fast one client or person may ask.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests a second.
    pub per_second: u32,
    /// Requests at once.
    pub burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { per_second: 200, burst: 2000 }
    }
}

/// A site.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Its short name; the slug it has in NetBox.
    pub name: String,
    /// Its sources: seconds between looks.
    pub sources: BTreeMap<String, u64>,
    /// Profiles by role slug; a role without one is inventory only.
    #[serde(default)]
    pub roles: BTreeMap<String, Role>,
}

impl Issuer {
    fn verify(&self, sites: &[Site]) -> anyhow::Result<()> {
        crate::jwks::Published::new(&self.jwks_url, None)?;
        for grant in &self.grants {
            if let Some(scope) = grant.scopes.iter().find(|s| !SCOPES.contains(&s.as_str())) {
                bail!("group {}: `{scope}` is no scope; scopes are: {}", grant.group, SCOPES.join(", "));
            }
            if let Some(site) = grant.sites.iter().find(|s| *s != "*" && !sites.iter().any(|known| known.name == **s)) {
                bail!("group {}: this hub has no site `{site}`", grant.group);
            }
        }
        Ok(())
    }
}

impl Configuration {
    /// Reads the file, and refuses whatever `hub` would.
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        super::read(file, |read: &mut Self, base| {
            read.data = base.join(&read.data);
            read.roster = base.join(&read.roster);
            read.log.iter_mut().for_each(|l| l.from(base));
            read.postgres.iter_mut().for_each(|p| p.from(base));
            read.vault.iter_mut().for_each(|v| v.from(base));
            read.master_key = read.master_key.take().map(|f| base.join(f));
            read.issuers.iter_mut().for_each(|i| i.ca_file = i.ca_file.take().map(|f| base.join(f)));
            read.issuer_keys.iter_mut().for_each(|k| *k = base.join(&*k));
            if let Some(tls) = &mut read.tls {
                (tls.cert_file, tls.key_file) = (base.join(&tls.cert_file), base.join(&tls.key_file));
            }
            read.verify()
        })
    }

    fn verify(&self) -> anyhow::Result<()> {
        if !self.listen.ip().is_loopback() && self.tls.is_none() {
            bail!("listen = {}: beyond loopback a hub speaks TLS alone; give [tls] cert_file and key_file", self.listen);
        }
        if let Some(url) = &self.url {
            safe_way(url).map_err(|e| anyhow!("url: {e}"))?;
            if url.ends_with('/') {
                bail!("url = {url}: without a slash at its end");
            }
        }
        if self.url.as_deref().is_some_and(|u| u.ends_with("/dev")) {
            bail!("url: an issuer that ends in /dev is a developer's, and no hub's");
        }
        self.log.as_ref().map_or(Ok(()), Log::verify)?;
        self.postgres.as_ref().map_or(Ok(()), Postgres::verify)?;
        self.vault.as_ref().map_or(Ok(()), VaultDatabase::verify)?;
        sites::verify(self.commands()?)?;
        self.issuers.iter().try_for_each(|i| i.verify(&self.sites).with_context(|| format!("issuer {}", i.url)))?;
        self.clients().map(|_| ())
    }

    /// The commands that make the site streams say what this file says.
    pub fn commands(&self) -> anyhow::Result<Vec<Commands>> {
        let of = |site: &Site| {
            let source = |(name, every): (&String, &u64)| Ok((name.parse::<Source>()?, *every));
            let sources = site.sources.iter().map(source).collect::<anyhow::Result<Vec<_>>>();
            sites::commands(&site.name, sources.with_context(|| format!("site {}", site.name))?.into_iter(), &site.roles)
        };
        self.sites.iter().map(of).collect()
    }

    /// Its name among others.
    pub fn name(&self) -> anyhow::Result<String> {
        if let Some(name) = &self.name {
            return Ok(name.clone());
        }
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        match host.trim() {
            "" => bail!("name: this machine says no name; give the hub one"),
            host => Ok(host.to_owned()),
        }
    }

    /// The roster.
    pub fn clients(&self) -> anyhow::Result<Vec<Client>> {
        let name = self.roster.display().to_string();
        let text = std::fs::read_to_string(&self.roster).with_context(|| format!("roster {name}"))?;
        let sites = self.sites.iter().map(|s| s.name.parse()).collect::<Result<Vec<SiteId>, _>>()?;
        let clients = Clients::roster(&text, &sites).map_err(|e| anyhow!("{name}: {e}"))?;
        Clients::new(clients.clone()).map_err(|e| anyhow!("{name}: {e}"))?;
        Ok(clients)
    }

    /// What the file says, in lines.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = vec![format!("listens on {}, known as {}", self.listen, self.url.as_deref().unwrap_or("what it listens on"))];
        match &self.log {
            Some(log) => lines.extend(log.told()?),
            None => lines.push(format!("the log is embedded, in {}", self.data.display())),
        }
        match &self.postgres {
            Some(postgres) => lines.extend(postgres.told()?),
            None => lines.push(format!("read models are files in {}", self.data.display())),
        }
        match &self.vault {
            Some(vault) => lines.push(vault.told()?),
            None => lines.push("the vault is a file of this hub: what is sealed here, no other hub can read".into()),
        }
        for site in &self.sites {
            let sources: Vec<_> = site.sources.iter().map(|(name, every)| format!("{name} every {every} s")).collect();
            let roles: Vec<_> = site.roles.keys().map(String::as_str).collect();
            lines.push(format!("site {}: {}; roles {}", site.name, sources.join(", "), roles.join(", ")));
        }
        for c in self.clients()? {
            let source = c.source.map_or("no source", |s| s.as_str());
            lines.push(format!("client {}: {source} at {}, scopes {}", c.client, c.sites.join(", "), c.scopes.join(" ")));
        }
        if let Some(tls) = &self.tls {
            there("tls: cert_file", &tls.cert_file)?;
            there("tls: key_file", &tls.key_file)?;
        }
        self.issuer_keys.iter().try_for_each(|k| there("issuer_keys:", k))?;
        Ok(lines)
    }
}
