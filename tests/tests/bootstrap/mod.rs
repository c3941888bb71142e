//! Bootstrap configurations over HTTP and as `fmctl` applies them: the contract of `docs/contracts/hpc-bootstrap-config.md`.

mod apply;
mod contract;
mod journalled;
mod secrets;

use fleet_tests::{Answer, Api, Running, crypto, until};
use reqwest::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const ALL: &str = "slurm-bootstrap-config:read slurm-bootstrap-config:create slurm-bootstrap-config:update device:read";

struct Bed {
    folder: TempDir,
    hub: Running,
    hpc: Api,
}

async fn bed() -> Bed {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = start(folder.path()).await;
    let hpc = client(&hub, ALL, &["*"]);
    Bed { folder, hub, hpc }
}

async fn start(folder: &Path) -> Running {
    let hub = Running::start(&folder.join("data"), &["--sim", "sites=2,devices=8,people=false,pace=10"]).await.unwrap();
    let api = hub.api().await.unwrap();
    until("all devices", || async {
        let all = api.all("/devices").await.map_err(|e| e.to_string())?;
        if all.len() == 8 { Ok(()) } else { Err(format!("{} devices", all.len())) }
    })
    .await;
    hub
}

/// A client with these scopes and sites, by a token of the folder's own issuer.
fn client(hub: &Running, scope: &str, sites: &[&str]) -> Api {
    Api::with_token(&hub.url, &hub.token("user-hpc", scope, sites).unwrap()).unwrap()
}

const LIST: &str = "/api/v1/sites/sim1/slurm-bootstrap-configs/";

async fn send(api: &Api, method: Method, path: &str, body: Value, headers: &[(&str, &str)]) -> Answer {
    let bytes = body.to_string();
    let body = (!body.is_null()).then_some(bytes.as_bytes());
    api.send(method, path, body, headers).await.unwrap()
}

async fn get(api: &Api, path: &str) -> Answer {
    send(api, Method::GET, path, Value::Null, &[]).await
}

async fn post(api: &Api, body: Value) -> Answer {
    send(api, Method::POST, LIST, body, &[]).await
}

async fn patch(api: &Api, role: &str, body: Value) -> Answer {
    send(api, Method::PATCH, &format!("{LIST}{role}/"), body, &[]).await
}

fn full() -> Value {
    json!({"device_role": "gpu-node", "image": "ubuntu-22.04", "flavor": "bm.h100", "features": ["h100", "ib"], "gres": "gpu:h100:8", "user_data": "I2Nsb3VkLWNvbmZpZwo="})
}

fn status(answer: &Answer) -> (u16, &str) {
    (answer.status.as_u16(), answer.body["code"].as_str().unwrap_or_default())
}

/// `fmctl` as HPC.
async fn fmctl(bed: &Bed, args: &[&str]) -> (Option<i32>, String, String) {
    let args: Vec<_> = args.iter().map(|a| (*a).to_owned()).collect();
    let (url, token) = (bed.hub.url.clone(), bed.hub.token("user-hpc", ALL, &["*"]).unwrap());
    let run = move || Command::new(fleet_tests::binary("fmctl")).env("FM_URL", url).env("FM_TOKEN", token).args(args).output().unwrap();
    let done = tokio::task::spawn_blocking(run).await.unwrap();
    (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned(), String::from_utf8_lossy(&done.stderr).into_owned())
}
