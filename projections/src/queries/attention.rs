//! What waits for a person, over the fleet.

use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
use super::{Reads, uuid};
use crate::db::Error;
use fleet_schemas::{DeviceId, Timestamp};
use sqlx::{QueryBuilder, Row, Sqlite, sqlite::SqliteRow};

/// One thing that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionRow {
    /// The device.
    pub device: DeviceId,
    /// The device's name.
    pub name: String,
    /// The device's site.
    pub site: String,
    /// The device's role.
    pub role: String,
    /// What: unique on the device.
    pub item: String,
    /// In words.
    pub why: String,
    /// What would end it: JSON `[text]`.
    pub ways_out: String,
    /// Since when.
    pub since: Timestamp,
    /// Who has seen it, when, and that person's words.
    pub acknowledged: Option<(String, Timestamp, String)>,
}

/// Which of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttentionFilter {
    /// Of devices at one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
    /// Of which this holds.
    pub matching: Option<Expr>,
}

const COLUMNS: &str = "a.*, d.name, d.site, d.role";

impl AttentionRow {
    /// The order where none is asked for (what has waited longest first), or by a field.
    pub fn sort(by: Option<(&'static Field, bool)>) -> Sort {
        match by {
            None => Sort::by(&["a.since", "a.device", "a.item"], false),
            Some((field, descending)) => Sort::field(field, descending, &["a.device", "a.item"]),
        }
    }
}

impl Reads {
    /// One page.
    pub async fn attention(
        &self,
        filter: &AttentionFilter,
        sort: &Sort,
        after: Option<&[Key]>,
        limit: u32,
    ) -> Result<Page<AttentionRow>, Error> {
        page(&self.db, select(&format!("{COLUMNS}{}", keys(sort)), filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_attention(&self, filter: &AttentionFilter) -> Result<i64, Error> {
        Ok(select("count(*)", filter).build_query_scalar().fetch_one(&self.db.read).await?)
    }
}

pub(super) fn select(columns: &str, filter: &AttentionFilter) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT {columns} FROM attention a JOIN device d ON d.id = a.device WHERE 1 = 1"));
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
}

fn row(r: &SqliteRow) -> Result<AttentionRow, Error> {
    let by: Option<String> = r.try_get("acknowledged_by")?;
    let at: Option<i64> = r.try_get("acknowledged_at")?;
    let words: Option<String> = r.try_get("acknowledgement")?;
    Ok(AttentionRow {
        device: DeviceId(uuid(r.try_get("device")?)?),
        name: r.try_get("name")?,
        site: r.try_get("site")?,
        role: r.try_get("role")?,
        item: r.try_get("item")?,
        why: r.try_get("why")?,
        ways_out: r.try_get("ways_out")?,
        since: Timestamp(r.try_get("since")?),
        acknowledged: by.zip(at).map(|(by, at)| (by, Timestamp(at), words.unwrap_or_default())),
    })
}
