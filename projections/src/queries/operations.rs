//! Operations: a command's progress as people see it.

use super::{Reads, uuid};
use crate::db::Error;
use fleet_schemas::{DeviceId, OperationId, Timestamp};
use sqlx::{QueryBuilder, Row, Sqlite};

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationRow {
    /// Its id.
    pub id: OperationId,
    /// The device.
    pub device: DeviceId,
    /// The device's name.
    pub name: String,
    /// The device's site.
    pub site: String,
    /// The verb.
    pub verb: String,
    /// Its state.
    pub state: String,
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: String,
    /// How it ended, in words.
    pub message: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// When it must have ended.
    pub deadline: Option<Timestamp>,
}

/// Which operations. All that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationFilter {
    /// This one.
    pub id: Option<OperationId>,
    /// Of this device.
    pub device: Option<DeviceId>,
    /// In this state.
    pub state: Option<String>,
    /// At one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
}

impl Reads {
    /// The latest operations, newest first, those before `before`.
    pub async fn operations(
        &self,
        filter: &OperationFilter,
        before: Option<(Timestamp, OperationId)>,
        limit: u32,
    ) -> Result<Vec<OperationRow>, Error> {
        let mut q: QueryBuilder<Sqlite> =
            QueryBuilder::new("SELECT o.*, d.name, d.site FROM operation o JOIN device d ON d.id = o.device WHERE 1 = 1");
        if let Some(id) = filter.id {
            q.push(" AND o.id = ").push_bind(id.0.as_bytes().to_vec());
        }
        if let Some(device) = filter.device {
            q.push(" AND o.device = ").push_bind(device.0.as_bytes().to_vec());
        }
        if let Some(state) = &filter.state {
            q.push(" AND o.state = ").push_bind(state.clone());
        }
        if let Some(sites) = &filter.sites {
            q.push(" AND d.site IN (");
            let mut list = q.separated(", ");
            for site in sites {
                list.push_bind(site.clone());
            }
            q.push(")");
        }
        if let Some((at, id)) = before {
            q.push(" AND (o.started_at, o.id) < (").push_bind(at.0).push(", ").push_bind(id.0.as_bytes().to_vec()).push(")");
        }
        q.push(" ORDER BY o.started_at DESC, o.id DESC LIMIT ").push_bind(limit);
        q.build().fetch_all(&self.db.read).await?.iter().map(row).collect()
    }
}

fn row(r: &sqlx::sqlite::SqliteRow) -> Result<OperationRow, Error> {
    Ok(OperationRow {
        id: OperationId(uuid(r.try_get("id")?)?),
        device: DeviceId(uuid(r.try_get("device")?)?),
        name: r.try_get("name")?,
        site: r.try_get("site")?,
        verb: r.try_get("verb")?,
        state: r.try_get("state")?,
        by: r.try_get("by_whom")?,
        reason: r.try_get("reason")?,
        message: r.try_get("message")?,
        started_at: Timestamp(r.try_get("started_at")?),
        ended_at: r.try_get::<Option<i64>, _>("ended_at")?.map(Timestamp),
        deadline: r.try_get::<Option<i64>, _>("deadline")?.map(Timestamp),
    })
}
