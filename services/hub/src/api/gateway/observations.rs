//! POST `/sites/{site}/observations:batch`: what an agent saw, in the log's own form.

use super::{About, admit, bounded};
use crate::access::{Granted, ObservationCreate};
use crate::api::{body::Whole, named::Named, query};
use crate::{Hub, Problem};
use axum::{Json, extract::State, http::Uri};
use fleet_schemas::wire::{BatchAnswer, ItemResult, ObservationItem, ObservationsBatch};
use fleet_schemas::{Fact, Observation, Source, StreamId};
use std::sync::Arc;

pub(crate) async fn batch(
    granted: Granted<ObservationCreate>,
    State(hub): State<Arc<Hub>>,
    Named(site): Named,
    uri: Uri,
    Whole(bytes): Whole,
) -> Result<Json<BatchAnswer>, Problem> {
    query::params(&uri, &[])?;
    let batch: ObservationsBatch = query::body(&bytes)?;
    let admitted = admit(&hub, &granted.principal, &site, &batch.run, batch.items.len(), ("POST", &uri)).await?;
    let (mut observations, mut answer) = (Vec::new(), BatchAnswer::default());
    for item in batch.items {
        answer.results.push(match observation(&admitted, item) {
            Ok(observation) => {
                observations.push(observation);
                ItemResult::stored()
            }
            Err(refused) => refused,
        });
    }
    admitted.store(&observations, answer).await.map(Json)
}

fn observation(admitted: &super::Admitted<'_>, item: ObservationItem) -> Result<Observation, ItemResult> {
    bounded("native_id", &item.native_id, 200)?;
    let payload = item.fact.payload().map_err(|e| ItemResult::refused("invalid", e))?;
    let fact = Fact::decode(&payload).map_err(|e| ItemResult::refused("undecodable", e.to_string()))?;
    let here = match (&item.stream, &fact) {
        (StreamId::Site(site), Fact::SweepCompleted(f)) => *site == admitted.site && f.source == admitted.source,
        (StreamId::Site(site), Fact::LookFailed(f)) => *site == admitted.site && f.source == admitted.source,
        (StreamId::Device(_), Fact::NetboxDeviceSeen(f)) => admitted.source == Source::Netbox && f.inventory.site == admitted.site,
        (StreamId::Device(_), Fact::NetboxDeviceGone(_)) => admitted.source == Source::Netbox,
        (StreamId::Device(_), Fact::SlurmNodeSeen(_) | Fact::SchedulerSeen(_) | Fact::ConditionsSeen(_)) => {
            admitted.source == Source::Slurm
        }
        (StreamId::Unclaimed { site, source, native_id }, Fact::UnclaimedSeen(_)) => {
            (site, *source) == (&admitted.site, admitted.source) && **native_id == *item.native_id
        }
        (
            StreamId::Site(_)
            | StreamId::Device(_)
            | StreamId::BootstrapConfig(..)
            | StreamId::Exclusive { .. }
            | StreamId::Unclaimed { .. },
            _,
        ) => false,
    };
    if !here {
        let detail = format!("{} about {} is not for {} at {} to say", fact.name(), item.stream, admitted.source, admitted.site);
        return Err(ItemResult::refused("not-yours", detail));
    }
    if let Some(other) = netbox_of(&fact).filter(|named| own_netbox(admitted) != Some(*named)) {
        let detail = format!(
            "{} about a record of NetBox `{}` is not for {} to say: the roster's `instance` names its own",
            fact.name(),
            other.chars().take(80).collect::<String>(),
            admitted.principal.client
        );
        return Err(ItemResult::refused("not-yours", detail));
    }
    let seq = admitted.seq(Some(&item.source_seq))?;
    let about = About { stream: item.stream, native_id: item.native_id, observed_at: Some(item.observed_at), seq };
    Ok(admitted.observation(about, &fact, Some(item.id)))
}

/// The NetBox that a fact is about, where it is about one's record.
fn netbox_of(fact: &Fact) -> Option<&str> {
    match fact {
        Fact::NetboxDeviceSeen(f) => Some(&f.inventory.instance),
        Fact::NetboxDeviceGone(f) => Some(&f.instance),
        Fact::SlurmNodeSeen(_)
        | Fact::SchedulerSeen(_)
        | Fact::ConditionsSeen(_)
        | Fact::SweepCompleted(_)
        | Fact::LookFailed(_)
        | Fact::UnclaimedSeen(_) => None,
    }
}

/// The NetBox that the sender looks at.
fn own_netbox<'a>(admitted: &super::Admitted<'a>) -> Option<&'a str> {
    admitted.hub.clients.get(&admitted.principal.client)?.instance.as_deref()
}
