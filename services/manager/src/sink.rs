//! The hub, as the agents of the same process see it: no wire between, the same promises.

use fleet_journal::{AskError, Journal};
use fleet_projections::Generations;
use fleet_satellite::{DeviceList, Fut, ListedDevice, SendError, Sink};
use fleet_schemas::{Actor, BootId, ClaimEpoch, Command, CommandId, MINUTE, NAMESPACE, Observation, OutcomeKind, SiteId, Source, StreamId};
use std::{sync::Arc, time::Duration};
use uuid::Uuid;

/// How long a decision is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
pub struct LocalSink {
    /// Takes observations and claims.
    pub journal: Arc<Journal>,
    /// Lists devices.
    pub generations: Arc<Generations>,
}

impl LocalSink {
    async fn claim(&self, site: SiteId, source: Source, boot: BootId) -> Result<u64, SendError> {
        let now = self.journal.clock().now();
        let ask: fleet_schemas::Ask = ClaimEpoch { source, boot }.into();
        let command = Command {
            id: CommandId(Uuid::new_v5(&NAMESPACE, format!("epoch/{site}/{source}/{boot}").as_bytes())),
            stream: StreamId::Site(site.clone()),
            ask: ask.encode(),
            actor: Actor::system("agents"),
            reason: "an agent started".into(),
            expected_version: None,
            dry_run: false,
            issued_at: now,
            not_after: now.plus(10 * MINUTE),
            trace_id: String::new(),
        };
        match self.journal.ask(&command, PATIENCE).await {
            Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Accepted => {}
            Ok(answer) => return Err(SendError::Retry(format!("{}: {}", answer.decided.outcome.code, answer.decided.outcome.seen))),
            Err(AskError::Pending) => return Err(SendError::Retry("not decided yet".into())),
            Err(e) => return Err(SendError::Retry(e.to_string())),
        }
        let mut reference = self.journal.reference_changes();
        let granted =
            tokio::time::timeout(PATIENCE, reference.wait_for(|r| r.source(&site, source).is_some_and(|s| s.boot == Some(boot)))).await;
        match granted {
            Ok(Ok(reference)) => Ok(reference.source(&site, source).map_or(0, |s| s.epoch)),
            _ => Err(SendError::Superseded(format!("the epoch of {source} at {site} went to another boot"))),
        }
    }

    async fn take(&self, batch: Vec<Observation>) -> Result<(), SendError> {
        let received_at = self.journal.clock().now();
        let reference = self.journal.reference();
        for o in &batch {
            if let Some(state) = reference.source(&o.site, o.source).filter(|s| s.epoch > o.source_seq.epoch) {
                return Err(SendError::Superseded(format!(
                    "epoch {} of {} at {} counts, not {}",
                    state.epoch, o.source, o.site, o.source_seq.epoch
                )));
            }
        }
        let stamped: Vec<_> =
            batch.into_iter().map(|o| Observation { received_at, client: format!("{}-agent-{}", o.source, o.site), ..o }).collect();
        self.journal.observe(&stamped).await.map_err(|e| SendError::Retry(e.to_string()))
    }
}

impl Sink for LocalSink {
    fn epoch(&self, site: SiteId, source: Source, boot: BootId) -> Fut<'_, Result<u64, SendError>> {
        Box::pin(self.claim(site, source, boot))
    }

    fn send(&self, batch: Vec<Observation>) -> Fut<'_, Result<(), SendError>> {
        Box::pin(self.take(batch))
    }

    fn devices(&self, site: SiteId) -> Fut<'_, Result<DeviceList, SendError>> {
        Box::pin(async move {
            let reads = self.generations.reads().borrow().clone();
            let rows = reads.device_list(site.as_str()).await.map_err(|e| SendError::Retry(e.to_string()))?;
            let devices = rows.into_iter().map(|(id, name, slurm_node)| ListedDevice { id, name, slurm_node });
            Ok(DeviceList { devices: devices.collect() })
        })
    }
}
