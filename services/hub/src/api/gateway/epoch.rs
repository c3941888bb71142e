//! Which run of an agent counts: the site's stream hands out epochs, and the newest one alone is heard.

use crate::access::Principal;
use crate::api::commands;
use crate::{Hub, Problem};
use axum::{http::StatusCode, http::Uri};
use fleet_journal::AskError;
use fleet_schemas::{Ask, BootId, ClaimEpoch, Command, CommandId, NAMESPACE, OutcomeKind, SiteId, Source, StreamId};
use uuid::Uuid;

/// The epoch of this boot; a repeat is granted the same.
pub(super) async fn claim(hub: &Hub, principal: &Principal, site: &SiteId, source: Source, boot: BootId) -> Result<u64, Problem> {
    let ask: Ask = ClaimEpoch { source, boot }.into();
    let id = CommandId(Uuid::new_v5(&NAMESPACE, format!("epoch/{site}/{source}/{boot}").as_bytes()));
    let usual = commands::command(StreamId::Site(site.clone()), &ask, principal, "an agent started", hub.journal.clock().now());
    let again = |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not-decided", detail).header("retry-after", "1");
    let decided_at = match hub.journal.ask(&Command { id, ..usual }, hub.patience).await {
        Ok(answer) if answer.decided.outcome.kind == OutcomeKind::Accepted => answer.decided.at.1,
        Ok(answer) => return Err(Problem::refused(&answer.decided.outcome)),
        Err(AskError::Pending) => return Err(again("the epoch is not decided yet; send the same again".into())),
        Err(e) => return Err(again(e.to_string())),
    };
    // A site's stream is in the partition that the reference is made of. One that has not come so far knows nothing of this boot.
    let mut reference = hub.journal.reference_changes();
    let read = reference.wait_for(|r| r.next > decided_at);
    let Ok(Ok(reference)) = tokio::time::timeout(hub.patience, read).await else {
        return Err(again("the epoch is decided, and this hub has not read it yet; send the same again".into()));
    };
    match reference.source(site, source) {
        Some(granted) if granted.boot == Some(boot) => Ok(granted.epoch),
        _ => Err(superseded(format!("the epoch of {source} at {site} went to another boot"))),
    }
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
