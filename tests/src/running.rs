//! A `fleet-manager dev` of its own: own folder, own free port, ended with the value, by its pid.

use crate::Api;
use anyhow::{Context, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// A binary of this workspace, built beside this one: in its folder, or in the one above for a test, which stands in `deps`. Where
/// `FM_BINARIES` names a folder: of there, such as one of a release build.
pub fn binary(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let named = std::env::var_os("FM_BINARIES").map(PathBuf::from);
    let mut folders = named.as_deref().into_iter().chain(own.ancestors().skip(1).take(2));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|path| path.exists()));
    found.unwrap_or_else(|| panic!("{name} is not built beside {}; `make test` builds it, or `cargo build --workspace`", own.display()))
}

/// A running process.
pub struct Running {
    child: Child,
    /// Its data folder.
    pub data: PathBuf,
    /// Its URL.
    pub url: String,
}

impl Running {
    /// Starts `fleet-manager dev --data DATA --listen 127.0.0.1:0 ARGS…` and waits until it says its URL. Its log goes to
    /// `DATA/../<name>.log`.
    pub async fn start(data: &Path, args: &[&str]) -> anyhow::Result<Self> {
        Self::start_with(data, args, &[]).await
    }

    /// The same with environment variables.
    pub async fn start_with(data: &Path, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Self> {
        let (data, args, env) =
            (data.to_owned(), own(args), env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect::<Vec<_>>());
        tokio::task::spawn_blocking(move || Self::spawn(&data, &args, &env)).await?
    }

    /// A token of the folder's own issuer, for whom a test likes.
    pub fn token(&self, client: &str, scope: &str, sites: &[&str]) -> anyhow::Result<String> {
        let key = std::fs::read_to_string(self.data.join("keys/issuer.pem"))?;
        let issuer = fleet_hub::access::Issuer::new(&format!("{}/dev", self.url), &[key]).map_err(anyhow::Error::msg)?;
        let sites: Vec<_> = sites.iter().map(|s| (*s).to_owned()).collect();
        issuer.issue(client, scope, &sites).map_err(anyhow::Error::msg)
    }

    fn spawn(data: &Path, args: &[String], env: &[(String, String)]) -> anyhow::Result<Self> {
        let log_path = data.with_extension("log");
        let log = std::fs::File::options().create(true).append(true).open(&log_path)?;
        let mut command = Command::new(binary("fleet-manager"));
        command.arg("dev").arg("--data").arg(data).args(["--listen", "127.0.0.1:0"]).args(args).envs(env.iter().map(|(k, v)| (k, v)));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().context("fleet-manager")?;
        let stdout = child.stdout.take().context("stdout")?;
        let line = BufReader::new(stdout).lines().map_while(Result::ok).find(|l| l.starts_with("fleet-manager runs: "));
        match line {
            Some(line) => Ok(Self { child, data: data.into(), url: line.trim_start_matches("fleet-manager runs: ").to_owned() }),
            None => {
                let status = child.wait()?;
                bail!("it ended with {status} before it ran:\n{}", tail(&log_path))
            }
        }
    }

    /// Its API, as the sample operator.
    pub async fn api(&self) -> anyhow::Result<Api> {
        Api::from_context(&self.context()).await
    }

    /// The context file of the sample operator.
    pub fn context(&self) -> PathBuf {
        self.data.join("fmctl.toml")
    }

    /// Runs `fmctl` against it, off a terminal.
    pub async fn fmctl(&self, args: &[&str]) -> anyhow::Result<Output> {
        let (context, args) = (self.context(), own(args));
        let run = move || Command::new(binary("fmctl")).env("FM_CONTEXT", context).args(args).stdin(Stdio::null()).output();
        Ok(tokio::task::spawn_blocking(run).await??)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a power cut would: SIGKILL.
    pub fn kill(mut self) -> PathBuf {
        // It may be gone already; that is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.data.clone()
    }

    /// Ends it cleanly: SIGTERM; gives its exit code.
    pub async fn stop(mut self) -> anyhow::Result<Option<i32>> {
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status()?;
        for _ in 0..600 {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("it did not stop within 30 s")
    }

    /// Whether it still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines of its log.
    pub fn log(&self) -> String {
        tail(&self.data.with_extension("log"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn own(args: &[&str]) -> Vec<String> {
    args.iter().map(|a| (*a).to_owned()).collect()
}

pub(crate) fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
