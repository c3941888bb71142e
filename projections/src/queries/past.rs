//! The past of a stream: its decisions up to a point, folded as its leader folded them.

use super::{DeviceDoc, Reads};
use crate::db::Error;
use fleet_lifecycle::{Decider, Entity, Fleet, Reference, Site};
use fleet_schemas::{Decision, DeviceId, Event, Hash, SiteId, StreamId, Timestamp, decode};
use futures::TryStreamExt;
use sqlx::Row;
use std::{panic::AssertUnwindSafe, panic::catch_unwind, sync::Arc};

/// A point in a stream's past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// What was decided up to this instant.
    At(Timestamp),
    /// What was decided up to this version.
    Version(u64),
}

/// A stream as it stood.
struct Then {
    entity: Entity,
    version: u64,
    hash: Hash,
    updated_at: Timestamp,
    recorded_at: Timestamp,
}

impl Reads {
    /// A device as it stood, and when the last decision that counts was recorded. `None` before the first.
    pub async fn device_then(&self, id: DeviceId, point: Point) -> Result<Option<(DeviceDoc, Timestamp)>, Error> {
        let Some(then) = self.then(&StreamId::Device(id), point).await? else { return Ok(None) };
        let Some(state) = then.entity.device().filter(|d| d.inventory.is_some()).cloned() else { return Ok(None) };
        let doc = DeviceDoc { state, version: then.version, hash: then.hash, updated_at: then.updated_at, stopped: None };
        Ok(Some((doc, then.recorded_at)))
    }

    /// When the first decision about a device was recorded.
    pub async fn first_decision(&self, id: DeviceId) -> Result<Option<Timestamp>, Error> {
        let sql = "SELECT at FROM history WHERE stream = $1 ORDER BY offset LIMIT 1";
        let at: Option<i64> = sqlx::query_scalar(sql).bind(StreamId::Device(id).to_string()).fetch_optional(&self.db.read).await?;
        Ok(at.map(Timestamp))
    }

    /// These sites as they stood at `at`, for reading a device of that time.
    pub async fn reference_then(&self, sites: impl Iterator<Item = &SiteId>, at: Timestamp) -> Result<Reference, Error> {
        let mut reference = Reference::default();
        for site in sites {
            let then = self.then(&StreamId::Site(site.clone()), Point::At(at)).await?;
            let state: Option<Arc<Site>> = then.and_then(|t| t.entity.site().filter(|s| s.registered).cloned());
            reference.sites.extend(state.map(|s| (site.clone(), s)));
        }
        Ok(reference)
    }

    async fn then(&self, stream: &StreamId, point: Point) -> Result<Option<Then>, Error> {
        let (column, limit) = match point {
            Point::At(at) => ("at", at.0),
            Point::Version(version) => ("version", i64::try_from(version).unwrap_or(i64::MAX)),
        };
        let sql = format!("SELECT hash, record FROM history WHERE stream = $1 AND {column} <= $2 ORDER BY offset");
        let mut rows = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(stream.to_string()).bind(limit).fetch(&self.db.read);
        let mut then: Option<Then> = None;
        while let Some(row) = rows.try_next().await? {
            let decision: Decision = decode(&row.try_get::<Vec<u8>, _>("record")?).map_err(|e| Error::Corrupt(e.to_string()))?;
            let hash = super::hash(row.try_get("hash")?)?;
            let fresh = || Then { entity: Fleet::new(stream), version: 0, hash, updated_at: Timestamp(0), recorded_at: Timestamp(0) };
            let then = then.get_or_insert_with(fresh);
            fold(&mut then.entity, &decision)?;
            (then.version, then.hash, then.recorded_at) = (decision.version, hash, decision.recorded_at);
            if !decision.events.is_empty() {
                then.updated_at = decision.recorded_at;
            }
        }
        Ok(then)
    }
}

/// As the projector folds.
fn fold(entity: &mut Entity, decision: &Decision) -> Result<(), Error> {
    let events: Result<Vec<_>, _> = decision.events.iter().map(|e| Event::decode(&decision.stream, e)).collect();
    let events = events.map_err(|e| Error::Corrupt(e.to_string()))?;
    let folded = catch_unwind(AssertUnwindSafe(|| events.iter().for_each(|e| Fleet::evolve(entity, e, decision.recorded_at))));
    folded.map_err(|_| Error::Corrupt(format!("folding {} panicked", decision.stream)))
}
