//! Things that a source shows and no device claims, as they come with a batch of conditions.

use super::{About, Admitted, bounded};
use fleet_schemas::wire::{ItemResult, UnclaimedItem};
use fleet_schemas::{Observation, StreamId, UnclaimedSeen};

/// Takes them; each has its result.
pub(super) fn take(admitted: &Admitted<'_>, items: Vec<UnclaimedItem>, observations: &mut Vec<Observation>, results: &mut Vec<ItemResult>) {
    for item in items {
        results.push(match observation(admitted, item) {
            Ok(observation) => {
                observations.push(observation);
                ItemResult::stored()
            }
            Err(refused) => refused,
        });
    }
}

fn observation(admitted: &Admitted<'_>, item: UnclaimedItem) -> Result<Observation, ItemResult> {
    bounded("native_id", &item.native_id, 200)?;
    bounded("detail", &item.detail, 500)?;
    let (site, source) = (admitted.site.clone(), admitted.source);
    // What is no stream is no thing that can be shown.
    let stream: StreamId = format!("unclaimed/{site}/{source}/{}", item.native_id)
        .parse()
        .map_err(|_| ItemResult::refused("invalid", "native_id: 1 to 200 characters, no control characters"))?;
    let seq = admitted.seq(item.source_seq.as_ref())?;
    let about = About { stream, native_id: item.native_id, observed_at: item.observed_at, seq };
    Ok(admitted.observation(about, &UnclaimedSeen { present: item.present, detail: item.detail }.into(), None))
}
