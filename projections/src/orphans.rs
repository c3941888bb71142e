//! Unclaimed things as rows: one while it is there and unclaimed, none after.

use crate::db::Error;
use crate::fold::Known;
use fleet_schemas::StreamId;
use sqlx::SqliteConnection;

/// Writes, or takes away, the rows of the streams that changed.
pub(crate) async fn write(c: &mut SqliteConnection, known: &[(&StreamId, &Known)]) -> Result<(), Error> {
    for thing in known.iter().filter_map(|(_, k)| k.entity.unclaimed()) {
        let Some(since) = thing.since else {
            sqlx::query("DELETE FROM orphan WHERE site = $1 AND source = $2 AND native_id = $3")
                .bind(thing.site.as_str())
                .bind(thing.source.as_str())
                .bind(&*thing.native_id)
                .execute(&mut *c)
                .await?;
            continue;
        };
        let upsert = "INSERT INTO orphan (site, source, native_id, detail, since) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (site, source, native_id) DO UPDATE SET detail = excluded.detail, since = excluded.since";
        sqlx::query(upsert)
            .bind(thing.site.as_str())
            .bind(thing.source.as_str())
            .bind(&*thing.native_id)
            .bind(&thing.detail)
            .bind(since.0)
            .execute(&mut *c)
            .await?;
    }
    Ok(())
}
