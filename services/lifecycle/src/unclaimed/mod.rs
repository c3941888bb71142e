//! A thing that a source shows and no device claims. [`Unclaimed`] is its state: whether it is open, and what it looks like.

use crate::{Context, Observed, Sighting};
use fleet_schemas::{Fact, SiteId, Source, SourceSeq, Timestamp, UnclaimedClosed, UnclaimedEvent, UnclaimedOpened};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The state of such a thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unclaimed {
    /// Where it was seen.
    pub site: SiteId,
    /// What shows it.
    pub source: Source,
    /// Its own id there.
    pub native_id: Arc<str>,
    /// Since when it is there and unclaimed; absent = it is claimed, or gone.
    pub since: Option<Timestamp>,
    /// What it looks like, as last told.
    pub detail: String,
    /// Highest recorded place in its source's order.
    pub seq: SourceSeq,
}

impl Unclaimed {
    /// A thing that nothing is known of.
    pub fn new(site: SiteId, source: Source, native_id: Arc<str>) -> Self {
        Self { site, source, native_id, since: None, detail: String::new(), seq: SourceSeq::BY_ARRIVAL }
    }
}

/// Draws what follows from a look. Late and misaddressed ones, and those beyond their sender's reach, are kept without effect.
pub fn observe(thing: &Unclaimed, sighting: &Sighting, ctx: &Context<'_>) -> Observed<UnclaimedEvent> {
    if !ctx.actor.reaches(&sighting.site) {
        return Observed::set_aside("out-of-reach");
    }
    if (&sighting.site, sighting.source) != (&thing.site, thing.source) || sighting.native_id != *thing.native_id {
        return Observed::set_aside("identity-mismatch");
    }
    if sighting.seq != SourceSeq::BY_ARRIVAL && sighting.seq < thing.seq {
        return Observed::set_aside("late");
    }
    let Fact::UnclaimedSeen(seen) = &sighting.fact else { return Observed::set_aside("wrong-stream") };
    let source_seq = sighting.seq.clone();
    Observed::events(match (seen.present, thing.since) {
        (true, Some(_)) if seen.detail == thing.detail => vec![],
        (true, _) => vec![UnclaimedOpened { detail: seen.detail.clone(), source_seq }.into()],
        (false, Some(_)) => vec![UnclaimedClosed { source_seq }.into()],
        (false, None) => vec![],
    })
}

/// Folds an event in.
pub fn evolve(thing: &mut Unclaimed, event: &UnclaimedEvent, at: Timestamp) {
    let seq = match event {
        UnclaimedEvent::UnclaimedOpened(e) => {
            thing.since.get_or_insert(at);
            thing.detail = e.detail.clone();
            &e.source_seq
        }
        UnclaimedEvent::UnclaimedClosed(e) => {
            thing.since = None;
            thing.detail.clear();
            &e.source_seq
        }
    };
    if thing.seq < *seq {
        thing.seq = seq.clone();
    }
}
