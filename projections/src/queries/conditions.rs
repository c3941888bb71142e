//! Conditions over the fleet.

use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
use super::{Reads, uuid};
use crate::db::Error;
use fleet_schemas::{DeviceId, Timestamp};
use sqlx::{QueryBuilder, Row, Sqlite, sqlite::SqliteRow};

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
            None => Sort::by(&["c.type", "c.status", "c.device", "c.subject"], false),
            Some((field, descending)) => Sort::field(field, descending, &["c.type", "c.device", "c.subject"]),
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
        page(&self.db, select(&format!("{COLUMNS}{}", keys(sort)), filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_conditions(&self, filter: &ConditionFilter) -> Result<i64, Error> {
        Ok(select("count(*)", filter).build_query_scalar().fetch_one(&self.db.read).await?)
    }
}

pub(super) fn select(columns: &str, filter: &ConditionFilter) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT {columns} FROM condition c JOIN device d ON d.id = c.device WHERE 1 = 1"));
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
}

fn row(r: &SqliteRow) -> Result<ConditionRow, Error> {
    Ok(ConditionRow {
        device: DeviceId(uuid(r.try_get("device")?)?),
        name: r.try_get("name")?,
        r#type: r.try_get("type")?,
        subject: r.try_get("subject")?,
        status: r.try_get("status")?,
        reason: r.try_get("reason")?,
        message: r.try_get("message")?,
        severity: r.try_get("severity")?,
        source: r.try_get("source")?,
        site: r.try_get("site")?,
        observed_at: Timestamp(r.try_get("observed_at")?),
        last_transition_at: Timestamp(r.try_get("last_transition_at")?),
    })
}
