//! Starting a world, asking its faces, reading fixtures, waiting for conditions.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fleet_sim::{Options, Sim};
use reqwest::{Client, Method};
use serde_json::Value;

/// An answer, read whole.
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e} in {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
    }
}

/// A world in which nothing happens but what the test does.
pub(crate) async fn quiet(devices: u32) -> Sim {
    world(devices, 1.0).await
}

/// The same at another pace.
pub(crate) async fn world(devices: u32, pace: f64) -> Sim {
    fleet_sim::start(Options { devices, people: false, pace, ..Options::default() }).await.unwrap()
}

/// Sends one request.
pub(crate) async fn ask(method: Method, url: String, headers: &[(&str, &str)], body: Option<&str>) -> Got {
    let mut request = Client::new().request(method, url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(body) = body {
        request = request.header("Content-Type", "application/json").body(body.to_owned());
    }
    let response = request.send().await.unwrap();
    Got { status: response.status().as_u16(), headers: response.headers().clone(), text: response.text().await.unwrap() }
}

/// GET from NetBox; `path` may be a whole URL (a `next` link).
pub(crate) async fn netbox(sim: &Sim, path: &str) -> Got {
    let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", sim.netbox.url) };
    ask(Method::GET, url, &[("Authorization", &format!("Bearer {}", sim.netbox.token))], None).await
}

/// PATCH of a device.
pub(crate) async fn patch(sim: &Sim, id: u64, body: &str, headers: &[(&str, &str)]) -> Got {
    let token = format!("Bearer {}", sim.netbox.token);
    let mut all = vec![("Authorization", token.as_str())];
    all.extend(headers);
    ask(Method::PATCH, format!("{}/api/dcim/devices/{id}/", sim.netbox.url), &all, Some(body)).await
}

/// GET from the SLURM of site 1 (24.11.5) or 2 (22.05.8).
pub(crate) async fn slurm(sim: &Sim, site: usize, path: &str) -> Got {
    let face = &sim.sites[site - 1];
    let headers = [("X-SLURM-USER-NAME", face.slurm_user.as_str()), ("X-SLURM-USER-TOKEN", face.slurm_jwt.as_str())];
    ask(Method::GET, format!("{}{path}", face.slurm_url), &headers, None).await
}

/// POST to the SLURM of a site.
pub(crate) async fn post(sim: &Sim, site: usize, path: &str, body: &str) -> Got {
    let face = &sim.sites[site - 1];
    let headers = [("X-SLURM-USER-NAME", "root"), ("X-SLURM-USER-TOKEN", face.slurm_jwt.as_str())];
    ask(Method::POST, format!("{}{path}", face.slurm_url), &headers, Some(body)).await
}

/// A folder of recorded answers.
pub(crate) fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(folder)
}

/// A recorded answer; for exchanges, the body of its response.
pub(crate) fn fixture(path: &str) -> Value {
    let text = std::fs::read_to_string(fixtures(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let mut value: Value = serde_json::from_str(&text).unwrap();
    match value.pointer_mut("/response/body") {
        Some(body) => body.take(),
        None => value,
    }
}

/// Waits until `holds`, at most 30 s.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The names of the plain (undrained, unreserved, living) SLURM nodes of a site.
pub(crate) fn plain_nodes(sim: &Sim, site: &str) -> Vec<String> {
    sim.world.slurm_nodes(site).into_iter().filter(|n| n.plain()).map(|n| n.name).collect()
}
