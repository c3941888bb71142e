//! A data folder: keys (0600 in a 0700 folder), and, of a developer's, the sample clients and the context that `fmctl` reads.

use anyhow::{Context, bail};
use fleet_hub::access::{Client, Issuer, generate_key, public_jwk};
use fleet_schemas::Source;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The operator that every dev folder has.
pub const OPERATOR: &str = "user-operator";
/// The sample users of a dev folder. They stand for people, who log in elsewhere; no hub but `dev` has them.
const USERS: &[(&str, &[&str])] = &[
    (OPERATOR, &["device:read", "device:update", "device-lifecycle:create", "site:read", "site:update", "admin"]),
    ("user-hpc", &["device:read", "slurm-bootstrap-config:read", "slurm-bootstrap-config:create", "slurm-bootstrap-config:update"]),
    ("user-auditor", &["audit:read", "device:read"]),
];
/// What tells a developer's folder from a hub's.
const DEV: &str = "dev";

/// Where the process that has a folder is found.
const RUNNING: &str = "running.toml";

/// The process that has a folder.
#[derive(Serialize, Deserialize)]
pub struct Running {
    /// Its URL.
    pub url: String,
    /// Its issuer.
    pub issuer: String,
}

/// A data folder.
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
    /// Held while this process has the folder, where no log is in it whose lock says so.
    lock: OnceLock<fs::File>,
}

impl Folder {
    /// A developer's; made where it is missing.
    pub fn dev(path: &Path) -> anyhow::Result<Self> {
        if path.join("log").exists() && !path.join(DEV).exists() && !path.join("fmctl.toml").exists() {
            bail!("{} is the data folder of a hub; `dev` takes one of its own", path.display());
        }
        let folder = Self::make(path, &["keys", "satellite", "sim", "vault"])?;
        write_private(&path.join(DEV), b"sample users live here: no hub takes this folder\n")?;
        Ok(folder)
    }

    /// A hub's; made where it is missing.
    pub fn hub(path: &Path) -> anyhow::Result<Self> {
        if path.join(DEV).exists() || path.join("fmctl.toml").exists() {
            bail!("{} is a developer's data folder, with sample users; a hub takes one of its own", path.display());
        }
        Self::make(path, &["keys", "vault"])
    }

    /// One that is there, whosever it is.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        Self::make(path, &[])
    }

    fn make(path: &Path, below: &[&str]) -> anyhow::Result<Self> {
        for dir in std::iter::once(path.to_owned()).chain(below.iter().map(|b| path.join(b))) {
            DirBuilder::new().recursive(true).mode(0o700).create(&dir).with_context(|| dir.display().to_string())?;
        }
        Ok(Self { path: path.to_owned(), lock: OnceLock::new() })
    }

    /// Takes the folder for this process; false where another one has it.
    pub fn lock(&self) -> anyhow::Result<bool> {
        let path = self.path.join("lock");
        let file = fs::File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
        match file.try_lock() {
            Ok(()) => Ok(self.lock.set(file).is_ok()),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e).with_context(|| path.display().to_string()),
        }
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

    /// The issuer with this URL, and a key that is made here where there is none.
    pub fn issuer(&self, url: &str) -> anyhow::Result<Issuer> {
        Issuer::new(url, &[self.key("issuer")?]).map_err(anyhow::Error::msg)
    }

    /// The sample users.
    pub fn users(&self) -> anyhow::Result<Vec<Client>> {
        USERS.iter().map(|(user, scopes)| self.client(user, scopes, vec!["*".into()], None, None)).collect()
    }

    /// A client, with keys that exist only here. `instance` names the NetBox that it looks at, where it looks at one.
    pub fn client(
        &self,
        client: &str,
        scopes: &[&str],
        sites: Vec<String>,
        source: Option<Source>,
        instance: Option<&str>,
    ) -> anyhow::Result<Client> {
        let jwk = public_jwk(&self.key(client)?).map_err(anyhow::Error::msg)?;
        let jwks = serde_json::from_value(json!({"keys": [jwk]})).with_context(|| format!("the key of {client}"))?;
        let scopes = scopes.iter().map(|s| (*s).to_owned()).collect();
        let conditions = fleet_hub::access::Client::types_of(source);
        let instance = instance.map(str::to_owned);
        Ok(Client { client: client.into(), scopes, sites, source, instance, conditions, token_url_audience: false, jwks })
    }

    /// Writes the context files for a hub at `url`: `<user>.toml`, and the operator's as `fmctl.toml`, whose path it gives.
    pub fn write_contexts(&self, url: &str) -> anyhow::Result<PathBuf> {
        let operators = self.path.join("fmctl.toml");
        for (user, _) in USERS {
            let jwk = public_jwk(&self.key(user)?).map_err(anyhow::Error::msg)?;
            let (kid, pem) = (jwk["kid"].as_str().unwrap_or_default(), Path::new("keys").join(format!("{user}.pem")));
            let text = format!("url = \"{url}\"\nclient = \"{user}\"\nkey = \"{}\"\nkid = \"{kid}\"\n", pem.display());
            let file = if *user == OPERATOR { operators.clone() } else { self.path.join(format!("{user}.toml")) };
            write_private(&file, text.as_bytes())?;
        }
        Ok(operators)
    }

    /// Says where the process that has this folder listens, and as which issuer.
    pub fn write_running(&self, running: &Running) -> anyhow::Result<()> {
        write_private(&self.path.join(RUNNING), toml::to_string(running)?.as_bytes())
    }

    /// Where the process that has this folder listens.
    pub fn running(&self) -> anyhow::Result<Running> {
        let path = self.path.join(RUNNING);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// Writes a secret for the simulated world's agents.
    pub fn secret(&self, name: &str, text: &str) -> anyhow::Result<PathBuf> {
        let path = self.path.join("sim").join(name);
        write_private(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Where the private key of `name` is, PEM.
    pub fn key_file(&self, name: &str) -> PathBuf {
        self.path.join("keys").join(format!("{name}.pem"))
    }

    /// The private key of `name`, PEM; made where it is missing.
    fn key(&self, name: &str) -> anyhow::Result<String> {
        let pem = self.key_file(name);
        if !pem.exists() {
            make_key(&self.path.join("keys"), name)?;
        }
        fs::read_to_string(&pem).with_context(|| pem.display().to_string())
    }
}

/// Makes `DIR/<name>.pem`, and the same as `DIR/<name>.jwk.json`, as stock OAuth libraries read it. Gives the public half.
/// A key that is there is never written over: its public half may stand in a roster.
pub fn make_key(dir: &Path, name: &str) -> anyhow::Result<serde_json::Value> {
    let pem = dir.join(format!("{name}.pem"));
    if pem.exists() {
        bail!("{} is there already: take another folder with --out, or put the old key away first", pem.display());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(|| dir.display().to_string())?;
    let made = generate_key().map_err(anyhow::Error::msg)?;
    // The PEM last: it says that the key is there.
    write_private(&dir.join(format!("{name}.jwk.json")), serde_json::to_string_pretty(&made.private_jwk)?.as_bytes())?;
    write_private(&pem, made.private_pem.as_bytes())?;
    public_jwk(&made.private_pem).map_err(anyhow::Error::msg)
}

/// The vault's file in a data folder.
pub fn vault_file(data: &Path) -> PathBuf {
    data.join("vault").join("vault.sqlite")
}

/// Whole or not at all, readable by the owner alone.
fn write_private(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fleet_hub::private::write(path, bytes).with_context(|| path.display().to_string())
}
