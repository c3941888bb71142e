//! Where reactor and publisher keep how far they are: in `control`, outside every generation of the read model.

use fleet_fence::Position;
use fleet_journal::Positions;
use fleet_log::{Error, Fut};
use sqlx::{AssertSqlSafe, sqlite::SqlitePool};
use std::collections::BTreeMap;

/// Positions in `control`.
pub struct ControlPositions {
    pool: SqlitePool,
    of: &'static str,
}

impl ControlPositions {
    /// The reactor's.
    pub fn reactor(pool: SqlitePool) -> Self {
        Self { pool, of: "reactor" }
    }

    /// The publisher's.
    pub fn publisher(pool: SqlitePool) -> Self {
        Self { pool, of: "publisher" }
    }
}

impl Positions for ControlPositions {
    fn load(&self) -> Fut<'_, Result<BTreeMap<u32, Position>, Error>> {
        Box::pin(async move {
            let rows: Vec<(u32, Vec<u8>)> = sqlx::query_as(AssertSqlSafe(format!("SELECT partition, state FROM {}_position", self.of)))
                .fetch_all(&self.pool)
                .await
                .map_err(failed)?;
            let read = |(partition, state): (u32, Vec<u8>)| match postcard::from_bytes(&state) {
                Ok(position) => Some((partition, position)),
                Err(error) => {
                    tracing::warn!(partition, of = self.of, %error, "a position cannot be read, and counts as none");
                    None
                }
            };
            Ok(rows.into_iter().filter_map(read).collect())
        })
    }

    fn store(&self, partition: u32, before: u64, position: Position) -> Fut<'_, Result<bool, Error>> {
        Box::pin(async move {
            let state = postcard::to_allocvec(&position).map_err(|e| Error::Io(format!("a position: {e}")))?;
            let set = format!(
                "INSERT INTO {0}_position (partition, next, state) VALUES ($1, $2, $3)
                 ON CONFLICT (partition) DO UPDATE SET next = excluded.next, state = excluded.state WHERE {0}_position.next = $4",
                self.of
            );
            let (next, before) = (i64::try_from(position.next).unwrap_or(i64::MAX), i64::try_from(before).unwrap_or(i64::MAX));
            let done = sqlx::query(AssertSqlSafe(set))
                .bind(partition)
                .bind(next)
                .bind(state)
                .bind(before)
                .execute(&self.pool)
                .await
                .map_err(failed)?;
            Ok(done.rows_affected() == 1)
        })
    }
}

fn failed(error: sqlx::Error) -> Error {
    Error::Io(format!("control: {error}"))
}
