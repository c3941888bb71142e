//! The past of a stream: its decisions up to a point, folded as its leader folded them.

use super::{DeviceDoc, Reads};
use crate::db::Error;
use crate::sql::Value;
use fleet_lifecycle::{Decider, Entity, Fleet, Reference, Site};
use fleet_schemas::{Decision, DeviceId, Event, Hash, SiteId, StreamId, Timestamp, decode};
use std::{panic::AssertUnwindSafe, panic::catch_unwind, sync::Arc};

/// Decisions that are fetched at once.
const SOME: usize = 1000;

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
        let sql = "SELECT at FROM history WHERE stream = $1 ORDER BY \"offset\" LIMIT 1";
        let found = self.db.read.optional(self.db.read.sql(sql).with(StreamId::Device(id).to_string())).await?;
        found.map(|row| row.time("at")).transpose()
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
            Point::At(at) => ("at", Value::Time(at)),
            Point::Version(version) => ("version", version.into()),
        };
        let sql = format!(
            "SELECT \"offset\", hash, record FROM history WHERE stream = $1 AND {column} <= $2 AND \"offset\" > $3 ORDER BY \"offset\" LIMIT {SOME}"
        );
        let (mut then, mut after): (Option<Then>, i64) = (None, -1);
        loop {
            let some = self.db.read.sql(&*sql).with(stream.to_string()).with(limit.clone()).with(after);
            let rows = self.db.read.all(some).await?;
            for row in &rows {
                let decision: Decision = decode(&row.bytes("record")?).map_err(|e| Error::Corrupt(e.to_string()))?;
                let hash = row.hash("hash")?;
                let fresh = || Then { entity: Fleet::new(stream), version: 0, hash, updated_at: Timestamp(0), recorded_at: Timestamp(0) };
                let then = then.get_or_insert_with(fresh);
                fold(&mut then.entity, &decision)?;
                (then.version, then.hash, then.recorded_at) = (decision.version, hash, decision.recorded_at);
                if !decision.events.is_empty() {
                    then.updated_at = decision.recorded_at;
                }
                after = row.int("offset")?;
            }
            if rows.len() < SOME {
                return Ok(then);
            }
        }
    }
}

/// As the projector folds.
fn fold(entity: &mut Entity, decision: &Decision) -> Result<(), Error> {
    let events: Result<Vec<_>, _> = decision.events.iter().map(|e| Event::decode(&decision.stream, e)).collect();
    let events = events.map_err(|e| Error::Corrupt(e.to_string()))?;
    let folded = catch_unwind(AssertUnwindSafe(|| events.iter().for_each(|e| Fleet::evolve(entity, e, decision.recorded_at))));
    folded.map_err(|_| Error::Corrupt(format!("folding {} panicked", decision.stream)))
}
