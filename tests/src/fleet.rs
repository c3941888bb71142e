//! Several hubs on one Kafka, each a process of its own with its own folder, as they stand behind a load balancer in production: they share
//! roster, sites, the issuer's keys and the vault's master key.

use crate::configured::{hub_toml, log_toml, satellite_toml};
use crate::pair::{self, World};
use crate::{Api, Database, Rhythm, binary, free_port, until, until_within};
use anyhow::{Context, bail};
use fleet_hub::access::{Issuer, SCOPES, generate_key};
use fleet_journal::Topics;
use fleet_log::{EventLog, Item, kafka};
use fleet_schemas::{Inputs, Lease, decode, topics as names};
use reqwest::Method;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// What all hubs call themselves as an issuer.
const ISSUER: &str = "http://127.0.0.1:1";
/// The client that [`Fleet::agent`] is.
const AGENT: &str = "chaos-agent";

/// See the module.
pub struct Fleet {
    /// Where the log is.
    pub kafka: kafka::Options,
    folder: PathBuf,
    hubs: Vec<One>,
    satellite: Option<Child>,
    issuer: Arc<Issuer>,
}

struct One {
    name: String,
    url: String,
    child: Option<Child>,
}

impl Fleet {
    /// Writes the configurations of `count` hubs and one satellite, makes the topics, and starts nothing. Without a database each hub has
    /// read models and positions of its own.
    pub fn prepare(folder: &Path, world: &World, count: usize, kafka: kafka::Options, database: Option<&Database>) -> anyhow::Result<Self> {
        crate::crypto();
        std::fs::create_dir_all(folder.join("keys"))?;
        std::fs::create_dir_all(folder.join("satellite"))?;
        let pem = generate_key().map_err(anyhow::Error::msg)?.private_pem;
        std::fs::write(folder.join("keys/issuer.pem"), &pem)?;
        let issuer = Arc::new(Issuer::new(ISSUER, &[pem]).map_err(anyhow::Error::msg)?);
        let hubs = (0..count).map(|i| One { name: format!("hub-{i}"), url: format!("http://127.0.0.1:{}", free_port()), child: None });
        let fleet = Self { kafka, folder: folder.into(), hubs: hubs.collect(), satellite: None, issuer };
        std::fs::write(folder.join("values.yaml"), fleet.roster(world)?)?;
        for hub in &fleet.hubs {
            std::fs::create_dir_all(folder.join(&hub.name))?;
            let tables = |d: &Database| {
                Ok::<_, anyhow::Error>(format!("{}{}", d.toml("postgres", &folder.join("keys"))?, d.toml("vault", &folder.join("keys"))?))
            };
            let postgres = database.map(tables).transpose()?.unwrap_or_default();
            std::fs::write(folder.join(&hub.name).join("hub.toml"), format!("{}{postgres}", fleet.hub(hub, world)?))?;
        }
        let satellite = satellite_toml(world, Rhythm::QUICK, &fleet.hubs[0].url)?;
        std::fs::write(folder.join("satellite/satellite.toml"), satellite.replace("[hub]\n", &format!("[hub]\nissuer = \"{ISSUER}\"\n")))?;
        fleet.manager(0, &["topics", "apply", "--config", "hub.toml"])?;
        Ok(fleet)
    }

    fn roster(&self, world: &World) -> anyhow::Result<String> {
        let mut roster = "satelliteRoster:\n".to_owned();
        let sites: Vec<_> = world.places.iter().map(|p| p.name.as_str()).collect();
        let mut line = |client: &str, sites: &str, rest: &str| -> anyhow::Result<()> {
            let jwk = pair::keygen(client, &self.folder.join("satellite"))?;
            writeln!(roster, "  - {{client: {client}, sites: [{sites}], {rest}, jwks: {{keys: [{jwk}]}}}}")?;
            Ok(())
        };
        let slurm = r#"kinds: [slurm], scopes: ["device:update", "device-condition:create"]"#;
        for site in &sites {
            line(&format!("slurm-agent-{site}"), site, slurm)?;
        }
        line(AGENT, &sites.join(", "), slurm)?;
        let netbox = format!(r#"kinds: [netbox], instance: {}, scopes: ["observation:create"]"#, world.netbox.0);
        line(&format!("netbox-agent-{}", world.netbox.0), &sites.join(", "), &netbox)?;
        Ok(roster)
    }

    fn hub(&self, hub: &One, world: &World) -> anyhow::Result<String> {
        let port = hub.url.rsplit(':').next().and_then(|p| p.parse().ok()).context("port")?;
        let text = hub_toml(world, Rhythm::QUICK, port, None)?;
        let shared = format!(
            "name = \"{}\"\nurl = \"{ISSUER}\"\nissuer_keys = [\"../keys/issuer.pem\"]\nmaster_key = \"../keys/master.key\"\n",
            hub.name
        );
        let text = text.replace("roster = \"values.yaml\"", "roster = \"../values.yaml\"");
        Ok(format!("{shared}{text}[limits]\nper_second = 100000\nburst = 100000\n{}", log_toml(&self.kafka)))
    }

    /// Hub `nth` calls another port on loopback instead of this one, which its configuration names.
    pub fn reroute(&self, nth: usize, from: u16, to: u16) -> anyhow::Result<()> {
        let file = self.folder.join(&self.hubs[nth].name).join("hub.toml");
        let (text, named) = (std::fs::read_to_string(&file)?, format!("127.0.0.1:{from}"));
        if !text.contains(&named) {
            bail!("{} does not name {named}", file.display());
        }
        Ok(std::fs::write(&file, text.replace(&named, &format!("127.0.0.1:{to}")))?)
    }

    /// Runs `fleet-manager` in the folder of hub `nth`, and gives what it says.
    pub fn manager(&self, nth: usize, args: &[&str]) -> anyhow::Result<String> {
        pair::manager_in(&self.folder.join(&self.hubs[nth].name), args)
    }

    /// How many hubs there are.
    pub fn count(&self) -> usize {
        self.hubs.len()
    }

    /// The process of hub `nth`, if it runs.
    pub fn pid(&self, nth: usize) -> Option<u32> {
        self.hubs[nth].child.as_ref().map(Child::id)
    }

    fn command(&self, folder: &str, which: &str) -> anyhow::Result<Command> {
        let folder = self.folder.join(folder);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("log.txt"))?;
        let mut command = Command::new(binary("fleet-manager"));
        command.current_dir(folder).args([which, "--config", &format!("{which}.toml")]).stderr(log);
        Ok(command)
    }

    /// Starts hub `nth` and waits until it says that it runs.
    pub async fn start(&mut self, nth: usize) -> anyhow::Result<()> {
        let mut command = self.command(&self.hubs[nth].name, "hub")?;
        command.stdout(Stdio::piped());
        self.hubs[nth].child = Some(pair::spawn(command, "hub runs: ").await.with_context(|| self.log())?);
        Ok(())
    }

    /// Starts hub `nth` where it does not run, and waits for nothing.
    pub fn launch(&mut self, nth: usize) -> anyhow::Result<()> {
        if !pair::runs(&mut self.hubs[nth].child) {
            let mut command = self.command(&self.hubs[nth].name, "hub")?;
            self.hubs[nth].child = Some(command.stdout(Stdio::null()).spawn()?);
        }
        Ok(())
    }

    /// Sends a signal to hub `nth`.
    pub fn signal(&mut self, nth: usize, signal: &str) -> anyhow::Result<()> {
        let Some(child) = &mut self.hubs[nth].child else { bail!("hub {nth} does not run") };
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status()?;
        if signal == "KILL" {
            child.wait()?;
            self.hubs[nth].child = None;
        }
        Ok(())
    }

    /// Ends hub `nth` cleanly; gives its exit code.
    pub async fn stop(&mut self, nth: usize) -> anyhow::Result<Option<i32>> {
        self.signal(nth, "TERM")?;
        pair::ended(self.hubs[nth].child.take().context("it does not run")?).await
    }

    /// Starts the satellite, which calls hub 0.
    pub async fn start_satellite(&mut self) -> anyhow::Result<()> {
        let mut command = self.command("satellite", "satellite")?;
        command.stdout(Stdio::piped());
        self.satellite = Some(pair::spawn(command, "satellite runs: ").await.with_context(|| self.log())?);
        Ok(())
    }

    /// Ends the satellite.
    pub fn end_satellite(&mut self) {
        pair::end(&mut self.satellite);
    }

    /// Every one of so many devices is known to every hub; from then on nobody looks.
    pub async fn enrol(&mut self, devices: usize) -> anyhow::Result<()> {
        self.start_satellite().await?;
        for hub in 0..self.count() {
            self.shows(hub, devices).await?;
        }
        self.end_satellite();
        Ok(())
    }

    /// Hub `nth` with every right.
    pub fn operator(&self, nth: usize) -> anyhow::Result<Api> {
        self.api(nth, "operator", &SCOPES.join(" "))
    }

    /// Hub `nth` as an agent of SLURM.
    pub fn agent(&self, nth: usize) -> anyhow::Result<Api> {
        self.api(nth, AGENT, "device:update device-condition:create")
    }

    fn api(&self, nth: usize, client: &str, scopes: &str) -> anyhow::Result<Api> {
        let (issuer, client, scopes) = (self.issuer.clone(), client.to_owned(), scopes.to_owned());
        // Each request has a token of its own: none runs out under a load that lasts.
        Api::with_tokens(&self.hubs[nth].url, move || issuer.issue(&client, &scopes, &["*".into()]).map_err(anyhow::Error::msg))
    }

    /// The log, beside the hubs.
    pub async fn log_of_hubs(&self) -> anyhow::Result<(Arc<dyn EventLog>, Topics)> {
        let log = kafka::KafkaLog::open(self.kafka.clone()).await?;
        log.look(&Topics::specs_kafka())?;
        Ok((Arc::new(log), Topics::kafka()))
    }

    /// Waits until hub `nth` says that it is ready.
    pub async fn ready(&self, nth: usize) -> anyhow::Result<()> {
        let api = self.operator(nth)?;
        until("the hub is ready", || async {
            let answer = api.send(Method::GET, "/readyz", None, &[]).await.map_err(|e| e.to_string())?;
            if answer.status.is_success() { Ok(()) } else { Err(answer.body.to_string()) }
        })
        .await;
        Ok(())
    }

    /// Waits until hub `nth` shows so many devices.
    pub async fn shows(&self, nth: usize, devices: usize) -> anyhow::Result<()> {
        let api = self.operator(nth)?;
        until_within(Duration::from_secs(120), "every device is known", || async {
            let there = api.all("/devices").await.map_err(|e| e.to_string())?.len();
            if there == devices { Ok(()) } else { Err(format!("{there} devices")) }
        })
        .await;
        Ok(())
    }

    /// Waits until the hubs say in their leases of every input that the log has now that it is decided.
    pub async fn decided(&self) -> anyhow::Result<()> {
        let (log, topics) = self.log_of_hubs().await?;
        let mut ends = Vec::new();
        for partition in 0..topics.partitions {
            let end = async |topic| Ok::<_, anyhow::Error>(log.bounds(topics.at(topic, partition)).await?.end);
            ends.push(Inputs { commands: end(names::COMMANDS).await?, observations: end(names::OBSERVATIONS).await? });
        }
        until("every input is decided", || async {
            let told = told(&*log, &topics).await.map_err(|e| e.to_string())?;
            let open = ends
                .iter()
                .zip(0..)
                .find(|(end, p)| told.get(p).is_none_or(|d: &Inputs| d.commands < end.commands || d.observations < end.observations));
            open.map_or(Ok(()), |(end, p)| Err(format!("partition {p}: {end:?}, decided {:?}", told.get(&p))))
        })
        .await;
        Ok(())
    }

    /// The last lines of what each hub logged.
    pub fn log(&self) -> String {
        let of = |hub: &One| format!("{}:\n{}", hub.name, crate::running::tail(&self.folder.join(&hub.name).join("log.txt")));
        self.hubs.iter().map(of).collect::<Vec<_>>().join("\n")
    }
}

/// How far each partition is decided, by the last beats.
async fn told(log: &dyn EventLog, topics: &Topics) -> anyhow::Result<BTreeMap<u32, Inputs>> {
    const BEATS: u64 = 20;
    let at = topics.at(names::LEASES, 0);
    let bounds = log.bounds(at.clone()).await?;
    let mut reader = log.read(&[(at, bounds.end.saturating_sub(BEATS).max(bounds.start))]);
    let mut decided = BTreeMap::new();
    while let Item::Record(stored) = reader.next().await? {
        decided.extend(decode::<Lease>(&stored.record.value)?.leads.into_iter().map(|led| (led.partition, led.decided)));
    }
    Ok(decided)
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log());
        }
        pair::end(&mut self.satellite);
        self.hubs.iter_mut().for_each(|hub| pair::end(&mut hub.child));
    }
}
