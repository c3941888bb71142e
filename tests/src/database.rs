//! A PostgreSQL of a test's own, by `tests/labs/postgres.sh`: it can be killed and started again. Installing it needs root once.

use crate::free_port;
use anyhow::{Context, bail};
use fleet_projections::PostgresConfig;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server in a folder; both go with the value.
pub struct Database {
    home: PathBuf,
    port: u16,
}

impl Database {
    /// Starts it on a free port.
    pub fn start() -> anyhow::Result<Self> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // Whom it runs as has to get there: a temporary folder of ours is no place for it.
        let root = std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0)?;
        let base = if root { PathBuf::from("/var/lib/fleet-labs") } else { std::env::temp_dir() };
        let home = base.join(format!("test-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed)));
        let database = Self { home, port: free_port() };
        database.script("up")?;
        Ok(database)
    }

    fn script(&self, what: &str) -> anyhow::Result<()> {
        let mut command = Command::new("bash");
        command.arg(crate::repository("tests/labs/postgres.sh")).arg(what).stdin(Stdio::null());
        let done = command.env("POSTGRES_LAB_HOME", &self.home).env("POSTGRES_LAB_PORT", self.port.to_string()).output()?;
        if done.status.success() { Ok(()) } else { bail!("postgres.sh {what}: {}", String::from_utf8_lossy(&done.stderr)) }
    }

    /// Ends it as a power cut would.
    pub fn kill(&self) -> anyhow::Result<()> {
        kill("KILL", &self.postmaster()?)
    }

    /// Sends a signal to all of it: whoever is connected has a process of their own.
    pub fn signal(&self, signal: &str) -> anyhow::Result<()> {
        // One that ended meanwhile hears nothing.
        self.pids()?.iter().try_for_each(|pid| kill(signal, pid))
    }

    /// Its processes, the one that began them last.
    pub fn pids(&self) -> anyhow::Result<Vec<String>> {
        let postmaster = self.postmaster()?;
        let children = Command::new("pgrep").args(["--parent", &postmaster]).output()?;
        let children = String::from_utf8(children.stdout)?;
        Ok(children.lines().map(str::to_owned).chain([postmaster]).collect())
    }

    fn postmaster(&self) -> anyhow::Result<String> {
        let file = self.home.join("data/postmaster.pid");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Its port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts it again.
    pub fn mend(&self) -> anyhow::Result<()> {
        self.script("up")
    }

    fn password(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.home.join("password.fleet"))?)
    }

    /// The same for [`fleet_projections`].
    pub fn config(&self) -> anyhow::Result<PostgresConfig> {
        let config = PostgresConfig::new(self.url(""), self.password()?.trim().into());
        Ok(PostgresConfig { ca_file: Some(self.home.join("tls/ca.pem")), ..config })
    }

    /// The same for other programs, with the password in it.
    pub fn url_with_password(&self) -> anyhow::Result<String> {
        Ok(format!("{}?sslmode=require", self.url(&format!(":{}", self.password()?.trim()))))
    }

    fn url(&self, password: &str) -> String {
        format!("postgres://fleet{password}@127.0.0.1:{}/fleet", self.port)
    }

    /// `[postgres]` or `[vault]` of a hub's configuration, and the password's file in `folder`.
    pub fn toml(&self, table: &str, folder: &Path) -> anyhow::Result<String> {
        std::fs::write(folder.join("postgres.password"), self.password()?)?;
        let (url, ca) = (self.url(""), self.home.join("tls/ca.pem"));
        let file = folder.join("postgres.password");
        Ok(format!("[{table}]\nurl = \"{url}\"\npassword_file = \"{}\"\nca_file = \"{}\"\n", file.display(), ca.display()))
    }
}

fn kill(signal: &str, pid: &str) -> anyhow::Result<()> {
    Command::new("kill").args([&format!("-{signal}"), pid]).stderr(Stdio::null()).status()?;
    Ok(())
}

impl Drop for Database {
    fn drop(&mut self) {
        // A paused one does not hear that it is to end.
        let _ = self.signal("CONT");
        let _ = self.script("wipe");
        let _ = std::fs::remove_dir_all(&self.home);
    }
}
