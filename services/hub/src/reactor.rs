//! Where the reactor keeps how far it is: in `control`, outside every generation of the read model.

use fleet_fence::Position;
use fleet_journal::Positions;
use fleet_log::{Error, Fut};
use sqlx::sqlite::SqlitePool;
use std::collections::BTreeMap;

/// The reactor's positions in `control`.
pub struct ControlPositions(pub SqlitePool);

impl Positions for ControlPositions {
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>> {
        Box::pin(async move {
            let rows: Vec<(u32, Vec<u8>)> =
                sqlx::query_as("SELECT partition, state FROM reactor_position").fetch_all(&self.0).await.map_err(failed)?;
            let read = |(partition, state): (u32, Vec<u8>)| match postcard::from_bytes(&state) {
                Ok(position) => Some((partition, position)),
                Err(error) => {
                    tracing::warn!(partition, %error, "the reactor's position cannot be read: it begins at the first record");
                    None
                }
            };
            Ok(rows.into_iter().filter_map(read).collect())
        })
    }

    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>> {
        Box::pin(async move {
            let state = postcard::to_allocvec(&position).map_err(|e| Error::Io(format!("the reactor's position: {e}")))?;
            let set = "INSERT INTO reactor_position (partition, next, state) VALUES ($1, $2, $3)
                 ON CONFLICT (partition) DO UPDATE SET next = excluded.next, state = excluded.state WHERE reactor_position.next = $4";
            let (next, before) = (i64::try_from(position.next).unwrap_or(i64::MAX), i64::try_from(before).unwrap_or(i64::MAX));
            let done = sqlx::query(set).bind(partition).bind(next).bind(state).bind(before).execute(&self.0).await.map_err(failed)?;
            Ok(done.rows_affected() == 1)
        })
    }
}

fn failed(error: sqlx::Error) -> Error {
    Error::Io(format!("control: {error}"))
}
