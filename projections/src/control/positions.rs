//! How far those are who follow the journal and write elsewhere.

use super::Control;
use crate::db::Error;
use fleet_fence::Position;
use std::collections::BTreeMap;

/// Who follows the journal outside every generation.
#[derive(Clone, Copy, Debug)]
pub enum Follower {
    /// Draws what follows from decisions.
    Reactor,
    /// Publishes to other teams.
    Publisher,
}

impl Follower {
    fn table(self) -> &'static str {
        match self {
            Self::Reactor => "reactor_position",
            Self::Publisher => "publisher_position",
        }
    }
}

impl Control {
    /// Its position in each partition. One that cannot be read is absent: repeats take no effect.
    pub async fn positions(&self, of: Follower) -> Result<BTreeMap<u32, Position>, Error> {
        let mut out = BTreeMap::new();
        for row in self.pool.all(self.pool.sql(format!("SELECT partition, state FROM {}", of.table()))).await? {
            let partition = row.number("partition")?;
            match postcard::from_bytes(&row.bytes("state")?) {
                Ok(position) => drop(out.insert(partition, position)),
                Err(error) => tracing::warn!(partition, ?of, %error, "a position cannot be read, and counts as none"),
            }
        }
        Ok(out)
    }

    /// Moves it from `before` on; false when another one did.
    pub async fn move_on(&self, of: Follower, partition: u32, before: u64, position: &Position) -> Result<bool, Error> {
        let state = postcard::to_allocvec(position).map_err(|e| Error::Corrupt(format!("a position: {e}")))?;
        let set = format!(
            "INSERT INTO {0} (partition, next, state) VALUES ($1, $2, $3)
             ON CONFLICT (partition) DO UPDATE SET next = excluded.next, state = excluded.state WHERE {0}.next = $4",
            of.table()
        );
        let set = self.pool.sql(set).with(partition).with(position.next).with(state).with(before);
        Ok(self.pool.run(set).await? == 1)
    }
}
