//! The configuration files: of `dev` ([`dev`]), of a hub ([`hub`]) and of a satellite ([`satellite`]). TOML; unknown keys are refused;
//! `FM_CFG__…` overrides; relative paths count from the file.

pub mod dev;
pub mod hub;
mod log;
mod postgres;
pub mod satellite;
pub mod settings;
mod sites;
mod systems;

pub use log::Log;
pub use sites::{Commands, Role};
pub use systems::{AgentClient, Netbox, Slurm};

use anyhow::{Context, anyhow, bail};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Reads a file. What is wrong is said without what could be a password.
fn read<T: DeserializeOwned>(file: &Path, finish: impl FnOnce(&mut T, &Path) -> anyhow::Result<()>) -> anyhow::Result<T> {
    let name = file.display().to_string();
    let load = || {
        if !file.exists() {
            bail!("{name}: no such file");
        }
        let source = config::File::new(&name, config::FileFormat::Toml);
        let env = config::Environment::with_prefix("FM_CFG").prefix_separator("__").separator("__");
        // A list is said with commas.
        let env = env.try_parsing(true).list_separator(",").with_list_parse_key("log.brokers");
        let built = config::Config::builder().add_source(source).add_source(env).build().with_context(|| name.clone())?;
        let mut read: T = built.try_deserialize().with_context(|| name.clone())?;
        finish(&mut read, file.parent().unwrap_or(Path::new("."))).with_context(|| name.clone())?;
        Ok(read)
    };
    load().map_err(|e: anyhow::Error| anyhow!(without_userinfo(&format!("{e:#}"))))
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

/// `config check`: which of the three a file is, its own keys say.
pub fn check(file: &Path) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let table: toml::Table = toml::from_str(&text).map_err(|e| anyhow!(without_userinfo(&format!("{}: {e}", file.display()))))?;
    let said = if table.contains_key("hub") {
        satellite::Configuration::read(file)?.told()?
    } else if table.contains_key("roster") {
        hub::Configuration::read(file)?.told()?
    } else {
        dev::Configuration::read(file)?.told()?
    };
    crate::print::lines(&format!("{}\n{}: fine", said.join("\n"), file.display()));
    Ok(())
}

/// A file that is named and must be there.
fn there(what: &str, file: &Path) -> anyhow::Result<()> {
    if file.exists() { Ok(()) } else { bail!("{what} {} does not exist", file.display()) }
}
