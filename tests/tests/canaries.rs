//! Secrets of hub and satellite as canaries: none of them appears in a log line, an event, a metric, a list, a SQLite file or a parked
//! record, whatever goes wrong. (User-data has a test of its own, `bootstrap/secrets.rs`.)

use fleet_tests::{Pair, Rhythm, World, crypto, free_port, until};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A bearer that nobody issued.
const BEARER: &str = "canary-bearer-that-nobody-issued";

/// A secret, and the files in which it may stand.
struct Canary {
    name: String,
    text: String,
    home: Vec<PathBuf>,
}

/// The secret lines of a PEM file.
fn pem_canaries(file: &Path) -> Vec<Canary> {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|l| l.len() > 40 && !l.starts_with('-'));
    let jwk = file.with_extension("jwk.json");
    lines.map(|l| Canary { name: file.display().to_string(), text: l.into(), home: vec![file.into(), jwk.clone()] }).collect()
}

fn files(root: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        if entry.path().is_dir() { files(&entry.path(), out) } else { out.push(entry.path()) }
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|w| w == text.as_bytes())
}

/// Things go wrong, each with a secret in the hand: refused by NetBox, by SLURM, by the hub. Gives what is shown to people and machines.
async fn gone_wrong(pair: &Pair, world: &World, metrics: [u16; 2]) -> Vec<String> {
    let api = pair.api().await.unwrap();
    let jwt = world.places[0].slurm.as_ref().unwrap().2.clone();
    let (bad_jwt, bad_token) =
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdW4iOiJjYW5hcnkifQ.canary-of-a-refused-jwt", "nbt_canary.of-a-refused-netbox-token");
    std::fs::write(&jwt, bad_jwt).unwrap();
    std::fs::write(&world.netbox.2, bad_token).unwrap();
    for source in ["slurm", "netbox"] {
        until("a fault is told", || async {
            let sites = api.get("/sites").await.map_err(|e| e.to_string())?;
            let of = sites["items"][0]["sources"].as_array().into_iter().flatten().find(|s| s["source"] == source).cloned();
            if of.as_ref().is_some_and(|s| !s["fault"].is_null()) { Ok(()) } else { Err(format!("{of:?}")) }
        })
        .await;
    }
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    http.get(format!("{}/api/v1/devices", pair.url)).bearer_auth(BEARER).send().await.unwrap();
    let form = [("grant_type", "client_credentials"), ("client_assertion", "canary.of.an-assertion")];
    http.post(format!("{}/oauth/token", pair.url)).form(&form).send().await.unwrap();
    let mut shown = Vec::new();
    for port in metrics {
        shown.push(http.get(format!("http://127.0.0.1:{port}/metrics")).send().await.unwrap().text().await.unwrap());
    }
    for path in ["/devices", "/sites", "/admin/parked", "/audit/denials", "/attention", "/orphans"] {
        shown.push(api.get(path).await.unwrap().to_string());
    }
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_leaves_its_file() {
    crypto();
    let options = fleet_sim::Options { sites: 1, devices: 12, people: false, pace: 0.001, ..Default::default() };
    let (sim, folder) = (fleet_sim::start(options).await.unwrap(), TempDir::new().unwrap());
    let world = World::simulated(&sim, folder.path()).unwrap();
    let mut pair = Pair::prepare(folder.path(), &world, Rhythm::QUICK).unwrap();
    let (hub_metrics, satellite_metrics) = (free_port(), free_port());
    pair.more("hub", &["--metrics", &format!("127.0.0.1:{hub_metrics}")]);
    pair.more("satellite", &["--metrics", &format!("127.0.0.1:{satellite_metrics}")]);
    pair.env("RUST_LOG", "trace,h2=info,sqlx=debug");
    pair.start().await.unwrap();
    let api = pair.api().await.unwrap();
    until("every device", || async {
        let found = api.all("/devices").await.map_err(|e| e.to_string())?.len();
        if found == 12 { Ok(()) } else { Err(format!("{found} devices")) }
    })
    .await;
    let (good_jwt, good_token) = (sim.sites[0].slurm_jwt.clone(), sim.netbox.token.clone());
    let shown = gone_wrong(&pair, &world, [hub_metrics, satellite_metrics]).await;
    let token = pair.operator().unwrap();
    pair.stop().await.unwrap();

    let jwt = world.places[0].slurm.as_ref().unwrap().2.clone();
    let mut canaries = Vec::new();
    let plain = |name: &str, text: &str, home: Vec<PathBuf>| Canary { name: name.into(), text: text.trim().into(), home };
    canaries.push(plain("SLURM's token", good_jwt.rsplit('.').next().unwrap(), vec![]));
    canaries.push(plain("a refused SLURM token", "canary-of-a-refused-jwt", vec![jwt.clone()]));
    canaries.push(plain("NetBox's token", &good_token, vec![]));
    canaries.push(plain("a refused NetBox token", "of-a-refused-netbox-token", vec![world.netbox.2.clone()]));
    canaries.push(plain("a bearer", BEARER, vec![]));
    canaries.push(plain("an assertion", "of.an-assertion", vec![]));
    canaries.push(plain("an operator's token", token.rsplit('.').next().unwrap(), vec![]));
    let mut all = Vec::new();
    files(folder.path(), &mut all);
    for file in all.iter().filter(|f| f.extension().is_some_and(|e| e == "pem")) {
        canaries.extend(pem_canaries(file));
    }
    let master = all.iter().find(|f| f.ends_with("keys/master.key")).unwrap();
    canaries.push(plain("the master key", &std::fs::read_to_string(master).unwrap(), vec![master.clone()]));
    assert!(canaries.len() >= 12 && canaries.iter().all(|c| c.text.len() > 10), "{} canaries", canaries.len());
    let mut searched = 0;
    for file in &all {
        let bytes = std::fs::read(file).unwrap();
        searched += bytes.len();
        for canary in canaries.iter().filter(|c| !c.home.contains(file)) {
            assert!(!holds(&bytes, &canary.text), "{} is in {}", canary.name, file.display());
        }
    }
    for text in &shown {
        for canary in &canaries {
            assert!(!text.contains(&canary.text), "{} is shown: {}", canary.name, &text[..text.len().min(200)]);
        }
    }
    assert!(searched > 1 << 19, "only {searched} bytes were searched");
    // The search finds what is there: a device's name is in the log's file and in the read model's.
    let name = sim.world.devices().into_iter().find_map(|d| d.name.clone()).unwrap();
    assert!(all.iter().filter(|f| holds(&std::fs::read(f).unwrap(), &name)).count() >= 2);
    sim.stop().await;
}
