//! `[postgres]` of a hub: the database of the read models and of what outlives them; `[vault]`: that of the vault.

use super::there;
use anyhow::{Context, bail};
use fleet_projections::{Login, PostgresConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The database of the read models and of what outlives them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// `postgres://user@host:port/database`, without a password. The role owns the schemas.
    pub url: String,
    /// File with the role's password.
    pub password_file: PathBuf,
    /// The CA that signed the server's certificate, PEM. Absent = the system's.
    pub ca_file: Option<PathBuf>,
    /// Role that asks questions alone; it is granted reading. Absent = the role of the URL.
    pub reader: Option<String>,
    /// File with its password.
    pub reader_password_file: Option<PathBuf>,
    /// What the names of the schemas begin with. Hubs with the same one share everything.
    #[serde(default = "fleet")]
    pub prefix: String,
    /// The server ends a statement after so long.
    #[serde(default = "ten")]
    pub statement_timeout_seconds: u64,
    /// Connections that read one generation at the same time.
    #[serde(default = "eight")]
    pub readers: u32,
    /// Of these, how many are kept open when nobody asks.
    #[serde(default = "two")]
    pub warm: u32,
}

fn fleet() -> String {
    "fleet".into()
}
fn ten() -> u64 {
    10
}
fn eight() -> u32 {
    8
}
fn two() -> u32 {
    2
}

fn password(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

impl Postgres {
    /// Paths count from the file.
    pub(super) fn from(&mut self, base: &Path) {
        self.password_file = base.join(&self.password_file);
        for path in [&mut self.ca_file, &mut self.reader_password_file] {
            *path = path.take().map(|p| base.join(p));
        }
    }

    pub(super) fn verify(&self) -> anyhow::Result<()> {
        if self.reader.is_some() != self.reader_password_file.is_some() {
            bail!("postgres.reader and postgres.reader_password_file go together");
        }
        self.without_passwords().check().context("[postgres]")
    }

    /// What the file says, in lines.
    pub(super) fn told(&self) -> anyhow::Result<Vec<String>> {
        there("postgres.password_file", &self.password_file)?;
        let more = [("postgres.ca_file", &self.ca_file), ("postgres.reader_password_file", &self.reader_password_file)];
        more.into_iter().try_for_each(|(what, file)| file.as_ref().map_or(Ok(()), |f| there(what, f)))?;
        let reader = self.reader.as_deref().unwrap_or("the same role");
        Ok(vec![format!("read models in {}, schemas `{}_…`; questions are asked as {reader}", self.url, self.prefix)])
    }

    fn without_passwords(&self) -> PostgresConfig {
        PostgresConfig {
            ca_file: self.ca_file.clone(),
            prefix: self.prefix.clone(),
            statement_timeout: Duration::from_secs(self.statement_timeout_seconds),
            readers: self.readers,
            warm: self.warm,
            ..PostgresConfig::new(self.url.clone(), String::new().into())
        }
    }

    /// As the projections take it.
    pub fn config(&self) -> anyhow::Result<PostgresConfig> {
        let reader = match (&self.reader, &self.reader_password_file) {
            (Some(user), Some(file)) => Some(Login { user: user.clone(), password: password(file)?.into() }),
            _ => None,
        };
        Ok(PostgresConfig { password: password(&self.password_file)?.into(), reader, ..self.without_passwords() })
    }
}

/// The database of the vault: a role, rights and backups of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VaultDatabase {
    /// `postgres://user@host:port/database`, without a password. The role owns the schema.
    pub url: String,
    /// File with the role's password.
    pub password_file: PathBuf,
    /// The CA that signed the server's certificate, PEM. Absent = the system's.
    pub ca_file: Option<PathBuf>,
    /// What the name of the schema begins with. Hubs with the same one share the vault.
    #[serde(default = "fleet")]
    pub prefix: String,
}

impl VaultDatabase {
    /// Paths count from the file.
    pub(super) fn from(&mut self, base: &Path) {
        self.password_file = base.join(&self.password_file);
        self.ca_file = self.ca_file.take().map(|p| base.join(p));
    }

    pub(super) fn verify(&self) -> anyhow::Result<()> {
        self.without_password().check().context("[vault]")
    }

    /// What the file says, in a line.
    pub(super) fn told(&self) -> anyhow::Result<String> {
        there("vault.password_file", &self.password_file)?;
        self.ca_file.as_ref().map_or(Ok(()), |f| there("vault.ca_file", f))?;
        Ok(format!("the vault is in {}, schema `{}_vault`", self.url, self.prefix))
    }

    fn without_password(&self) -> PostgresConfig {
        let (ca_file, prefix) = (self.ca_file.clone(), self.prefix.clone());
        PostgresConfig { ca_file, prefix, ..PostgresConfig::new(self.url.clone(), String::new().into()) }
    }

    /// As the vault takes it.
    pub fn config(&self) -> anyhow::Result<PostgresConfig> {
        Ok(PostgresConfig { password: password(&self.password_file)?.into(), ..self.without_password() })
    }
}
