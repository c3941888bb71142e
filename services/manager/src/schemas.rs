//! `schemas check|register`: the public records' schemas, and a registry that speaks Confluent's protocol. Records are registered in the
//! deploy step and never on the fly: a producer that may register can break every reader.

use crate::configuration::hub::Configuration;
use crate::{Code, FAILURE, SUCCESS};
use anyhow::{Context, anyhow, bail};
use fleet_hub::{Contract, Frame, contracts};
use fleet_log::Fut;
use fleet_schemas::{safe_way, topics};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};
use tokio::sync::watch;

/// A whole answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// Between two questions to a registry that does not answer.
const AGAIN: Duration = Duration::from_secs(10);
/// Every version reads every other, not only its neighbour.
const RULE: &str = "FULL_TRANSITIVE";

/// A registry.
struct Registry {
    url: String,
    client: reqwest::Client,
}

/// It says nothing of a schema, and may later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Away(String);

/// What a registry says of a schema.
enum Said {
    /// Its subject has no schema yet.
    New,
    /// It may follow those that are there.
    Fits,
    /// It may not; the registry's words.
    Breaks(String),
}

/// `<topic>-<full name>`: a topic may hold several records, each with versions of its own.
fn subject(prefix: &str, contract: &Contract) -> anyhow::Result<String> {
    let schema: Value = serde_json::from_str(&contract.schema)?;
    let namespace = schema["namespace"].as_str().context("a schema without a namespace")?;
    Ok(format!("{prefix}{}-{namespace}.{}", topics::name(contract.topic), contract.name))
}

impl Registry {
    fn new(url: &str) -> anyhow::Result<Self> {
        safe_way(url).map_err(|e| anyhow!("registry: {e}"))?;
        let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(DEADLINE).build()?;
        Ok(Self { url: url.trim_end_matches('/').into(), client })
    }

    /// The answer's body; none where there is no such thing.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> anyhow::Result<Option<Value>> {
        let request = self.client.request(method.clone(), format!("{}{path}", self.url));
        let request = request.header("accept", "application/vnd.schemaregistry.v1+json, application/json");
        let request = if let Some(body) = body { request.json(&body) } else { request };
        let away = |why: &dyn std::fmt::Display| Away(format!("the registry at {} does not answer: {why}", self.url));
        let answer = request.send().await.map_err(|e| away(&e))?;
        let status = answer.status();
        if status.is_server_error() || [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status) {
            return Err(away(&status).into());
        }
        let text = answer.text().await.map_err(|e| away(&e))?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            s if s.is_success() => Ok(Some(serde_json::from_str(&text).with_context(|| format!("{method} {path}: no JSON"))?)),
            s => bail!("{method} {path}: {s}: {}", text.chars().take(500).collect::<String>()),
        }
    }

    async fn check(&self, subject: &str, schema: &str) -> anyhow::Result<Said> {
        let body = json!({"schema": schema, "schemaType": "AVRO"});
        let path = format!("/compatibility/subjects/{subject}/versions?verbose=true");
        let Some(answer) = self.ask(Method::POST, &path, Some(body)).await? else { return Ok(Said::New) };
        if answer["is_compatible"] == true { Ok(Said::Fits) } else { Ok(Said::Breaks(answer["messages"].to_string())) }
    }

    /// From now on every version reads every other.
    async fn rule(&self, subject: &str) -> anyhow::Result<()> {
        self.ask(Method::PUT, &format!("/config/{subject}"), Some(json!({"compatibility": RULE}))).await.map(|_| ())
    }

    async fn register(&self, subject: &str, schema: &str) -> anyhow::Result<i64> {
        let body = json!({"schema": schema, "schemaType": "AVRO"});
        let answer = self.ask(Method::POST, &format!("/subjects/{subject}/versions"), Some(body)).await?;
        answer.and_then(|a| a["id"].as_i64()).with_context(|| format!("{subject}: the registry gave no id"))
    }

    /// The id of a schema that is registered.
    async fn id(&self, subject: &str, schema: &str) -> anyhow::Result<Option<i32>> {
        let body = json!({"schema": schema, "schemaType": "AVRO"});
        let answer = self.ask(Method::POST, &format!("/subjects/{subject}"), Some(body)).await?;
        Ok(answer.and_then(|a| i32::try_from(a["id"].as_i64()?).ok()))
    }
}

/// Where the registry is, and what stands before the topics' names.
fn place(config: &Path) -> anyhow::Result<Option<(Registry, String)>> {
    let configuration = Configuration::read(config)?;
    let log = configuration.log.context("this configuration has no [log]: the public topics are on Kafka alone")?;
    let registry = log.registry.as_deref().map(Registry::new).transpose()?;
    Ok(registry.map(|r| (r, log.prefix)))
}

/// `check`: whether today's schemas are the published ones, and whether the registry would take them.
pub async fn check(config: Option<&Path>) -> anyhow::Result<Code> {
    let mut sound = true;
    let registry = config.map(place).transpose()?.flatten();
    for contract in contracts() {
        let published = fleet_schemas::registry::all().any(|p| p.name == contract.name && p.text == contract.schema);
        let mut line = format!("{} in {}: {}", contract.name, contract.topic, if published { "as published" } else { "NOT PUBLISHED" });
        sound &= published;
        if let Some((registry, prefix)) = &registry {
            match registry.check(&subject(prefix, &contract)?, &contract.schema).await? {
                Said::New => line.push_str("; new to the registry"),
                Said::Fits => line.push_str("; the registry takes it"),
                Said::Breaks(why) => {
                    sound = false;
                    line.push_str(&format!("; BREAKS {RULE}: {why}"));
                }
            }
        }
        crate::print::lines(&line);
    }
    let end = match (&registry, config) {
        (Some((registry, _)), _) => format!("checked against the registry at {}", registry.url),
        (None, Some(_)) => "this configuration has no log.registry: values are framed as Avro single objects".into(),
        (None, None) => "--config FILE checks against the registry that it names".into(),
    };
    crate::print::lines(&end);
    Ok(if sound { SUCCESS } else { FAILURE })
}

/// `register`: every schema, under its subject. One that breaks the rule is refused before any is registered.
pub async fn register(config: &Path) -> anyhow::Result<()> {
    let (registry, prefix) = place(config)?.context("log.registry says where the registry is")?;
    let mut subjects = Vec::new();
    for contract in contracts() {
        let subject = subject(&prefix, &contract)?;
        registry.rule(&subject).await?;
        if let Said::Breaks(why) = registry.check(&subject, &contract.schema).await? {
            bail!("{subject} breaks {RULE}, and nothing was registered: {why}");
        }
        subjects.push((subject, contract.schema));
    }
    for (subject, schema) in subjects {
        crate::print::lines(&format!("{subject}: id {}", registry.register(&subject, &schema).await?));
    }
    Ok(())
}

/// Asks on, for as long as somebody wants to know. What a start would be refused for ends it with an error.
pub type Asking = Fut<'static, anyhow::Result<()>>;

/// How a hub frames what it publishes: with the ids of the registry, where one is named. One that does not answer is to be asked on:
/// meanwhile nothing is published, and a hub does all else.
pub async fn framing(registry: Option<&str>, prefix: &str) -> anyhow::Result<(watch::Receiver<Option<Frame>>, Option<Asking>)> {
    let known = |frame| Ok((watch::channel(Some(frame)).1, None));
    let Some(url) = registry else { return known(Frame::SingleObject) };
    let away = match frame(url, prefix).await {
        Ok(frame) => return known(frame),
        Err(error) if error.is::<Away>() => error,
        Err(error) => return Err(error),
    };
    tracing::warn!(%away, "nothing is published until the registry answers");
    let ((tell, told), url, prefix) = (watch::channel(None), url.to_owned(), prefix.to_owned());
    let asking = async move {
        loop {
            tokio::select! {
                () = tell.closed() => return Ok(()),
                () = tokio::time::sleep(AGAIN) => {}
            }
            match frame(&url, &prefix).await {
                Ok(frame) => {
                    tracing::info!(url, "the registry answers: publishing begins");
                    tell.send_replace(Some(frame));
                    // A loop that ends ends its process.
                    tell.closed().await;
                    return Ok(());
                }
                Err(error) if error.is::<Away>() => tracing::warn!(%error, "nothing is published until the registry answers"),
                Err(error) => return Err(error),
            }
        }
    };
    Ok((told, Some(Box::pin(asking))))
}

async fn frame(url: &str, prefix: &str) -> anyhow::Result<Frame> {
    let (registry, mut ids) = (Registry::new(url)?, BTreeMap::new());
    for contract in contracts() {
        let subject = subject(prefix, &contract)?;
        let id = registry.id(&subject, &contract.schema).await?;
        let id = id.with_context(|| format!("the registry does not know {subject} as it is today: `fleet-manager schemas register`"))?;
        ids.insert(contract.name.to_owned(), id);
    }
    Ok(Frame::Registry(Arc::new(ids)))
}
