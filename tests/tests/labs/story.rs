//! The product between the recorders, and what every step needs: its API, what is awaited there, and how long after the source's answer
//! it came.

use fleet_tests::labs::{Labs, SlurmLab};
use fleet_tests::recorder::{Answered, Call, Recorder};
use fleet_tests::{Api, Pair, Place, Rhythm, World, binary, until_within};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Between looks at either source.
pub const INTERVAL: Duration = Duration::from_secs(2);
/// What a source's answer shows, the API shows this soon: one poll and two seconds.
pub const BOUND: Duration = Duration::from_secs(4);
/// Until the labs do what they are told: SLURM takes half a minute to give a dead node up.
pub const PATIENCE: Duration = Duration::from_secs(90);
/// What takes longer is shown call by call.
const SLOW: Duration = Duration::from_secs(1);
/// Tokens of the API live ten minutes.
const TOKEN_LIFE: Duration = Duration::from_secs(300);

/// A site with its cluster.
pub struct Cluster {
    /// The site.
    pub site: &'static str,
    /// The cluster itself.
    pub lab: SlurmLab,
    /// What the product asks of it.
    pub recorder: Recorder,
    /// The token file that the product reads.
    pub jwt_file: PathBuf,
}

/// The product, looking at the labs.
pub struct Story {
    /// The labs themselves.
    pub labs: Labs,
    /// What the product asks of NetBox.
    pub netbox: Recorder,
    /// dc1 with 22.05, dc2 with 24.11.
    pub clusters: [Cluster; 2],
    /// The way from the satellite to the hub.
    pub way: Recorder,
    /// The product: hub and satellite, two processes.
    pub pair: tokio::sync::Mutex<Pair>,
    api: tokio::sync::Mutex<(Api, Instant)>,
    measured: Mutex<Vec<Duration>>,
    step: Mutex<(String, Instant)>,
    folder: TempDir,
}

impl Story {
    /// Starts the product with recorders between it and the labs; NetBox is swept whole every `sweep_seconds`.
    pub async fn begin(sweep_seconds: u32) -> Self {
        println!();
        let labs = Labs::from_env().unwrap();
        let folder = TempDir::new().unwrap();
        let netbox = Recorder::before(&labs.netbox.url).await.unwrap();
        let old = Cluster::new("dc1", &labs.slurm_old, folder.path()).await;
        let new = Cluster::new("dc2", &labs.slurm_new, folder.path()).await;
        replace(&folder.path().join("netbox.token"), &labs.netbox.token);
        let world = world(&netbox.url, [&old, &new], &folder.path().join("netbox.token"));
        let rhythm = Rhythm { interval: INTERVAL.as_secs(), list: 300, resync: 900, sweep: sweep_seconds.into(), window: 120 };
        let mut pair = Pair::prepare(folder.path(), &world, rhythm).unwrap();
        let way = Recorder::before(&pair.url).await.unwrap();
        pair.satellite_calls(&way.url, &world, rhythm).unwrap();
        pair.start().await.unwrap();
        let api = tokio::sync::Mutex::new((pair.api().await.unwrap(), Instant::now()));
        let step = Mutex::new(("start".to_owned(), Instant::now()));
        let (clusters, pair) = ([old, new], tokio::sync::Mutex::new(pair));
        Self { labs, netbox, clusters, way, pair, api, measured: Mutex::default(), step, folder }
    }

    /// The folder of the satellite.
    pub fn satellite_folder(&self) -> PathBuf {
        self.folder.path().join("satellite")
    }

    /// Says which step begins.
    pub fn step(&self, name: &str) {
        let mut step = self.step.lock().unwrap();
        println!("-- {name} ({} took {:.1} s)", step.0, step.1.elapsed().as_secs_f64());
        *step = (name.to_owned(), Instant::now());
    }

    /// The API, under a token that still lives.
    pub async fn api(&self) -> Api {
        let mut api = self.api.lock().await;
        if api.1.elapsed() > TOKEN_LIFE {
            *api = (self.pair.lock().await.api().await.unwrap(), Instant::now());
        }
        api.0.clone()
    }

    /// A device, by name or id.
    pub async fn device(&self, device: &str) -> Result<Device, String> {
        self.api().await.get(&format!("/devices/{device}")).await.map(Device).map_err(|e| e.to_string())
    }

    /// One source of a site, as `GET /sites` shows it.
    pub async fn source(&self, site: &str, source: &str) -> Result<Value, String> {
        let sites = self.api().await.get("/sites").await.map_err(|e| e.to_string())?;
        let of_site = sites["items"].as_array().into_iter().flatten().find(|s| s["site_id"] == site).cloned().unwrap_or_default();
        let found = of_site["sources"].as_array().into_iter().flatten().find(|s| s["source"] == source).cloned();
        found.ok_or_else(|| format!("no {source} at {site}: {sites}"))
    }

    /// Runs `fmctl`; gives its exit code and all that it printed.
    pub async fn fmctl(&self, args: &[&str]) -> (i32, String) {
        let output = self.output(args).await;
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
    }

    /// The same as it came.
    pub async fn output(&self, args: &[&str]) -> std::process::Output {
        let running = self.pair.lock().await.fmctl(args);
        running.await.unwrap()
    }

    /// Gives a command that must be accepted. On a busy machine a look may come too late to count as fresh; then one asks again.
    pub async fn give(&self, args: &[&str]) {
        until_within(PATIENCE, &format!("fmctl {}", args.join(" ")), || async {
            match self.fmctl(args).await {
                (0, _) => Ok(()),
                (4, text) if text.contains("-stale") => Err(text),
                (code, text) => panic!("fmctl {}: {code} {text}", args.join(" ")),
            }
        })
        .await;
    }

    /// Waits until a device is as `wanted` says; gives it.
    pub async fn until(&self, what: &str, device: &str, wanted: impl Fn(&Device) -> Result<(), String>) -> Device {
        until_within(PATIENCE, what, || async {
            let found = self.device(device).await?;
            wanted(&found).map(|()| found)
        })
        .await
    }

    /// The same; and it must have come within the bound of the first answer of `source` since `since` that `shows` it.
    pub async fn appears(
        &self,
        what: &str,
        source: (&Recorder, Instant),
        shows: impl Fn(&Call, &Answered) -> bool,
        device: &str,
        wanted: impl Fn(&Device) -> Result<(), String>,
    ) -> Device {
        let found = self.until(what, device, wanted).await;
        self.within_bound(what, source, shows);
        found
    }

    /// What was just seen at the API came within the bound of the first answer of `source` since `since` that `shows` it.
    pub fn within_bound(&self, what: &str, source: (&Recorder, Instant), shows: impl Fn(&Call, &Answered) -> bool) {
        let seen = Instant::now();
        let (recorder, since) = source;
        let answer = recorder.first(since, shows).unwrap_or_else(|| panic!("{what}: the API shows it, and no answer of the source did"));
        let took = seen.duration_since(answer.at);
        println!("   {:>7.3} s  {what} ({:.1} s after the act)", took.as_secs_f64(), seen.duration_since(since).as_secs_f64());
        self.measured.lock().unwrap().push(took);
        if took > SLOW {
            println!("{}", recorder.log(answer.at, seen));
        }
        assert!(took <= BOUND, "{what}: {took:?} after the source's answer, more than {BOUND:?}");
    }

    /// Tells how long something took that is not dated by an answer.
    pub fn note(&self, what: &str, from: Instant, to: Instant) {
        println!("   {:>7.3} s  {what}", to.duration_since(from).as_secs_f64());
    }

    /// All that the product asked of anybody was a read, as often as it should; it stops cleanly, and its journal holds together.
    pub async fn end(self) {
        self.step("the end");
        let [old, new] = &self.clusters;
        let feed = self.netbox.calls_of("/api/core/object-changes/?time_after=");
        for (system, recorder, looks) in
            [("dc1", &old.recorder, old.looks()), ("dc2", &new.recorder, new.looks()), ("NetBox", &self.netbox, feed)]
        {
            let calls = recorder.calls();
            let writes: Vec<_> = calls.iter().filter(|c| c.method != "GET").map(|c| format!("{} {}", c.method, c.path)).collect();
            assert!(writes.is_empty(), "{system} was asked to change something: {writes:?}");
            let between = median(looks.windows(2).map(|w| w[1].asked_at.duration_since(w[0].asked_at)));
            println!(
                "   {system}: {} calls, all of them GET; {} looks, {between:.2?} from one to the next (median)",
                calls.len(),
                looks.len()
            );
            assert!(looks.len() > 10 && between < 2 * INTERVAL, "{system} is not looked at every {INTERVAL:?}");
        }
        let took = self.measured.lock().unwrap().clone();
        let (middle, longest) = (median(took.iter().copied()), took.iter().max().copied().unwrap_or_default());
        println!("   {} changes dated: {middle:.3?} after the source's answer (median), at most {longest:.3?}", took.len());
        let mut pair = self.pair.lock().await;
        let data = pair.data();
        assert_eq!(pair.stop().await.unwrap(), (Some(0), Some(0)), "the product did not stop cleanly");
        let verified =
            std::process::Command::new(binary("fleet-manager")).args(["replay", "--verify", "--data"]).arg(&data).output().unwrap();
        assert!(verified.status.success(), "the journal does not hold together: {verified:?}");
    }
}

fn median(spans: impl Iterator<Item = Duration>) -> Duration {
    let mut spans: Vec<_> = spans.collect();
    spans.sort();
    spans.get(spans.len() / 2).copied().unwrap_or_default()
}

impl Cluster {
    async fn new(site: &'static str, lab: &SlurmLab, folder: &Path) -> Self {
        let jwt_file = folder.join(format!("{site}.jwt"));
        replace(&jwt_file, &lab.token(86_400).await.unwrap());
        Self { site, lab: lab.clone(), recorder: Recorder::before(&lab.url).await.unwrap(), jwt_file }
    }

    /// Looks at the cluster: the calls for the list of its nodes.
    pub fn looks(&self) -> Vec<Call> {
        self.recorder.calls().into_iter().filter(is_list).collect()
    }
}

/// Whether a call asks for the list of nodes.
pub fn is_list(call: &Call) -> bool {
    call.path.starts_with("/slurm/") && call.path.ends_with("/nodes")
}

/// Writes a file that is never seen half written.
pub fn replace(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, file).unwrap();
}

/// What the deployer has.
fn world(netbox: &str, clusters: [&Cluster; 2], token: &Path) -> World {
    let role = |scheduler: &str| format!("[sites.roles.gpu-node]\nscheduler = \"{scheduler}\"\n");
    let bound = |c: &Cluster| Place {
        name: c.site.into(),
        slurm: Some((c.recorder.url.clone(), "slurm".into(), c.jwt_file.clone())),
        roles: format!("{}workload_proofs = [\"slurm-idle\"]\n", role("slurm")),
    };
    let unbound = |name: &str, roles: String| Place { name: name.into(), slurm: None, roles };
    let places = vec![bound(clusters[0]), bound(clusters[1]), unbound("dc3", role("none")), unbound("dc4", String::new())];
    World { places, netbox: ("lab".into(), netbox.into(), token.into()) }
}

/// A device as `GET /devices/{id}` gives it.
#[derive(Clone, Debug)]
pub struct Device(pub Value);

impl Device {
    /// A condition about the device itself; null where it has none.
    pub fn condition(&self, r#type: &str) -> &Value {
        let found = self.0["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == r#type && c["subject"] == "device");
        found.unwrap_or(&Value::Null)
    }

    /// Whether a condition stands like this.
    pub fn has(&self, r#type: &str, status: &str, reason: &str) -> Result<(), String> {
        let c = self.condition(r#type);
        if c["status"] == status && c["reason"] == reason { Ok(()) } else { Err(format!("{type} is {c}, not {status}/{reason}")) }
    }

    /// Whether the value at a JSON pointer is this.
    pub fn at(&self, pointer: &str, wanted: &Value) -> Result<(), String> {
        let found = self.0.pointer(pointer).unwrap_or(&Value::Null);
        if found == wanted { Ok(()) } else { Err(format!("{pointer} is {found}, not {wanted}")) }
    }

    /// Whether it is in this phase.
    pub fn phase(&self, phase: &str) -> Result<(), String> {
        self.at("/lifecycle/phase", &phase.into())
    }

    /// Its NetBox id.
    pub fn netbox_id(&self) -> Option<i64> {
        self.0["identity"]["links"].as_array()?.iter().find(|l| l["system"] == "netbox")?["id"].as_i64()
    }
}
