//! The real systems of `tests/labs`: a NetBox and two SLURM clusters. `tests/labs/run` starts them, and says in `FM_LABS` in which folder
//! it wrote down how. What a test asks of them here goes straight to them, past every recorder.

use crate::repository;
use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// A bulk request of NetBox waits for a lock as long as a test likes.
const PATIENCE: Duration = Duration::from_secs(110);

/// All of them.
#[derive(Clone)]
pub struct Labs {
    /// NetBox.
    pub netbox: NetboxLab,
    /// SLURM 22.05, whose REST API has the old shapes.
    pub slurm_old: SlurmLab,
    /// SLURM 24.11.
    pub slurm_new: SlurmLab,
}

impl Labs {
    /// What `tests/labs/run` has started.
    pub fn from_env() -> anyhow::Result<Self> {
        crate::crypto();
        let folder = std::env::var_os("FM_LABS").map(PathBuf::from).context("FM_LABS is not set: start with tests/labs/run")?;
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
        let netbox = Script::read(&folder, "netbox", "netbox.sh")?;
        Ok(Self {
            netbox: NetboxLab { url: netbox.said("NETBOX_URL")?, token: netbox.said("NETBOX_TOKEN")?, script: netbox, client },
            slurm_old: SlurmLab::read(&folder, "slurm-22.05")?,
            slurm_new: SlurmLab::read(&folder, "slurm-24.11")?,
        })
    }
}

/// A lab's script, under the settings that the lab was started with.
#[derive(Clone)]
pub struct Script {
    file: PathBuf,
    settings: BTreeMap<String, String>,
    said: BTreeMap<String, String>,
}

impl Script {
    fn read(folder: &Path, lab: &str, script: &str) -> anyhow::Result<Self> {
        let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
        let pairs = |text: &str| -> BTreeMap<String, String> {
            let lines = text.lines().map(|line| line.strip_prefix("export ").unwrap_or(line));
            let pairs = lines.filter_map(|line| line.split_once('='));
            pairs.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect()
        };
        let settings = pairs(&read(&folder.join(format!("{lab}.settings")))?);
        let state = settings.iter().find(|(name, _)| name.ends_with("_LAB_DIR")).map(|(_, dir)| PathBuf::from(dir));
        let said = pairs(&read(&state.context("the settings name no folder")?.join("env"))?);
        Ok(Self { file: repository("tests/labs").join(script), settings, said })
    }

    /// What the lab's `env` says.
    fn said(&self, name: &str) -> anyhow::Result<String> {
        self.said.get(name).cloned().with_context(|| format!("the lab did not say {name}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("bash");
        command.arg(&self.file).args(args).envs(&self.settings);
        command
    }

    /// Runs it with these arguments; gives what it printed, and fails where it fails.
    pub async fn run(&self, args: &[&str]) -> anyhow::Result<String> {
        let (mut command, what) = (self.command(args), args.join(" "));
        let output = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output()).await??;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            Ok(text)
        } else {
            bail!("`{what}` ended with {}: {text} {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
        }
    }
}

/// A SLURM cluster.
#[derive(Clone)]
pub struct SlurmLab {
    /// Its script.
    pub script: Script,
    /// URL of its slurmrestd.
    pub url: String,
    /// Its release.
    pub version: String,
}

impl SlurmLab {
    fn read(folder: &Path, lab: &str) -> anyhow::Result<Self> {
        let script = Script::read(folder, lab, "slurm.sh")?;
        Ok(Self { url: script.said("SLURM_URL")?, version: script.said("SLURM_VERSION")?, script })
    }

    /// What a person types into a shell of the cluster.
    pub async fn typed(&self, line: &str) -> anyhow::Result<String> {
        self.script.run(&["run", "bash", "-c", line]).await
    }

    /// A token of the cluster's admin that lives for so many seconds.
    pub async fn token(&self, seconds: u64) -> anyhow::Result<String> {
        self.script.run(&["token", "slurm", &seconds.to_string()]).await
    }

    /// Starts what does not run.
    pub async fn up(&self) -> anyhow::Result<()> {
        self.script.run(&["up"]).await.map(|_| ())
    }
}

/// A NetBox.
#[derive(Clone)]
pub struct NetboxLab {
    /// Its URL.
    pub url: String,
    /// A token of its user `admin`.
    pub token: String,
    script: Script,
    client: reqwest::Client,
}

/// A change that NetBox made.
#[derive(Clone, Debug)]
pub struct Changed {
    /// When it said so.
    pub at: Instant,
    /// The id under which its change records stand.
    pub request_id: String,
    /// What it answered.
    pub body: Value,
}

impl NetboxLab {
    /// GET of a path below `/api`.
    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        Ok(self.send(Method::GET, path, None).await?.body)
    }

    /// Every row of a list, page by page in the order of their ids, each page asked for by what the last row of the page before was.
    pub async fn all(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let (mut rows, mut start) = (Vec::new(), 0);
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.get(&format!("{path}{joint}limit=60&start={start}")).await?;
            let found = page["results"].as_array().cloned().unwrap_or_default();
            let Some(last) = found.last().and_then(|r| r["id"].as_i64()) else { return Ok(rows) };
            (start, rows) = (last + 1, [rows, found].concat());
        }
    }

    /// A change of NetBox by its user `admin`; null = without a body.
    pub async fn change(&self, method: Method, path: &str, body: &Value) -> anyhow::Result<Changed> {
        self.send(method, path, Some(body).filter(|b| !b.is_null())).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> anyhow::Result<Changed> {
        let what = format!("{method} {path}");
        let mut request = self.client.request(method, format!("{}/api{path}", self.url)).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| what.clone())?;
        let (at, status) = (Instant::now(), response.status());
        let request_id = response.headers().get("x-request-id").and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
        let text = response.text().await?;
        if !status.is_success() {
            bail!("{what}: {status} {text}");
        }
        Ok(Changed { at, request_id, body: serde_json::from_str(&text).unwrap_or(Value::Null) })
    }

    /// Locks a device's row in a transaction of its own, as a slow import does: whoever changes the device waits until it is released.
    pub async fn lock_device(&self, id: i64) -> anyhow::Result<RowLock> {
        let code = format!(
            "from django.db import transaction\nfrom dcim.models import Device\nwith transaction.atomic():\n    \
             Device.objects.select_for_update().get(pk={id})\n    print('locked', flush=True)\n    input()\n"
        );
        let mut command = self.script.command(&["netbox", "shell", "--no-startup", "--no-imports", "-c", &code]);
        tokio::task::spawn_blocking(move || {
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let (stdin, stdout) = (child.stdin.take(), child.stdout.take().context("stdout")?);
            // Made first, so that a shell that says something else is ended.
            let lock = RowLock { child, stdin };
            match BufReader::new(stdout).lines().map_while(Result::ok).find(|line| line == "locked") {
                Some(_) => Ok(lock),
                None => bail!("NetBox's shell did not lock device {id}"),
            }
        })
        .await?
    }
}

/// A locked row; released with the value at the latest.
pub struct RowLock {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl RowLock {
    /// Ends the transaction.
    pub async fn release(mut self) -> anyhow::Result<()> {
        tokio::task::spawn_blocking(move || {
            if let Some(mut stdin) = self.stdin.take() {
                stdin.write_all(b"\n")?;
            }
            let status = self.child.wait()?;
            if status.success() { Ok(()) } else { bail!("NetBox's shell ended with {status}") }
        })
        .await?
    }
}

impl Drop for RowLock {
    fn drop(&mut self) {
        // Without its input the shell ends, and the transaction with it; after a release it has ended already.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}
