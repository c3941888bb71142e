//! One roster client's way to the hub.

use super::slurm;
use super::token::{NoToken, Tokens};
use crate::{Check, ClientError, Clock, DeviceList, ErrorClass, Fut, ListedDevice, SendError, Sink};
use flate2::{Compression, write::GzEncoder};
use fleet_schemas::wire::{BatchAnswer, ItemResult, ObservationItem, ObservationsBatch, Run, WireFact, list_digest};
use fleet_schemas::{BootId, LookFault, Observation, SECOND, SiteId, Source, Timestamp, safe_way};
use reqwest::{Method, StatusCode, header};
use secrecy::ExposeSecret;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{collections::BTreeMap, io::Write, path::PathBuf, sync::Mutex, time::Duration};
use tokio::sync::Notify;

/// Bodies above this are packed.
const PACKED_FROM: usize = 1024;
/// Larger answers are refused; a page of 500 devices has some 200 kB.
const MAX_ANSWER: usize = 16 << 20;
/// A device list older than this, in seconds, is none.
const MOST_LAG: f64 = 30.0;
/// The longest that a hub's Retry-After is heeded.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Where the hub is, and who we are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The hub's URL; https, or http on loopback.
    pub url: String,
    /// The client's id in the hub's roster.
    pub client: String,
    /// Its private key: P-256, PKCS#8, PEM. Made at the site; its public half stands in the roster.
    pub key_file: PathBuf,
    /// The key's id; `None` = its thumbprint.
    pub kid: Option<String>,
    /// Audience of our assertions; `None` = the issuer that the hub's metadata names.
    pub issuer: Option<String>,
    /// The CA that signed the hub's certificate, PEM, or two while it rotates; `None` = the usual ones.
    pub ca_file: Option<PathBuf>,
    /// One call, body included.
    pub deadline: Duration,
}

/// A client of the hub.
pub struct Client {
    http: reqwest::Client,
    url: String,
    tokens: Tokens,
    /// Digest of the device list of each site, as last read.
    lists: Mutex<BTreeMap<SiteId, String>>,
    relist: Notify,
}

impl Client {
    /// # Errors
    /// If the URL is none, the key or the CA cannot be read, or the way would be in the clear. Nothing is asked yet.
    pub fn new(settings: &Settings) -> Result<Self, ClientError> {
        // What is no URL for a hub may hold what is to be told nobody.
        safe_way(&settings.url).map_err(|why| ClientError::new(ErrorClass::Permanent, "hub.url", why, LookFault::NoData))?;
        let bad = |why: String| ClientError::new(ErrorClass::Permanent, format!("hub {}", settings.url), why, LookFault::NoData);
        let mut builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(settings.deadline);
        if let Some(file) = &settings.ca_file {
            let pem = std::fs::read(file).map_err(|e| bad(format!("{}: {e}", file.display())))?;
            let cas = reqwest::Certificate::from_pem_bundle(&pem).map_err(|e| bad(format!("{}: {e}", file.display())))?;
            if cas.is_empty() {
                return Err(bad(format!("{}: it holds no certificate", file.display())));
            }
            builder = builder.tls_certs_only(cas);
        }
        let http = builder.user_agent("fleet-manager-satellite").build().map_err(|e| bad(crate::http::chain(e)))?;
        let (tokens, url) = (Tokens::new(settings)?, settings.url.trim_end_matches('/').to_owned());
        Ok(Self { http, url, tokens, lists: Mutex::default(), relist: Notify::new() })
    }

    /// Whether the hub is there, knows this client, lets it speak of these sites, and has the same time. Asks what any token may ask.
    pub async fn check(&self, sites: &[String], clock: &dyn Clock) -> Vec<Check> {
        let token = match self.tokens.get(&self.http, &self.url).await {
            Ok(token) => token,
            Err(NoToken { why, .. }) => {
                let fix = "does the hub run at hub.url, with a certificate that ca_file vouches for? its roster must have this client, and the public half of this very key";
                return vec![Check::wrong("hub", why, fix)];
            }
        };
        let mut checks = vec![Check::fine("hub", format!("{}: knows this client", self.url))];
        let request = self.http.get(format!("{}/api/v1/whoami", self.url)).bearer_auth(token.expose_secret());
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(e) => return vec![Check::wrong("hub", crate::http::chain(e), "look at the hub's log")],
        };
        checks.extend(skew(&answer, clock));
        let status = answer.status();
        let body: Value = answer.json().await.unwrap_or_default();
        let Some(reach) = body["sites"].as_array().filter(|_| status.is_success()) else {
            checks.push(Check::wrong("sites", format!("GET /whoami: {status}, and no answer that we know"), "look at the hub's log"));
            return checks;
        };
        let reach: Vec<&str> = reach.iter().filter_map(Value::as_str).collect();
        checks.extend(sites.iter().map(|site| match reach.iter().any(|r| r == site || *r == "*") {
            true => Check::fine("site", format!("{site}: this client speaks of it")),
            false => Check::wrong(
                "site",
                format!("{site} is not this client's; its sites: {}", reach.join(", ")),
                "name the site in the hub's roster",
            ),
        }));
        checks
    }

    /// A request with a JSON body or none, answered 2xx; what else comes is said as what it means for a lane.
    pub(super) async fn ask<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&impl Serialize>) -> Result<T, SendError> {
        let retry = |why: String| SendError::Retry(format!("{method} {path}: {why}"));
        let token = self.tokens.get(&self.http, &self.url).await.map_err(|no| match no.after {
            Some(after) => SendError::Later(format!("{method} {path}: {}", no.why), after),
            None => retry(no.why),
        })?;
        let mut request = self.http.request(method.clone(), format!("{}{path}", self.url)).bearer_auth(token.expose_secret());
        if let Some(body) = body {
            let json = serde_json::to_vec(body).map_err(|e| retry(e.to_string()))?;
            request = request.header(header::CONTENT_TYPE, "application/json");
            request = match pack(&json) {
                Some(packed) => request.header(header::CONTENT_ENCODING, "gzip").body(packed),
                None => request.body(json),
            };
        }
        let mut response = request.send().await.map_err(|e| retry(crate::http::chain(e)))?;
        let (status, after) = (response.status(), retry_after(&response));
        let mut bytes = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|e| retry(crate::http::chain(e)))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() > MAX_ANSWER {
                return Err(retry(format!("{status} and more than {MAX_ANSWER} bytes")));
            }
        }
        if status.is_success() {
            return serde_json::from_slice(&bytes).map_err(|e| retry(format!("{status} and no answer that we know: {e}")));
        }
        let problem: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let words = format!("{status} {}: {}", problem["code"].as_str().unwrap_or("?"), problem["detail"].as_str().unwrap_or("?"));
        if status == StatusCode::PAYLOAD_TOO_LARGE {
            return Err(SendError::TooLarge(words));
        }
        if status == StatusCode::CONFLICT && problem["code"] == "superseded" {
            return Err(SendError::Superseded(words));
        }
        if status == StatusCode::UNAUTHORIZED {
            self.tokens.forget().await;
        }
        if let Some(wait) = after.filter(|_| matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)) {
            return Err(SendError::Later(format!("{method} {path}: {words}"), wait));
        }
        Err(retry(words))
    }

    async fn claim(&self, site: SiteId, source: Source, boot: BootId) -> Result<u64, SendError> {
        let run = Run { boot: Some(boot), ..Run::default() };
        let answer: BatchAnswer = match source {
            Source::Slurm => self.ask(Method::POST, &slurm::conditions_path(&site), Some(&slurm::first(run))).await?,
            Source::Netbox => self.ask(Method::POST, &observations_path(&site), Some(&ObservationsBatch { run, items: vec![] })).await?,
        };
        answer.epoch.ok_or_else(|| SendError::Retry("the hub granted no epoch".into()))
    }

    async fn hand_over(&self, batch: Vec<Observation>) -> Result<(), SendError> {
        for run in batch.chunk_by(|a, b| a.source_seq.epoch == b.source_seq.epoch && a.site == b.site) {
            match run.first().map(|o| o.source) {
                Some(Source::Slurm) => slurm::send(self, run).await?,
                Some(Source::Netbox) => self.observations(run).await?,
                None => {}
            }
        }
        Ok(())
    }

    async fn observations(&self, run: &[Observation]) -> Result<(), SendError> {
        let Some(first) = run.first() else { return Ok(()) };
        let items: Vec<_> = run.iter().map(item).collect();
        let batch = ObservationsBatch { run: run_of(first), items };
        let answer: BatchAnswer = self.ask(Method::POST, &observations_path(&first.site), Some(&batch)).await?;
        refused(&answer.results, &first.site, first.source);
        Ok(())
    }

    /// The hub said what its device list is now.
    pub(super) fn list_is(&self, site: &SiteId, digest: Option<&str>) {
        let lists = self.lists.lock().unwrap_or_else(|e| e.into_inner());
        if let (Some(known), Some(digest)) = (lists.get(site), digest)
            && known != digest
        {
            self.relist.notify_one();
        }
    }

    async fn list(&self, site: SiteId) -> Result<DeviceList, SendError> {
        let mut devices = Vec::new();
        let mut cursor = String::new();
        loop {
            let filter = format!("site%20%3D%20{site}");
            let path = format!("/api/v1/devices?filter={filter}&limit=500&fields=id,name,slurm_node{cursor}");
            let page: Value = self.ask(Method::GET, &path, None::<&()>).await?;
            // A read model that is being made anew knows few devices, or none: that is no list.
            if page["meta"]["lag_seconds"].as_f64().is_none_or(|lag| lag > MOST_LAG) {
                return Err(SendError::Retry(format!("the device list of {site}: the hub's read model is behind")));
            }
            let items = page["items"].as_array().cloned().unwrap_or_default();
            for item in items {
                let listed: ListedDevice =
                    serde_json::from_value(item).map_err(|e| SendError::Retry(format!("the device list of {site}: {e}")))?;
                devices.push(listed);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let digest = list_digest(devices.iter().map(|d| (d.id, d.slurm_node.as_deref())));
        self.lists.lock().unwrap_or_else(|e| e.into_inner()).insert(site, digest);
        Ok(DeviceList { devices })
    }
}

impl Sink for Client {
    fn epoch(&self, site: SiteId, source: Source, boot: BootId) -> Fut<'_, Result<u64, SendError>> {
        Box::pin(self.claim(site, source, boot))
    }

    fn send(&self, batch: Vec<Observation>) -> Fut<'_, Result<(), SendError>> {
        Box::pin(self.hand_over(batch))
    }

    fn devices(&self, site: SiteId) -> Fut<'_, Result<DeviceList, SendError>> {
        Box::pin(self.list(site))
    }

    fn relist(&self) -> Fut<'_, ()> {
        Box::pin(self.relist.notified())
    }
}

/// How far the hub's clock is from ours, by the second that its answers carry.
fn skew(answer: &reqwest::Response, clock: &dyn Clock) -> Option<Check> {
    let date = answer.headers().get(header::DATE)?.to_str().ok()?;
    let theirs = httpdate::parse_http_date(date).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let apart = clock.now().0 / SECOND - i64::try_from(theirs.as_secs()).ok()?;
    Some(match apart.abs() {
        ..=2 => Check::fine("clock", "within 2 s of the hub's"),
        _ => Check::wrong("clock", format!("{apart} s from the hub's"), "let both follow the same time servers"),
    })
}

fn observations_path(site: &SiteId) -> String {
    format!("/api/v1/sites/{site}/observations:batch")
}

/// The run that a batch belongs to.
pub(super) fn run_of(first: &Observation) -> Run {
    Run { boot: None, epoch: Some(first.source_seq.epoch), sent_at: Some(first.sent_at).filter(|t| *t != Timestamp::default()) }
}

fn item(o: &Observation) -> ObservationItem {
    ObservationItem {
        id: o.id,
        stream: o.stream.clone(),
        native_id: o.native_id.clone(),
        observed_at: o.observed_at,
        source_seq: o.source_seq.clone(),
        fact: WireFact::of(&o.fact),
    }
}

/// What the hub will never take is told; it is not sent again.
pub(super) fn refused(results: &[ItemResult], site: &SiteId, source: Source) {
    let refused: Vec<_> = results.iter().filter(|r| r.result == "refused").collect();
    metrics::counter!("fm_outbox_refused_total", "site" => site.to_string(), "source" => source.as_str()).increment(refused.len() as u64);
    if let Some(first) = refused.first() {
        tracing::warn!(%site, %source, refused = refused.len(), code = first.code, detail = first.detail, "the hub refused observations");
    }
}

fn pack(json: &[u8]) -> Option<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    (json.len() > PACKED_FROM).then(|| packer.write_all(json).and_then(|()| packer.finish()).ok()).flatten()
}

pub(super) fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let seconds: u64 = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}
