//! Operations: a command's progress as people see it.

use super::Reads;
use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
use crate::db::{Db, Error};
use crate::sql::{Kind, Line, Sql};
use fleet_schemas::{DeviceId, OperationId, Timestamp};

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
            None => Sort::by(&[("o.started_at", Kind::Time), ("o.id", Kind::Uuid)], true),
            Some((field, descending)) => Sort::field(field, descending, &[("o.id", Kind::Uuid)]),
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
        let columns = format!("o.*, d.name, d.site{}", keys(&self.db, sort));
        page(&self.db, select(&self.db, &columns, filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_operations(&self, filter: &OperationFilter) -> Result<i64, Error> {
        self.db.read.one(select(&self.db, "count(*) AS n", filter)).await?.int("n")
    }
}

pub(super) fn select(db: &Db, columns: &str, filter: &OperationFilter) -> Sql {
    let mut q = db.read.sql(format!("SELECT {columns} FROM operation o JOIN device d ON d.id = o.device WHERE 1 = 1"));
    if let Some(id) = filter.id {
        q.push(" AND o.id = ").bind(id.0);
    }
    if let Some(device) = filter.device {
        q.push(" AND o.device = ").bind(device.0);
    }
    if let Some(state) = &filter.state {
        q.push(" AND o.state = ").bind(state);
    }
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
}

fn row(r: &Line) -> Result<OperationRow, Error> {
    Ok(OperationRow {
        id: OperationId(r.uuid("id")?),
        device: DeviceId(r.uuid("device")?),
        name: r.text("name")?,
        site: r.text("site")?,
        verb: r.text("verb")?,
        state: r.text("state")?,
        by: r.text("by_whom")?,
        reason: r.text("reason")?,
        message: r.text("message")?,
        started_at: r.time("started_at")?,
        ended_at: r.opt_time("ended_at")?,
        deadline: r.opt_time("deadline")?,
    })
}
