//! Which run of an agent counts: the site's stream hands out epochs, and the newest one alone is heard.

use crate::access::Principal;
use crate::api::commands;
use crate::{Hub, Problem};
use axum::{http::StatusCode, http::Uri};
use fleet_journal::AskError;
use fleet_lifecycle::Reference;
use fleet_schemas::{Ask, BootId, ClaimEpoch, Command, CommandId, NAMESPACE, OutcomeKind, SiteId, Source, StreamId};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use uuid::Uuid;

/// The epoch of this boot; a repeat is granted the same.
pub(super) async fn claim(hub: &Hub, principal: &Principal, site: &SiteId, source: Source, boot: BootId) -> Result<u64, Problem> {
    let ask: Ask = ClaimEpoch { source, boot }.into();
    let id = CommandId(Uuid::new_v5(&NAMESPACE, format!("epoch/{site}/{source}/{boot}").as_bytes()));
    let usual = commands::command(StreamId::Site(site.clone()), &ask, principal, "an agent started", hub.journal.clock().now());
    let decided_at = match hub.journal.ask(&Command { id, ..usual }, hub.patience).await {
        Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Accepted => answer.decided.at.1,
        Ok(answer) => return Err(Problem::refused(&answer.decided.outcome)),
        Err(AskError::Pending) => return Err(again("the epoch is not decided yet; send the same again".into())),
        Err(e) => return Err(again(e.to_string())),
    };
    granted(hub.journal.reference_changes(), decided_at, hub.patience, (site, source, boot)).await
}

/// The epoch of this boot, once what was decided at `decided_at` is read. A site's stream is in the partition that the reference is made of: one that
/// has not come so far knows nothing of this boot, and says nothing against it.
async fn granted(
    mut reference: watch::Receiver<Arc<Reference>>,
    decided_at: u64,
    patience: Duration,
    (site, source, boot): (&SiteId, Source, BootId),
) -> Result<u64, Problem> {
    let Ok(Ok(reference)) = tokio::time::timeout(patience, reference.wait_for(|r| r.next > decided_at)).await else {
        return Err(again("the epoch is decided, and this hub has not read it yet; send the same again".into()));
    };
    match reference.source(site, source) {
        Some(granted) if granted.boot == Some(boot) => Ok(granted.epoch),
        _ => Err(superseded(format!("the epoch of {source} at {site} went to another boot"))),
    }
}

fn again(detail: String) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-decided", detail).header("retry-after", "1")
}

/// Refuses a run that is not the newest.
pub(super) fn counts(
    hub: &Hub,
    principal: &Principal,
    site: &SiteId,
    source: Source,
    epoch: u64,
    asked: (&'static str, &Uri),
) -> Result<(), Problem> {
    let newest = hub.journal.reference().source(site, source).map_or(0, |s| s.epoch);
    if newest == epoch {
        return Ok(());
    }
    if epoch > newest {
        // Ours is the younger memory: a journal from a backup, or a hub that has not read that far. Nothing may be dropped for it.
        let detail = format!("epoch {epoch} of {source} at {site} is not known here yet; the newest is {newest}");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "epoch-unknown", detail).header("retry-after", "5"));
    }
    let detail = format!("epoch {newest} of {source} at {site} counts, not {epoch}");
    hub.denials.record(&principal.client, "epoch", asked.0, asked.1.path(), &detail);
    Err(superseded(detail))
}

fn superseded(detail: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, "superseded", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_lifecycle::{Site, site::SourceState};
    use fleet_schemas::{Mode, SourceConfig, Timestamp};

    fn reference(next: u64, site: &SiteId, boot: BootId, epoch: u64) -> Arc<Reference> {
        let config = SourceConfig { source: Source::Slurm, interval_seconds: 60, mode: Mode::Observe };
        let (fault, problem) = (None, String::new());
        let state =
            SourceState { config, fresh: true, changed_at: Timestamp(0), last_look_at: None, fault, problem, epoch, boot: Some(boot) };
        let mut known = Site::new(site.clone());
        known.sources.insert(Source::Slurm, state);
        Arc::new(Reference { next, sites: [(site.clone(), Arc::new(known))].into(), ..Reference::default() })
    }

    /// `superseded` stops an agent for good; a hub that is behind must not say it.
    #[tokio::test]
    async fn another_boot_counts_against_this_one_only_once_it_is_read() {
        let site: SiteId = "s1".parse().unwrap();
        let (ours, other) = (BootId(Uuid::from_u128(1)), BootId(Uuid::from_u128(2)));
        let (sender, receiver) = watch::channel(reference(5, &site, other, 1));
        let ask = || granted(receiver.clone(), 5, Duration::from_millis(1), (&site, Source::Slurm, ours));
        // Decided at 5, read up to 4.
        assert_eq!(ask().await.unwrap_err().status(), StatusCode::SERVICE_UNAVAILABLE);
        sender.send_replace(reference(6, &site, ours, 2));
        assert_eq!(ask().await.unwrap(), 2);
        sender.send_replace(reference(7, &site, other, 3));
        assert_eq!(ask().await.unwrap_err().status(), StatusCode::CONFLICT);
    }
}
