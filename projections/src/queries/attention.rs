//! What waits for a person, over the fleet.

use super::Reads;
use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, keys, page, reach};
use crate::db::{Db, Error};
use crate::sql::{Kind, Line, Sql};
use fleet_schemas::{DeviceId, Timestamp};

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
    /// What would end it.
    pub ways_out: Vec<String>,
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
            None => Sort::by(&[("a.since", Kind::Time), ("a.device", Kind::Uuid), ("a.item", Kind::Text)], false),
            Some((field, descending)) => Sort::field(field, descending, &[("a.device", Kind::Uuid), ("a.item", Kind::Text)]),
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
        page(&self.db, select(&self.db, &format!("{COLUMNS}{}", keys(&self.db, sort)), filter), sort, after, limit, row).await
    }

    /// How many.
    pub async fn count_attention(&self, filter: &AttentionFilter) -> Result<i64, Error> {
        self.db.read.one(select(&self.db, "count(*) AS n", filter)).await?.int("n")
    }
}

pub(super) fn select(db: &Db, columns: &str, filter: &AttentionFilter) -> Sql {
    let mut q = db.read.sql(format!("SELECT {columns} FROM attention a JOIN device d ON d.id = a.device WHERE 1 = 1"));
    reach(&mut q, "d.site", filter.sites.as_deref(), false);
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(&mut q);
    }
    q
}

fn row(r: &Line) -> Result<AttentionRow, Error> {
    let (by, at) = (r.opt_text("acknowledged_by")?, r.opt_time("acknowledged_at")?);
    let words = r.opt_text("acknowledgement")?;
    Ok(AttentionRow {
        device: DeviceId(r.uuid("device")?),
        name: r.text("name")?,
        site: r.text("site")?,
        role: r.text("role")?,
        item: r.text("item")?,
        why: r.text("why")?,
        ways_out: r.words("ways_out")?,
        since: r.time("since")?,
        acknowledged: by.zip(at).map(|(by, at)| (by, at, words.unwrap_or_default())),
    })
}
