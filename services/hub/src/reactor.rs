//! Where the reactor keeps how far it is: in `control`, outside every generation of the read model.

use fleet_fence::Position;
use fleet_journal::Positions;
use fleet_log::{Error, Fut};
use fleet_projections::Control;
use std::collections::BTreeMap;

/// The reactor's positions in `control`.
pub struct ControlPositions(pub Control);

impl Positions for ControlPositions {
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>> {
        Box::pin(async move { self.0.reactor_positions().await.map_err(failed) })
    }

    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>> {
        Box::pin(async move { self.0.move_reactor(partition, before, &position).await.map_err(failed) })
    }
}

fn failed(error: fleet_projections::Error) -> Error {
    Error::Io(format!("control: {error}"))
}
