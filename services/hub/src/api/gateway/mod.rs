//! The gateway: where satellites hand over what they saw. It checks that token, site, source and epoch agree, stamps the time, appends
//! to the log, and answers item by item once the log has them. What follows from a fact is the decider's.

pub(crate) mod conditions;
mod epoch;
pub(crate) mod observations;
pub(crate) mod scheduler;
mod unclaimed;

use super::query;
use crate::access::{Principal, Routes};
use crate::openapi::op;
use crate::{Hub, Problem};
use axum::{http::StatusCode, http::Uri};
use fleet_projections::Listed;
use fleet_schemas::wire::{BatchAnswer, ItemResult, MOST_ITEMS, Run, list_digest};
use fleet_schemas::{DeviceId, Fact, Observation, ObservationId, SiteId, Source, SourceSeq, StreamId, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use uuid::Uuid;

pub(crate) fn routes() -> Routes {
    let takes = |id, summary, body: &str| op(id, summary).body(body).ok("BatchAnswer").problems(&[409, 413, 415]);
    let wait = "with the thing as it now stands, once that is decided and shown";
    Routes::default()
        .patch(
            "/devices/{id}",
            op("patchDevice", "Section `scheduler` by the site's SLURM agent; `annotations` by people, who name the version they saw")
                .body("{scheduler*:SchedulerPatch annotations*:<string?>}")
                .decides()
                .ok("PatchedDevice")
                .problems(&[415, 428]),
            scheduler::one,
        )
        .post(
            "/devices/{id}/conditions",
            op("reportCondition", wait).body("ConditionReport").ok("Condition").problems(&[409, 413, 415]),
            conditions::one,
        )
        .patch(
            "/sites/{site}/devices:batch",
            takes("patchDevices", "Section `scheduler` of many devices", "{run*:Run devices*:[DevicePatch]}"),
            scheduler::batch,
        )
        .post(
            "/sites/{site}/conditions:batch",
            takes(
                "reportConditions",
                "Conditions of many devices, and the end of a look",
                "{run*:Run conditions*:[ConditionReport] sweep*:Sweep unclaimed*:[UnclaimedItem]}",
            ),
            conditions::batch,
        )
        .post(
            "/sites/{site}/observations:batch",
            takes("handOver", "What an agent saw, in the log's own form", "{run*:Run items*:[Observation]}"),
            observations::batch,
        )
}

/// A read model that is further behind than this says nothing of which devices there are.
const MOST_LAG: Duration = Duration::from_secs(30);

/// A batch whose sender, site, source and run are in order.
struct Admitted<'a> {
    hub: &'a Hub,
    principal: &'a Principal,
    site: SiteId,
    source: Source,
    /// The epoch that counts; `None` = the sender keeps no order.
    epoch: Option<u64>,
    /// Whether this batch asked for it.
    granted: bool,
    received_at: Timestamp,
    sent_at: Timestamp,
}

/// Checks a batch of `items` for a site, asked by this method of this address. The source is the one that the roster has for the client.
async fn admit<'a>(
    hub: &'a Hub,
    principal: &'a Principal,
    site: &str,
    run: &Run,
    items: usize,
    asked: (&'static str, &Uri),
) -> Result<Admitted<'a>, Problem> {
    let (method, uri) = asked;
    let site = query::site_id(site)?;
    if !principal.reaches(&site) {
        let detail = format!("{} has no right at {site}", principal.client);
        return Err(principal.out_of_reach(hub, method, uri.path(), detail));
    }
    let reference = hub.journal.reference();
    if !reference.sites.contains_key(&site) {
        return Err(Problem::missing(format!("there is no site {site}")));
    }
    // While the read model is made anew it knows few devices, or none: what is true would be refused for good.
    if hub.reads().lag() > MOST_LAG {
        let detail = "the read model is behind; send the same again";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "projection-lagging", detail).header("retry-after", "5"));
    }
    let Some(source) = hub.clients.get(&principal.client).and_then(|c| c.source) else {
        let detail = format!("{} is known for no source: the roster's `kinds` names one", principal.client);
        return Err(principal.out_of_reach(hub, method, uri.path(), detail));
    };
    if items > MOST_ITEMS {
        let detail = format!("{items} items; a batch has at most {MOST_ITEMS}");
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-many-items", detail).with("field", "items".into()));
    }
    let (epoch, granted) = match (run.boot, run.epoch) {
        (Some(_), Some(_)) => return Err(Problem::invalid("run", "`boot` in the first batch, `epoch` in the others; not both")),
        (Some(boot), None) => (Some(epoch::claim(hub, principal, &site, source, boot).await?), true),
        (None, Some(epoch)) => {
            epoch::counts(hub, principal, &site, source, epoch, asked)?;
            (Some(epoch), false)
        }
        (None, None) => (None, false),
    };
    let received_at = hub.journal.clock().now();
    let sent_at = run.sent_at.unwrap_or(received_at);
    Ok(Admitted { hub, principal, site, source, epoch, granted, received_at, sent_at })
}

impl Admitted<'_> {
    /// An observation of this batch. `id` where the sender gave one.
    fn observation(&self, about: About, fact: &Fact, id: Option<ObservationId>) -> Observation {
        let About { stream, native_id, observed_at, seq } = about;
        let id = id.unwrap_or_else(|| match &seq {
            // The same item again is the same observation.
            seq if *seq != SourceSeq::BY_ARRIVAL => {
                let name = format!("{}/{}/{}/{}/{stream}/{}", self.site, self.source, seq.epoch, seq.counter, fact.name());
                ObservationId(Uuid::new_v5(&fleet_schemas::NAMESPACE, name.as_bytes()))
            }
            _ => ObservationId(Uuid::new_v4()),
        });
        Observation {
            id,
            stream,
            fact: fact.encode(),
            site: self.site.clone(),
            source: self.source,
            native_id,
            source_seq: seq,
            observed_at: observed_at.unwrap_or(self.sent_at),
            sent_at: self.sent_at,
            received_at: self.received_at,
            client: self.principal.client.clone(),
            trace_id: String::new(),
            reach: self.principal.sites.clone(),
        }
    }

    /// An item's place in the source's order, which must be of the batch's run.
    fn seq(&self, given: Option<&SourceSeq>) -> Result<SourceSeq, ItemResult> {
        match (given, self.epoch) {
            (None, _) => Ok(SourceSeq::BY_ARRIVAL),
            (Some(seq), Some(epoch)) if seq.epoch == epoch && seq.counter > 0 && seq.counter <= i64::MAX as u64 => Ok(seq.clone()),
            (Some(seq), Some(epoch)) => {
                Err(ItemResult::refused("wrong-epoch", format!("epoch {} counter {} in a batch of epoch {epoch}", seq.epoch, seq.counter)))
            }
            (Some(_), None) => Err(ItemResult::refused("wrong-epoch", "the batch names no epoch; an item without order has no source_seq")),
        }
    }

    /// Appends, and answers once the log has everything.
    async fn store(&self, observations: &[Observation], mut answer: BatchAnswer) -> Result<BatchAnswer, Problem> {
        if !observations.is_empty() {
            self.hub.journal.observe(observations).await.map_err(|why| {
                tracing::error!(%why, "observations could not be stored");
                let detail = "the observations may not be stored; send them again, they carry their ids";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-stored", detail).header("retry-after", "1")
            })?;
        }
        let (site, source) = (self.site.to_string(), self.source.as_str());
        for result in &answer.results {
            let labels = [("site", site.clone()), ("source", source.to_owned()), ("result", result.result.clone())];
            metrics::counter!("fm_observations_total", &labels).increment(1);
        }
        answer.epoch = self.epoch.filter(|_| self.granted);
        Ok(answer)
    }

    /// Those of the site's devices that a batch names, each by its uuid or its name.
    async fn devices<'i>(&self, named: impl Iterator<Item = &'i str>) -> Result<Devices, Problem> {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for name in named {
            match name.parse::<DeviceId>() {
                Ok(id) => _ = ids.insert(id),
                Err(_) => _ = names.insert(name),
            }
        }
        let (ids, names): (Vec<_>, Vec<_>) = (ids.into_iter().collect(), names.into_iter().collect());
        let (reads, site) = (self.hub.reads(), self.site.as_str());
        let (by_id, by_name) = tokio::try_join!(reads.devices_by_id(site, &ids), reads.devices_by_name(site, &names))?;
        let mut devices = Devices::default();
        for Listed { id, slurm_node, .. } in by_id {
            devices.by_id.insert(id, slurm_node);
        }
        for Listed { id, name, slurm_node } in by_name {
            devices.by_name.entry(name).or_default().push(id);
            devices.by_id.insert(id, slurm_node);
        }
        Ok(devices)
    }

    /// What the site's list of devices is now; an agent that has another takes it anew.
    async fn list_digest(&self) -> Result<String, Problem> {
        let list = self.hub.reads().device_list(self.site.as_str()).await?;
        Ok(list_digest(list.iter().map(|d| (d.id, d.slurm_node.as_deref()))))
    }
}

/// What an observation is about.
struct About {
    stream: StreamId,
    native_id: String,
    observed_at: Option<Timestamp>,
    seq: SourceSeq,
}

/// Devices of one site.
#[derive(Default)]
struct Devices {
    by_name: HashMap<String, Vec<DeviceId>>,
    by_id: HashMap<DeviceId, Option<String>>,
}

impl Devices {
    /// One alone.
    fn of(id: DeviceId, slurm_node: Option<String>) -> Self {
        Self { by_name: HashMap::new(), by_id: HashMap::from([(id, slurm_node)]) }
    }

    /// The device that an item names, of this site alone: another's is not told apart from none.
    fn find(&self, named: &str) -> Result<DeviceId, ItemResult> {
        if let Ok(id) = named.parse::<DeviceId>() {
            let known = self.by_id.contains_key(&id);
            return if known { Ok(id) } else { Err(ItemResult::refused("unknown-device", format!("this site has no device {id}"))) };
        }
        match self.by_name.get(named).map(Vec::as_slice) {
            Some([one]) => Ok(*one),
            Some(many) => {
                Err(ItemResult::refused("name-ambiguous", format!("{} devices are called `{named}`; name it by its id", many.len())))
            }
            None => Err(ItemResult::refused(
                "unknown-device",
                format!("this site has no device `{}`", named.chars().take(120).collect::<String>()),
            )),
        }
    }
}

/// What of an item is text: not empty where it must not be, not endless.
fn bounded(field: &str, text: &str, most: usize) -> Result<(), ItemResult> {
    let length = text.chars().count();
    if length > most { Err(ItemResult::refused("invalid", format!("{field}: {length} characters; at most {most}"))) } else { Ok(()) }
}
