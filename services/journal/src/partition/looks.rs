//! When each source was last looked at: kept beside the fold by the leader of partition 0, carried over a restart by Progress.

use super::tail::Tail;
use crate::Ledger;
use fleet_lifecycle::Fleet;
use fleet_schemas::{LastLook, StreamId, Timestamp};

/// Looks are remembered from the later of the last Progress and the claim, so that a take-over never turns the fleet stale.
pub(crate) fn restore(tail: &mut Tail, claimed_at: Timestamp) {
    let looks = tail.ledger.last_looks.clone();
    for (id, stream) in &mut tail.ledger.streams {
        let StreamId::Site(site) = id else { continue };
        let sources: Vec<_> = stream.entity.site().map(|s| s.sources.keys().copied().collect()).unwrap_or_default();
        for source in sources {
            let last = looks.iter().find(|l| l.site == *site && l.source == source).map_or(claimed_at, |l| l.at.max(claimed_at));
            Fleet::looked(&mut stream.entity, source, last);
        }
    }
}

/// For a Progress.
pub(crate) fn of(ledger: &Ledger) -> Vec<LastLook> {
    let sites = ledger.streams.values().filter_map(|s| s.entity.site());
    let mut looks: Vec<_> =
        sites.flat_map(|s| s.looks.0.iter().map(|(source, at)| LastLook { site: s.id.clone(), source: *source, at: *at })).collect();
    looks.sort_by(|a, b| (&a.site, a.source).cmp(&(&b.site, b.source)));
    looks
}
