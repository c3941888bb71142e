//! `[log]` of a hub: the Kafka cluster that the log is on.

use super::there;
use anyhow::{Context, anyhow, bail};
use fleet_log::kafka::{self, Options, Sasl};
use fleet_schemas::safe_way;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The Kafka cluster that the log is on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Brokers to begin with, `host:port`.
    pub brokers: Vec<String>,
    /// Put before the name of every topic: several fleets may share a cluster.
    #[serde(default)]
    pub prefix: String,
    /// Copies of each partition.
    #[serde(default = "three")]
    pub replication: u16,
    /// Copies that must have a record before it counts as stored (`min.insync.replicas`).
    #[serde(default = "two")]
    pub min_insync: u16,
    /// Needed where `min_insync` is 1: a broker that loses its power then loses records that were acknowledged.
    #[serde(default)]
    pub accept_single_copy: bool,
    /// Whether the brokers are reached with TLS.
    #[serde(default)]
    pub tls: bool,
    /// The CA that signed the brokers' certificates, PEM. Absent = the system's.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, PEM, where the brokers ask for one.
    pub cert_file: Option<PathBuf>,
    /// Its key, PEM.
    pub key_file: Option<PathBuf>,
    /// User at the brokers.
    pub user: Option<String>,
    /// File with the user's password.
    pub password_file: Option<PathBuf>,
    /// `SCRAM-SHA-512`, `SCRAM-SHA-256` or `PLAIN`.
    #[serde(default = "scram")]
    pub mechanism: String,
    /// URL of a schema registry that speaks Confluent's protocol: https, or http on loopback. Then public records have its frame.
    pub registry: Option<String>,
}

fn three() -> u16 {
    3
}
fn two() -> u16 {
    2
}
fn scram() -> String {
    "SCRAM-SHA-512".into()
}

impl Log {
    /// Paths count from the file.
    pub(super) fn from(&mut self, base: &Path) {
        for path in [&mut self.ca_file, &mut self.cert_file, &mut self.key_file, &mut self.password_file] {
            *path = path.take().map(|p| base.join(p));
        }
    }

    pub(super) fn verify(&self) -> anyhow::Result<()> {
        if let Some(broker) =
            self.brokers.iter().find(|b| !b.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok()))
        {
            bail!("log.brokers: `{broker}` is not host:port");
        }
        if self.brokers.is_empty() {
            bail!("log.brokers names no broker");
        }
        if self.min_insync == 0 || self.min_insync > self.replication {
            bail!("log.min_insync = {}: between 1 and log.replication, {}", self.min_insync, self.replication);
        }
        if self.min_insync == 1 && !self.accept_single_copy {
            bail!(
                "log.min_insync = 1: a record that one broker alone has would count as stored, and be lost with that broker's power; \
                 take 2 of 3 copies, or say log.accept_single_copy = true"
            );
        }
        if !["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"].contains(&self.mechanism.as_str()) {
            bail!("log.mechanism = {}: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN", self.mechanism);
        }
        if let Some(registry) = &self.registry {
            safe_way(registry).map_err(|e| anyhow!("log.registry: {e}"))?;
        }
        match (&self.user, &self.password_file) {
            (None, None) | (Some(_), Some(_)) => {}
            (Some(_), None) => bail!("log.user needs log.password_file"),
            (None, Some(_)) => bail!("log.password_file needs log.user"),
        }
        if self.cert_file.is_some() != self.key_file.is_some() {
            bail!("log.cert_file and log.key_file go together");
        }
        if !self.tls {
            let named = [("ca_file", &self.ca_file), ("cert_file", &self.cert_file)].into_iter().find(|(_, f)| f.is_some());
            if let Some((name, _)) = named {
                bail!("log.{name} is of no use without log.tls = true");
            }
            if self.mechanism == "PLAIN" && self.user.is_some() {
                bail!("log.mechanism = PLAIN sends the password as it is: say log.tls = true, or take SCRAM-SHA-512");
            }
        }
        Ok(())
    }

    /// What the file says, in lines.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
        let files = [("log.ca_file", &self.ca_file), ("log.cert_file", &self.cert_file), ("log.key_file", &self.key_file)];
        let more = [("log.password_file", &self.password_file)];
        for (what, file) in files.into_iter().chain(more) {
            file.as_ref().map_or(Ok(()), |f| there(what, f))?;
        }
        let tls = if self.tls { "with TLS" } else { "without TLS" };
        let who = self.user.as_ref().map_or_else(|| "as nobody".into(), |user| format!("as {user} ({})", self.mechanism));
        let copies = format!("copies {}, {} before a record counts", self.replication, self.min_insync);
        Ok(vec![format!("the log is Kafka at {}, {tls}, {who}; topics `{}fm.…`, {copies}", self.brokers.join(","), self.prefix)])
    }

    /// As the provider takes it.
    pub fn options(&self) -> anyhow::Result<Options> {
        let sasl = match (&self.user, &self.password_file) {
            (Some(username), Some(file)) => {
                let text = std::fs::read_to_string(file).with_context(|| format!("log.password_file {}", file.display()))?;
                let password = text.trim_end_matches(['\n', '\r']).to_owned().into();
                Some(Sasl { mechanism: self.mechanism.clone(), username: username.clone(), password })
            }
            _ => None,
        };
        let client = self.cert_file.clone().zip(self.key_file.clone());
        let tls = self.tls.then(|| kafka::Tls { ca_file: self.ca_file.clone(), client });
        let (prefix, replication, min_insync) = (self.prefix.clone(), self.replication, self.min_insync);
        Ok(Options { bootstrap: self.brokers.join(","), prefix, replication, min_insync, tls, sasl })
    }
}
