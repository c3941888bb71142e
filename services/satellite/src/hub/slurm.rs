//! What a SLURM agent saw, over the two routes and with the two scopes that its contract has: section `scheduler` by PATCH, conditions
//! and the end of a sweep by POST. The section goes first: conditions are judged with it.

use super::client::{Client, refused, run_of};
use crate::SendError;
use fleet_schemas::wire::{
    BatchAnswer, ConditionItem, ConditionsBatch, DeviceItem, DevicesBatch, MOST_BYTES, MOST_ITEMS, Run, SchedulerPatch, Sweep,
    UnclaimedItem,
};
use fleet_schemas::{Fact, LookFailed, Observation, SiteId, SlurmNodeSeen, StreamId, SweepCompleted, UnclaimedSeen};
use reqwest::Method;

/// Bytes of an item that are counted beside its texts.
const ITEM_BYTES: usize = 400;

pub(super) fn conditions_path(site: &SiteId) -> String {
    format!("/api/v1/sites/{site}/conditions:batch")
}

/// The first batch of a run: it asks for the epoch.
pub(super) fn first(run: Run) -> ConditionsBatch {
    ConditionsBatch { run, ..ConditionsBatch::default() }
}

/// Hands over observations of one run, in order.
pub(super) async fn send(hub: &Client, observations: &[Observation]) -> Result<(), SendError> {
    let Some(first) = observations.first() else { return Ok(()) };
    let mut parcel =
        Parcel { hub, site: &first.site, run: run_of(first), devices: vec![], conditions: vec![], unclaimed: vec![], bytes: 0 };
    for observation in observations {
        match Fact::decode(&observation.fact) {
            Ok(Fact::SlurmNodeSeen(seen)) => parcel.node(observation, seen).await?,
            Ok(Fact::UnclaimedSeen(seen)) => parcel.nobodys(observation, seen).await?,
            Ok(Fact::SweepCompleted(ended)) => parcel.flush(Some(completed(observation, &ended))).await?,
            Ok(Fact::LookFailed(failed)) => parcel.flush(Some(failure(observation, failed))).await?,
            // Nothing else is put by an agent of SLURM; an older build's record would be said anew by the next look.
            other => tracing::error!(fact = observation.fact.r#type, ?other, "no agent of SLURM says this; it is left out"),
        }
    }
    parcel.flush(None).await
}

fn completed(o: &Observation, ended: &SweepCompleted) -> Sweep {
    Sweep {
        source: ended.source.to_string(),
        complete: true,
        count: ended.count,
        interval_seconds: Some(ended.interval_seconds),
        fault: None,
        message: String::new(),
        observed_at: Some(o.observed_at),
        source_seq: Some(o.source_seq.clone()),
    }
}

fn failure(o: &Observation, failed: LookFailed) -> Sweep {
    Sweep {
        source: failed.source.to_string(),
        complete: false,
        count: 0,
        interval_seconds: Some(failed.interval_seconds),
        fault: Some(failed.fault),
        message: failed.message,
        observed_at: Some(o.observed_at),
        source_seq: Some(o.source_seq.clone()),
    }
}

/// What goes together: at most 500 items and a megabyte.
struct Parcel<'a> {
    hub: &'a Client,
    site: &'a SiteId,
    run: Run,
    devices: Vec<DeviceItem>,
    conditions: Vec<ConditionItem>,
    unclaimed: Vec<UnclaimedItem>,
    bytes: usize,
}

impl Parcel<'_> {
    async fn node(&mut self, o: &Observation, seen: SlurmNodeSeen) -> Result<(), SendError> {
        let StreamId::Device(device) = &o.stream else { return Ok(()) };
        let texts = seen.section.as_ref().map_or(0, |s| s.reason.as_ref().map_or(0, String::len) + s.gres.as_ref().map_or(0, String::len));
        let size = texts + seen.conditions.iter().map(|c| c.message.len() + ITEM_BYTES).sum::<usize>() + ITEM_BYTES;
        let full = self.conditions.len() + self.unclaimed.len() + seen.conditions.len() > MOST_ITEMS || self.bytes + size > MOST_BYTES / 2;
        if full {
            self.flush(None).await?;
        }
        self.bytes += size;
        for report in seen.conditions {
            self.conditions.push(ConditionItem {
                device: device.to_string(),
                native_id: Some(seen.slurm_node.clone()),
                r#type: report.r#type,
                subject: report.subject,
                status: report.status,
                reason: report.reason,
                message: report.message,
                observed_at: Some(o.observed_at),
                source_seq: Some(o.source_seq.clone()),
            });
        }
        self.devices.push(DeviceItem {
            device: device.to_string(),
            slurm_node: seen.slurm_node,
            scheduler: seen.section.as_ref().map(SchedulerPatch::of),
            observed_at: Some(o.observed_at),
            source_seq: Some(o.source_seq.clone()),
        });
        Ok(())
    }

    async fn nobodys(&mut self, o: &Observation, seen: UnclaimedSeen) -> Result<(), SendError> {
        let size = o.native_id.len() + seen.detail.len() + ITEM_BYTES;
        if self.conditions.len() + self.unclaimed.len() >= MOST_ITEMS || self.bytes + size > MOST_BYTES / 2 {
            self.flush(None).await?;
        }
        self.bytes += size;
        self.unclaimed.push(UnclaimedItem {
            native_id: o.native_id.clone(),
            present: seen.present,
            detail: seen.detail,
            observed_at: Some(o.observed_at),
            source_seq: Some(o.source_seq.clone()),
        });
        Ok(())
    }

    async fn flush(&mut self, sweep: Option<Sweep>) -> Result<(), SendError> {
        let source = fleet_schemas::Source::Slurm;
        if !self.devices.is_empty() {
            let body = DevicesBatch { run: self.run.clone(), devices: std::mem::take(&mut self.devices) };
            let path = format!("/api/v1/sites/{}/devices:batch", self.site);
            let answer: BatchAnswer = self.hub.ask(Method::PATCH, &path, Some(&body)).await?;
            refused(&answer.results, self.site, source);
        }
        if !self.conditions.is_empty() || !self.unclaimed.is_empty() || sweep.is_some() {
            let (conditions, unclaimed) = (std::mem::take(&mut self.conditions), std::mem::take(&mut self.unclaimed));
            let body = ConditionsBatch { run: self.run.clone(), conditions, sweep, unclaimed };
            let answer: BatchAnswer = self.hub.ask(Method::POST, &conditions_path(self.site), Some(&body)).await?;
            refused(&answer.results, self.site, source);
            self.hub.list_is(self.site, answer.device_list.as_deref());
        }
        self.bytes = 0;
        Ok(())
    }
}
