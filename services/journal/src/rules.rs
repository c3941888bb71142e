//! The rules that a journal runs: the deciders' functions. Tests put others in their place, to see what comes of a defect.

use fleet_lifecycle::{Context, Decider, Entity, Fleet, Observed, Refusal, Request, Sighting, Wait};
use fleet_schemas::{Event, Notice, Timestamp};

/// See [`Decider`]; the functions of one.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Judges a request.
    pub decide: fn(&Entity, &Request, &Context<'_>) -> Result<Vec<Event>, Refusal>,
    /// Draws what follows from a fact.
    pub observe: fn(&Entity, &Sighting, &Context<'_>) -> Observed<Event>,
    /// Draws what follows from what another stream tells.
    pub heed: fn(&Entity, &Notice, &Context<'_>) -> Observed<Event>,
    /// A wait fell due.
    pub expire: fn(&Entity, &Wait, &Context<'_>) -> Vec<Event>,
    /// What should follow by itself.
    pub plan: fn(&Entity, &Context<'_>) -> Vec<Event>,
    /// Folds an event in.
    pub evolve: fn(&mut Entity, &Event, Timestamp),
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            decide: Fleet::decide,
            observe: Fleet::observe,
            heed: Fleet::heed,
            expire: Fleet::expire,
            plan: Fleet::plan,
            evolve: Fleet::evolve,
        }
    }
}
