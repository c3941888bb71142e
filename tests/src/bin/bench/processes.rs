//! Whole processes on the data that was grown: replay, start, memory.

use crate::table::{Table, at_most, short};
use fleet_tests::{Api, binary};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(300);

pub async fn measure(folder: &Path, table: &mut Table) {
    replay(folder, table);
    start(folder, table).await;
}

fn replay(folder: &Path, table: &mut Table) {
    let done = Command::new(binary("fleet-manager")).args(["replay", "--verify", "--data"]).arg(folder).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{text}");
    let line = text.lines().rev().nth(1).unwrap_or_default().to_owned();
    table.row("replay --verify", "no snapshots until it takes 60 s", line.clone(), "stated");
}

/// A process on a full folder, killed before: how soon it serves, and how soon it leads.
async fn start(folder: &Path, table: &mut Table) {
    // `dev` takes only a folder with its mark.
    std::fs::write(folder.join("dev"), "").unwrap();
    let config = folder.join("config.toml");
    std::fs::write(&config, "sites = []\n").unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let started = Instant::now();
    let mut child = spawn(folder, port, &config);
    let api = loop {
        match Api::from_context(&folder.join("fmctl.toml")).await {
            Ok(api) if api.url == url => break api,
            _ if child.try_wait().unwrap().is_some() => panic!("the process ended"),
            _ if started.elapsed() > PATIENCE => panic!("the process does not serve"),
            // Often enough for what is measured.
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    };
    api.get("/devices?limit=50").await.unwrap();
    let serving = started.elapsed();
    let open = reqwest::Client::builder().no_proxy().build().unwrap();
    while open.get(format!("{url}/readyz")).send().await.is_ok_and(|r| !r.status().is_success()) {
        assert!(started.elapsed() < PATIENCE, "the process does not lead");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let leading = started.elapsed();
    table.row("cold start with data → serving reads", "≤ 2 s", short(serving), at_most(serving, Duration::from_secs(2)));
    table.row("restart → leading every partition, all of it replayed", "≤ 5 s", short(leading), at_most(leading, Duration::from_secs(5)));
    let mib = memory(child.id());
    table.row(
        "memory of that process (leader and read model)",
        "leader ≤ 250 MB",
        format!("{mib} MiB"),
        if mib <= 250 { "met" } else { "missed" },
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

fn spawn(folder: &Path, port: u16, config: &Path) -> Child {
    let mut command = Command::new(binary("fleet-manager"));
    command.arg("dev").arg("--data").arg(folder).args(["--listen", &format!("127.0.0.1:{port}"), "--config"]).arg(config);
    command.env("RUST_LOG", "warn").stdout(Stdio::null()).spawn().unwrap()
}

/// Resident memory, MiB.
pub fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) / 1024
}
