//! Operations: a command's progress as people see it.

use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationFilter {
    /// This one.
    pub id: Option<OperationId>,
    /// Of this device.
    pub device: Option<DeviceId>,
    /// In this state.
    pub state: Option<String>,
    /// At one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
    /// Of which this holds.
    pub matching: Option<Expr>,
}

impl OperationRow {
    /// The order where none is asked for (newest first), or by a field.
    pub fn sort(by: Option<(&'static Field, bool)>) -> Sort {
        match by {
            None => Sort::by(&["o.started_at", "o.id"], true),
            Some((field, descending)) => Sort::field(field, descending, &["o.id"]),
        }
    }
}

impl Reads {
    /// One page.
    pub async fn operations(
        &self,
        filter: &OperationFilter,
        sort: &Sort,
        after: Option<&[Key]>,
        limit: u32,
    ) -> Result<Page<OperationRow>, Error> {
        page(&self.db, select(&format!("o.*, d.name, d.site{}", keys(sort)), filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_operations(&self, filter: &OperationFilter) -> Result<i64, Error> {
        Ok(select("count(*)", filter).build_query_scalar().fetch_one(&self.db.read).await?)
    }
}

pub(super) fn select(columns: &str, filter: &OperationFilter) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT {columns} FROM operation o JOIN device d ON d.id = o.device WHERE 1 = 1"));
    if let Some(id) = filter.id {
        q.push(" AND o.id = ").push_bind(id.0.as_bytes().to_vec());
    }
    if let Some(device) = filter.device {
        q.push(" AND o.device = ").push_bind(device.0.as_bytes().to_vec());
    }
    if let Some(state) = &filter.state {
        q.push(" AND o.state = ").push_bind(state.clone());
    }
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
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
