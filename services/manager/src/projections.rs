//! `projections list|rebuild`: through the process that has the folder, else by opening it.

use crate::args::Of;
use crate::configuration::hub::Configuration;
use crate::folder::Folder;
use crate::{Code, INTEGRITY, SUCCESS};
use crate::{embedded, ground};
use anyhow::{Context, bail};
use fleet_hub::access::Issuer;
use fleet_journal::Topics;
use fleet_log::{Error, EventLog, sqlite::SqliteLog};
use fleet_projections::Store;
use serde_json::Value;
use std::{path::Path, path::PathBuf, sync::Arc, time::Duration};

/// A rebuild beside live reads may take long.
const LIMIT: Duration = Duration::from_secs(3600);

enum Holder {
    /// Nobody: the folder is ours now.
    Nobody(Store, Arc<dyn EventLog>, Topics),
    /// A running process, and the issuer whose tokens it takes, where that is not the folder's own.
    Process(Folder, Option<PathBuf>),
}

async fn holder(of: &Of) -> anyhow::Result<Holder> {
    let configuration = of.config.as_deref().map(Configuration::read).transpose()?;
    if let Some(configuration) = configuration.as_ref().filter(|c| c.log.is_some()) {
        let folder = Folder::open(&configuration.data)?;
        return Ok(match folder.lock()? {
            false => Holder::Process(folder, configuration.issuer_keys.first().cloned()),
            true => {
                let (log, topics) = ground::read_only(None, of.config.as_deref()).await?;
                Holder::Nobody(ground::store(configuration, &folder)?, log, topics)
            }
        });
    }
    let key = configuration.as_ref().and_then(|c| c.issuer_keys.first().cloned());
    let store = match &configuration {
        Some(c) if c.postgres.is_some() => Some(ground::store(c, &Folder::open(&c.data)?)?),
        _ => None,
    };
    let data = configuration.map(|c| c.data).or(of.data.clone()).context("--data FOLDER or --config FILE says whose")?;
    embedded_holder(&data, key, store)
}

fn embedded_holder(data: &Path, key: Option<PathBuf>, store: Option<Store>) -> anyhow::Result<Holder> {
    if !data.join("log").exists() {
        bail!("{}: there is no log here", data.display());
    }
    let folder = Folder::open(data)?;
    match SqliteLog::open(&folder.log()) {
        Ok(log) => Ok(Holder::Nobody(store.unwrap_or_else(|| Store::Folder(folder.read())), Arc::new(log), Topics::embedded())),
        Err(Error::InUse { .. }) => Ok(Holder::Process(folder, key)),
        Err(e) => Err(e.into()),
    }
}

/// Asks the process that has the folder, with a token of the folder's own issuer.
async fn call(folder: &Folder, key: Option<&Path>, method: reqwest::Method, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
    let crate::folder::Running { url, issuer } = folder.running()?;
    let issuer = match key {
        Some(key) => {
            Issuer::new(&issuer, &[std::fs::read_to_string(key).with_context(|| key.display().to_string())?]).map_err(anyhow::Error::msg)?
        }
        None => folder.issuer(&issuer)?,
    };
    let token = issuer.issue("local-admin", "admin", &["*".into()]).map_err(anyhow::Error::msg)?;
    let client = reqwest::Client::builder().timeout(LIMIT).no_proxy().build()?;
    let request = client.request(method, format!("{url}/api/v1{path}")).bearer_auth(token);
    let request = if let Some(body) = body { request.json(&body) } else { request };
    let response = request.send().await.with_context(|| format!("{url} has the folder, but does not answer"))?;
    let status = response.status();
    let answer: Value = response.json().await.context("its answer is no JSON")?;
    if status.is_success() { Ok(answer) } else { bail!("{url}: {status}: {}", answer["detail"].as_str().unwrap_or_default()) }
}

/// `list`.
pub async fn list(of: &Of) -> anyhow::Result<()> {
    match holder(of).await? {
        Holder::Process(folder, key) => {
            let answer = call(&folder, key.as_deref(), reqwest::Method::GET, "/admin/projections", None).await?;
            crate::print::lines(&format!("{answer:#}"));
        }
        Holder::Nobody(store, log, topics) => {
            for generation in embedded::open_generations(store, log, &topics).await?.list().await? {
                let does = if generation.active { "serves" } else { "stands beside" };
                crate::print::lines(&format!("generation {} {does}; nobody feeds it now", generation.number));
                for (partition, next) in generation.next {
                    crate::print::lines(&format!("  partition {partition}: read up to offset {next}"));
                }
            }
        }
    }
    Ok(())
}

/// `rebuild`.
pub async fn rebuild(of: &Of, flip_anyway: bool) -> anyhow::Result<Code> {
    let (differences, flipped) = match holder(of).await? {
        Holder::Process(folder, key) => {
            let body = serde_json::json!({"flip_anyway": flip_anyway});
            let a = call(&folder, key.as_deref(), reqwest::Method::POST, "/admin/projections/rebuild", Some(body)).await?;
            crate::print::lines(&format!(
                "generation {}: {} devices, {} decisions in {:.2} s",
                a["generation"],
                a["devices"],
                a["decisions"],
                a["seconds"].as_f64().unwrap_or(0.0)
            ));
            let told = a["differences"].as_array().into_iter().flatten();
            (told.map(|d| d.to_string()).collect::<Vec<_>>(), a["flipped"] == true)
        }
        Holder::Nobody(store, log, topics) => {
            let built = embedded::open_generations(store, log, &topics).await?.rebuild(flip_anyway).await?;
            crate::print::lines(&format!(
                "generation {}: {} devices, {} decisions in {:.2} s",
                built.generation,
                built.devices,
                built.decisions,
                built.took.as_secs_f64()
            ));
            (built.differences.iter().map(|d| format!("{d:?}")).collect(), built.flipped)
        }
    };
    differences.iter().for_each(|d| crate::print::lines(&format!("differs: {d}")));
    crate::print::lines(if differences.is_empty() {
        "row for row the same as the one that served"
    } else {
        "not the same as the one that served"
    });
    crate::print::lines(if flipped { "it serves now" } else { "the one before serves on; --flip-anyway lets the new one serve" });
    Ok(if flipped { SUCCESS } else { INTEGRITY })
}
