//! Conditions over the fleet.

use super::Reads;
use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
use crate::db::{Db, Error};
use crate::sql::{Kind, Line, Sql};
use fleet_schemas::{DeviceId, Timestamp};

/// One condition of one device, as last said. Staleness of its source is the caller's to add.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionRow {
    /// The device.
    pub device: DeviceId,
    /// The device's name.
    pub name: String,
    /// Type.
    pub r#type: String,
    /// Subject.
    pub subject: String,
    /// Status.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Severity.
    pub severity: String,
    /// Who says so.
    pub source: String,
    /// Where.
    pub site: String,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// When the status last changed.
    pub last_transition_at: Timestamp,
}

/// Which conditions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConditionFilter {
    /// Of devices at one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
    /// Of which this holds.
    pub matching: Option<Expr>,
}

const COLUMNS: &str =
    "c.device, d.name, c.type, c.subject, c.status, c.reason, c.message, c.severity, c.source, c.site, c.observed_at, c.last_transition_at";

impl ConditionRow {
    /// The order where none is asked for, or by a field.
    pub fn sort(by: Option<(&'static Field, bool)>) -> Sort {
        match by {
            None => {
                Sort::by(&[("c.type", Kind::Text), ("c.status", Kind::Text), ("c.device", Kind::Uuid), ("c.subject", Kind::Text)], false)
            }
            Some((field, descending)) => {
                Sort::field(field, descending, &[("c.type", Kind::Text), ("c.device", Kind::Uuid), ("c.subject", Kind::Text)])
            }
        }
    }
}

impl Reads {
    /// One page.
    pub async fn conditions(
        &self,
        filter: &ConditionFilter,
        sort: &Sort,
        after: Option<&[Key]>,
        limit: u32,
    ) -> Result<Page<ConditionRow>, Error> {
        page(&self.db, select(&self.db, &format!("{COLUMNS}{}", keys(&self.db, sort)), filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_conditions(&self, filter: &ConditionFilter) -> Result<i64, Error> {
        self.db.read.one(select(&self.db, "count(*) AS n", filter)).await?.int("n")
    }
}

pub(super) fn select(db: &Db, columns: &str, filter: &ConditionFilter) -> Sql {
    let mut q = db.read.sql(format!("SELECT {columns} FROM condition c JOIN device d ON d.id = c.device WHERE 1 = 1"));
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
}

fn row(r: &Line) -> Result<ConditionRow, Error> {
    Ok(ConditionRow {
        device: DeviceId(r.uuid("device")?),
        name: r.text("name")?,
        r#type: r.text("type")?,
        subject: r.text("subject")?,
        status: r.text("status")?,
        reason: r.text("reason")?,
        message: r.text("message")?,
        severity: r.text("severity")?,
        source: r.text("source")?,
        site: r.text("site")?,
        observed_at: r.time("observed_at")?,
        last_transition_at: r.time("last_transition_at")?,
    })
}
