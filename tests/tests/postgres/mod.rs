//! What only a database that is shared, and far away, can do: be cut off, be gone, be another process's as well.

mod away;
mod proxy;
mod questions;
mod shared;

use crate::place::{Place, Schemas};
use crate::rebuild::{cancelled, caught_up};
use crate::world::World;
use fleet_projections::Generations;

/// The schemas of a place, where the test runs on PostgreSQL alone.
fn schemas(place: &Place) -> &Schemas {
    match place {
        Place::Schemas(schemas) => schemas,
        Place::Folder(_) => unreachable!("this test asked for schemas"),
    }
}

/// Nothing is lost and nothing doubled: a rebuild of the journal gives the same, row for row.
async fn whole(all: &Generations, world: &World) {
    caught_up(all, world).await;
    let built = all.rebuild(false).await.unwrap();
    assert_eq!((built.differences.as_slice(), built.flipped, built.devices), (&[][..], true, 12));
    all.watch(cancelled()).await.unwrap();
}
