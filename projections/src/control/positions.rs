//! How far the reactor is.

use super::Control;
use crate::db::Error;
use fleet_fence::Position;
use std::collections::BTreeMap;

impl Control {
    /// The reactor's position in each partition. One that cannot be read is absent: repeats take no effect.
    pub async fn reactor_positions(&self) -> Result<BTreeMap<u32, Position>, Error> {
        let mut out = BTreeMap::new();
        for row in self.pool.all(self.pool.sql("SELECT partition, state FROM reactor_position")).await? {
            let partition = row.number("partition")?;
            match postcard::from_bytes(&row.bytes("state")?) {
                Ok(position) => drop(out.insert(partition, position)),
                Err(error) => tracing::warn!(partition, %error, "the reactor's position cannot be read: it begins at the first record"),
            }
        }
        Ok(out)
    }

    /// Moves it from `before` on; false when another reactor did.
    pub async fn move_reactor(&self, partition: u32, before: u64, position: &Position) -> Result<bool, Error> {
        let state = postcard::to_allocvec(position).map_err(|e| Error::Corrupt(format!("the reactor's position: {e}")))?;
        let set = "INSERT INTO reactor_position (partition, next, state) VALUES ($1, $2, $3)
             ON CONFLICT (partition) DO UPDATE SET next = excluded.next, state = excluded.state WHERE reactor_position.next = $4";
        let set = self.pool.sql(set).with(partition).with(position.next).with(state).with(before);
        Ok(self.pool.run(set).await? == 1)
    }
}
