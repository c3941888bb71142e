//! Where reactor and publisher keep how far they are: in `control`, outside every generation of the read model.

use fleet_fence::Position;
use fleet_journal::Positions;
use fleet_log::{Error, Fut};
use fleet_projections::{Control, Follower};
use std::collections::BTreeMap;

/// Positions in `control`.
pub struct ControlPositions {
    /// The store.
    pub control: Control,
    /// Whose.
    pub of: Follower,
}

impl Positions for ControlPositions {
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>> {
        Box::pin(async move { self.control.positions(self.of).await.map_err(failed) })
    }

    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>> {
        Box::pin(async move { self.control.move_on(self.of, partition, before, &position).await.map_err(failed) })
    }
}

fn failed(error: fleet_projections::Error) -> Error {
    Error::Io(format!("control: {error}"))
}
