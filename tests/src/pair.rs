//! A hub and a satellite as two processes, as they stand in production: each with its own folder and configuration, a roster between them,
//! keys made at the site. Both can be ended and started again, alone; a test may stand in the way between them ([`crate::recorder`]).

use crate::configured::{hub_toml, kafka_options, satellite_toml};
use crate::running::tail;
use crate::{Api, binary};
use anyhow::{Context, bail};
use fleet_journal::Topics;
use fleet_log::{EventLog, kafka, sqlite::SqliteLog};
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How often the satellite does what, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Looks at SLURM and polls of NetBox.
    pub interval: u64,
    /// Device lists.
    pub list: u64,
    /// Unchanged observations are sent again after this.
    pub resync: u64,
    /// NetBox whole.
    pub sweep: u64,
    /// How far each poll of NetBox reads back.
    pub window: u64,
}

impl Rhythm {
    /// For tests that wait for what comes of it.
    pub const QUICK: Self = Self { interval: 1, list: 5, resync: 15, sweep: 5, window: 60 };
}

/// A site.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its SLURM: URL, user, file with the token.
    pub slurm: Option<(String, String, PathBuf)>,
    /// Profiles of its roles, TOML under `[sites.roles.…]`.
    pub roles: String,
}

/// What is looked at.
#[derive(Clone, Debug)]
pub struct World {
    /// The sites.
    pub places: Vec<Place>,
    /// NetBox: instance, URL, file with the token.
    pub netbox: (String, String, PathBuf),
}

impl World {
    /// A simulated world of this process, its secrets in `folder`.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub fn simulated(sim: &fleet_sim::Sim, folder: &Path) -> anyhow::Result<Self> {
        let token = folder.join("netbox.token");
        std::fs::write(&token, &sim.netbox.token)?;
        let mut places = Vec::new();
        for face in &sim.sites {
            let jwt = folder.join(format!("{}.jwt", face.site));
            std::fs::write(&jwt, &face.slurm_jwt)?;
            let roles = "[sites.roles.gpu-node]\nscheduler = \"slurm\"\nworkload_proofs = [\"slurm-idle\"]\n".to_owned();
            places.push(Place { name: face.site.clone(), slurm: Some((face.slurm_url.clone(), face.slurm_user.clone(), jwt)), roles });
        }
        Ok(Self { places, netbox: ("sim".into(), sim.netbox.url.clone(), token) })
    }
}

/// The two processes.
pub struct Pair {
    /// The folder of both.
    pub folder: PathBuf,
    /// The hub's URL.
    pub url: String,
    /// Where the hub's log is, if not in its folder.
    pub kafka: Option<kafka::Options>,
    hub: Option<Child>,
    satellite: Option<Child>,
    more: Vec<(String, Vec<String>)>,
    env: Vec<(String, String)>,
}

/// A port of loopback that nobody has just now.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).map_or(0, |a| a.port())
}

impl Pair {
    /// Writes both configurations, makes the keys, and starts nothing.
    pub fn prepare(folder: &Path, world: &World, rhythm: Rhythm) -> anyhow::Result<Self> {
        let port = free_port();
        let url = format!("http://127.0.0.1:{port}");
        for dir in ["hub", "satellite"] {
            std::fs::create_dir_all(folder.join(dir))?;
        }
        let pair = Self { folder: folder.into(), url, kafka: kafka_options(), hub: None, satellite: None, more: vec![], env: vec![] };
        let mut roster = "satelliteRoster:\n".to_owned();
        for place in world.places.iter().filter(|p| p.slurm.is_some()) {
            let (client, scopes) = (format!("slurm-agent-{}", place.name), r#"["device:update", "device-condition:create"]"#);
            let jwk = pair.keygen(&client)?;
            writeln!(roster, "  - {{client: {client}, site: {}, kinds: [slurm], scopes: {scopes}, jwks: {{keys: [{jwk}]}}}}", place.name)?;
        }
        let client = format!("netbox-agent-{}", world.netbox.0);
        let sites: Vec<_> = world.places.iter().map(|p| p.name.as_str()).collect();
        let (sites, jwk) = (sites.join(", "), pair.keygen(&client)?);
        writeln!(
            roster,
            "  - {{client: {client}, sites: [{sites}], kinds: [netbox], instance: {}, scopes: [\"observation:create\"], jwks: {{keys: [{jwk}]}}}}",
            world.netbox.0
        )?;
        std::fs::write(folder.join("hub/values.yaml"), roster)?;
        std::fs::write(folder.join("hub/hub.toml"), hub_toml(world, rhythm, port, pair.kafka.as_ref())?)?;
        if pair.kafka.is_some() {
            pair.manager(&["topics", "apply", "--config", "hub.toml"])?;
        }
        pair.satellite_calls(&pair.url, world, rhythm)?;
        Ok(pair)
    }

    /// Gives `hub` or `satellite` further arguments from its next start on.
    pub fn more(&mut self, which: &str, args: &[&str]) {
        self.more.push((which.into(), args.iter().map(|a| (*a).to_owned()).collect()));
    }

    /// Sets an environment variable of both from their next start on.
    pub fn env(&mut self, name: &str, value: &str) {
        self.env.push((name.into(), value.into()));
    }

    fn command(&self, folder: &str, stdout: Stdio) -> anyhow::Result<Command> {
        let which = if folder == "hub" { "hub" } else { "satellite" };
        let folder = self.folder.join(folder);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log.txt"))?;
        let mut command = Command::new(binary("fleet-manager"));
        command.current_dir(folder).args([which, "--config", &format!("{which}.toml")]).stdout(stdout).stderr(log);
        for (_, args) in self.more.iter().filter(|(of, _)| of == which) {
            command.args(args);
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        Ok(command)
    }

    /// Writes the satellite's configuration for a hub at `url`.
    pub fn satellite_calls(&self, url: &str, world: &World, rhythm: Rhythm) -> anyhow::Result<()> {
        std::fs::write(self.folder.join("satellite/satellite.toml"), satellite_toml(world, rhythm, url)?)?;
        Ok(())
    }

    /// Runs `fleet-manager` in the hub's folder, and gives what it says.
    pub fn manager(&self, args: &[&str]) -> anyhow::Result<String> {
        manager_in(&self.folder.join("hub"), args)
    }

    /// The hub's log, beside the hub.
    pub async fn log_of_hub(&self) -> anyhow::Result<(Arc<dyn EventLog>, Topics)> {
        match &self.kafka {
            None => Ok((Arc::new(SqliteLog::open_read_only(&self.data().join("log"))?), Topics::embedded())),
            Some(options) => {
                let log = kafka::KafkaLog::open(options.clone()).await?;
                log.look(&Topics::specs_kafka())?;
                Ok((Arc::new(log), Topics::kafka()))
            }
        }
    }

    fn keygen(&self, client: &str) -> anyhow::Result<String> {
        let out = self.folder.join("satellite");
        keygen(client, &out)
    }

    /// Starts the hub, and waits until it says so.
    pub async fn start_hub(&mut self) -> anyhow::Result<()> {
        let child = spawn(self.command("hub", Stdio::piped())?, "hub runs: ").await;
        self.hub = Some(child.with_context(|| self.log())?);
        Ok(())
    }

    /// Starts the satellite, and waits until it says so.
    pub async fn start_satellite(&mut self) -> anyhow::Result<()> {
        let child = self.spawn_satellite("satellite").await?;
        self.satellite = Some(child);
        Ok(())
    }

    /// A satellite in another folder of this pair; its end is the caller's.
    pub async fn spawn_satellite(&self, folder: &str) -> anyhow::Result<Child> {
        spawn(self.command(folder, Stdio::piped())?, "satellite runs: ").await.with_context(|| self.log())
    }

    /// Both.
    pub async fn start(&mut self) -> anyhow::Result<()> {
        self.start_hub().await?;
        self.start_satellite().await
    }

    /// Whichever does not run.
    pub async fn start_missing(&mut self) -> anyhow::Result<()> {
        if !runs(&mut self.hub) {
            self.start_hub().await?;
        }
        if !runs(&mut self.satellite) {
            self.start_satellite().await?;
        }
        Ok(())
    }

    /// The same without waiting for either to run.
    pub fn launch_missing(&mut self) -> anyhow::Result<()> {
        if !runs(&mut self.hub) {
            self.hub = Some(self.command("hub", Stdio::null())?.spawn()?);
        }
        if !runs(&mut self.satellite) {
            self.satellite = Some(self.command("satellite", Stdio::null())?.spawn()?);
        }
        Ok(())
    }

    /// Ends the hub as a power cut would.
    pub fn kill_hub(&mut self) {
        end(&mut self.hub);
    }

    /// Ends the satellite as a power cut would.
    pub fn kill_satellite(&mut self) {
        end(&mut self.satellite);
    }

    /// Waits until the satellite ends by itself; gives its exit code.
    pub async fn satellite_ends(&mut self) -> anyhow::Result<Option<i32>> {
        ended(self.satellite.take().context("no satellite runs")?).await
    }

    /// Ends both cleanly, the satellite first; gives their exit codes.
    pub async fn stop(&mut self) -> anyhow::Result<(Option<i32>, Option<i32>)> {
        let mut codes = Vec::new();
        for child in [self.satellite.take(), self.hub.take()] {
            let child = child.context("it does not run")?;
            Command::new("kill").arg("-TERM").arg(child.id().to_string()).status()?;
            codes.push(ended(child).await?);
        }
        Ok((codes[0], codes[1]))
    }

    /// The hub's data folder.
    pub fn data(&self) -> PathBuf {
        self.folder.join("hub/data")
    }

    /// The satellite's outbox.
    pub fn outbox(&self) -> PathBuf {
        self.folder.join("satellite/data/outbox.sqlite")
    }

    /// A token of the hub's own issuer, for whom a test likes. (People log in with an outside issuer; a test has the hub's key.)
    pub fn token(&self, client: &str, scope: &str, sites: &[&str]) -> anyhow::Result<String> {
        crate::crypto();
        let key = std::fs::read_to_string(self.data().join("keys/issuer.pem"))?;
        let issuer = fleet_hub::access::Issuer::new(&self.url, &[key]).map_err(anyhow::Error::msg)?;
        let sites: Vec<_> = sites.iter().map(|s| (*s).to_owned()).collect();
        issuer.issue(client, scope, &sites).map_err(anyhow::Error::msg)
    }

    /// Every right at every site.
    pub fn operator(&self) -> anyhow::Result<String> {
        self.token("operator", &fleet_hub::access::SCOPES.join(" "), &["*"])
    }

    /// The API with every right.
    pub async fn api(&self) -> anyhow::Result<Api> {
        Api::with_token(&self.url, &self.operator()?)
    }

    /// Runs `fmctl` against the hub, off a terminal. The pair may be used otherwise meanwhile.
    pub fn fmctl(&self, args: &[&str]) -> impl Future<Output = anyhow::Result<Output>> + 'static {
        let (url, token) = (self.url.clone(), self.operator());
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        async move {
            let mut command = Command::new(binary("fmctl"));
            command.env("FM_URL", url).env("FM_TOKEN", token?).args(args).stdin(Stdio::null());
            Ok(tokio::task::spawn_blocking(move || command.output()).await??)
        }
    }

    /// What the satellite's outbox says: (queued ever, waiting).
    pub fn queued(&self) -> anyhow::Result<(i64, i64)> {
        let db = rusqlite::Connection::open(self.outbox())?;
        let count = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0));
        let queued = count("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'queue'), 0)")?;
        Ok((queued, count("SELECT count(*) FROM queue")?))
    }

    /// The last lines of both logs.
    pub fn log(&self) -> String {
        let of = |name: &str| format!("{name}:\n{}", tail(&self.folder.join(name).join("log.txt")));
        format!("{}\n{}", of("hub"), of("satellite"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log());
        }
        end(&mut self.satellite);
        end(&mut self.hub);
    }
}

/// Runs `fleet-manager` in a folder, and gives what it says.
pub(crate) fn manager_in(folder: &Path, args: &[&str]) -> anyhow::Result<String> {
    let done = Command::new(binary("fleet-manager")).current_dir(folder).args(args).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    if done.status.success() { Ok(text) } else { bail!("{args:?}: {text}") }
}

/// A client's key at the site; gives the public half.
pub(crate) fn keygen(client: &str, out: &Path) -> anyhow::Result<String> {
    let made = Command::new(binary("fleet-manager")).args(["satellite", "keygen", client, "--out"]).arg(out).output()?;
    if made.status.success() { Ok(String::from_utf8(made.stdout)?.trim().to_owned()) } else { bail!("keygen: {made:?}") }
}

pub(crate) fn runs(child: &mut Option<Child>) -> bool {
    child.as_mut().is_some_and(|c| matches!(c.try_wait(), Ok(None)))
}

pub(crate) fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        // It may be gone already; that is what was wanted.
        let _ = child.kill();
        let _ = child.wait();
    }
}

pub(crate) async fn ended(mut child: Child) -> anyhow::Result<Option<i32>> {
    for _ in 0..600 {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let _ = child.kill();
    bail!("it did not end within 30 s")
}

pub(crate) async fn spawn(mut command: Command, says: &str) -> anyhow::Result<Child> {
    let says = says.to_owned();
    tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().context("fleet-manager")?;
        let stdout = child.stdout.take().context("stdout")?;
        match BufReader::new(stdout).lines().map_while(Result::ok).find(|l| l.starts_with(&says)) {
            Some(_) => Ok(child),
            None => bail!("it ended with {} before it ran", child.wait()?),
        }
    })
    .await?
}
