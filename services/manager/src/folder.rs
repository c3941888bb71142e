//! The data folder of a dev hub: keys (0600 in a 0700 folder), the client list, and the context that `fmctl` reads.

use anyhow::Context;
use fleet_hub::access::{Client, Clients, Issuer, generate_key};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The operator that every dev folder has.
pub const OPERATOR: &str = "user-operator";
const OPERATOR_SCOPES: &[&str] = &["device:read", "device:update", "device-lifecycle:create", "site:read", "site:update", "admin"];

/// A data folder.
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
}

/// A private key as its file holds it, with what is public of it.
#[derive(Serialize, Deserialize)]
struct KeyFile {
    private_pem: String,
    public_jwk: Value,
}

impl Folder {
    /// Makes it where it is missing.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        for dir in [path.to_owned(), path.join("keys"), path.join("satellite"), path.join("sim"), path.join("vault")] {
            DirBuilder::new().recursive(true).mode(0o700).create(&dir).with_context(|| dir.display().to_string())?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Where the log is.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Where the read models are.
    pub fn read(&self) -> PathBuf {
        self.path.join("read")
    }

    /// The vault's file.
    pub fn vault(&self) -> PathBuf {
        vault_file(&self.path)
    }

    /// The master key's file, where no setting names another.
    pub fn master_key(&self) -> PathBuf {
        self.path.join("keys").join("master.key")
    }

    /// The issuer of this folder, at this URL.
    pub fn issuer(&self, url: &str) -> anyhow::Result<Issuer> {
        let key = self.key("issuer")?;
        Issuer::new(&format!("{url}/dev"), &key.private_pem, key.public_jwk).map_err(anyhow::Error::msg)
    }

    /// The sample client, with keys that exist only here.
    pub fn clients(&self) -> anyhow::Result<Clients> {
        let key = self.key(OPERATOR)?;
        let jwks = serde_json::from_value(json!({"keys": [key.public_jwk]})).context("the operator's key")?;
        let scopes = OPERATOR_SCOPES.iter().map(|s| (*s).to_owned()).collect();
        let client = Client { client: OPERATOR.into(), scopes, sites: vec!["*".into()], jwks };
        Clients::new(vec![client]).map_err(anyhow::Error::msg)
    }

    /// Writes the context file for a hub at `url`.
    pub fn write_context(&self, url: &str) -> anyhow::Result<PathBuf> {
        let key = self.key(OPERATOR)?;
        let kid = key.public_jwk["kid"].as_str().unwrap_or_default();
        let pem = PathBuf::from("keys").join(format!("{OPERATOR}.pem"));
        write_private(&self.path.join(&pem), key.private_pem.as_bytes())?;
        let path = self.path.join("fmctl.toml");
        let text = format!("url = \"{url}\"\nclient = \"{OPERATOR}\"\nkey = \"{}\"\nkid = \"{kid}\"\n", pem.display());
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }

    /// The URL in the context file: where the process that has this folder listens.
    pub fn url(&self) -> anyhow::Result<String> {
        let path = self.path.join("fmctl.toml");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let context: toml::Table = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let url = context.get("url").and_then(|u| u.as_str()).with_context(|| format!("{} has no url", path.display()))?;
        Ok(url.to_owned())
    }

    /// Writes a secret for the simulated world's agents.
    pub fn secret(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join("sim").join(name);
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }

    fn key(&self, name: &str) -> anyhow::Result<KeyFile> {
        let path = self.path.join("keys").join(format!("{name}.json"));
        if !path.exists() {
            let made = generate_key().map_err(anyhow::Error::msg)?;
            let file = KeyFile { private_pem: made.private_pem, public_jwk: made.public_jwk };
            write_private(&path, serde_json::to_string_pretty(&file)?.as_bytes())?;
        }
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// The vault's file in a data folder.
pub fn vault_file(data: &Path) -> PathBuf {
    data.join("vault").join("vault.sqlite")
}

/// Whole or not at all, readable by the owner alone.
fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let half = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half).with_context(|| half.display().to_string())?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&half, path).with_context(|| path.display().to_string())
}
