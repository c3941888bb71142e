//! Where the hub is and who we are: one file, one context.

use crate::exit::Failure;
use clap::ArgMatches;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A context.
pub struct Context {
    /// URL of the hub.
    pub url: String,
    /// Authorities that its certificate may be from, PEM; `None` = those of the machine.
    pub ca_pem: Option<String>,
    /// How to get in.
    pub access: Access,
}

/// How to get in.
pub enum Access {
    /// A token that somebody gave us (`FM_TOKEN`).
    Token(String),
    /// A client with its key.
    Client {
        /// Its id.
        client: String,
        /// Its private key, PEM.
        key_pem: String,
        /// The key's id.
        kid: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    url: String,
    client: String,
    key: PathBuf,
    kid: String,
    ca: Option<PathBuf>,
}

impl Context {
    /// From `FM_URL` and `FM_TOKEN`, or from the file that `--context` or `FM_CONTEXT` names, or the usual place. `FM_URL` and `FM_CA` count
    /// before what a file says.
    pub fn load(matches: &ArgMatches) -> Result<Self, Failure> {
        let env = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let ca = || env("FM_CA").map(|file| read(Path::new(&file), "FM_CA names it")).transpose();
        if let (Some(url), Some(token), None) = (env("FM_URL"), env("FM_TOKEN"), matches.get_one::<String>("context")) {
            return Ok(Self { url, ca_pem: ca()?, access: Access::Token(token) });
        }
        let named = matches.get_one::<String>("context").cloned().or_else(|| env("FM_CONTEXT")).map(PathBuf::from);
        let usual = env("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| env("HOME").map(|h| Path::new(&h).join(".config")));
        let path = named.or_else(|| usual.map(|d| d.join("fleet-manager/fmctl.toml")));
        let path = path.ok_or_else(|| Failure::usage("name a context file with --context or FM_CONTEXT"))?;
        let helps = match env("FM_URL") {
            Some(_) => "with FM_URL goes a token, FM_TOKEN, or a context file with a key (--context or FM_CONTEXT)",
            None => "name a context file with --context or FM_CONTEXT (`make run` writes data/fmctl.toml)",
        };
        let text = read(&path, helps)?;
        let file: File = toml::from_str(&text).map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
        // Paths count from the file.
        let beside = |file: &Path| path.parent().unwrap_or(Path::new(".")).join(file);
        let named = format!("{} names it", path.display());
        let ca_pem = match (ca()?, file.ca) {
            (None, Some(file)) => Some(read(&beside(&file), &named)?),
            (ca, _) => ca,
        };
        let access = Access::Client { client: file.client, key_pem: read(&beside(&file.key), &named)?, kid: file.kid };
        Ok(Self { url: env("FM_URL").unwrap_or(file.url), ca_pem, access })
    }
}

fn read(path: &Path, helps: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| Failure::usage(format!("{}: {e}; {helps}", path.display())))
}
