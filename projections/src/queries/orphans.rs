//! Things that sources show and no device claims.

use super::Reads;
use crate::db::Error;
use fleet_schemas::Timestamp;
use sqlx::{QueryBuilder, Row, Sqlite};

/// One such thing.
#[derive(Clone, Debug, PartialEq)]
pub struct OrphanRow {
    /// Where it was seen.
    pub site: String,
    /// What shows it.
    pub source: String,
    /// Its own id there.
    pub native_id: String,
    /// What it looks like.
    pub detail: String,
    /// Since when it is there and unclaimed.
    pub since: Timestamp,
}

/// Which things. All that are given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrphanFilter {
    /// At this site.
    pub site: Option<String>,
    /// Shown by this source.
    pub source: Option<String>,
    /// At one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
}

impl Reads {
    /// Unclaimed things by site, source and id, after `after`.
    pub async fn orphans(&self, filter: &OrphanFilter, after: Option<[&str; 3]>, limit: u32) -> Result<Vec<OrphanRow>, Error> {
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new("SELECT site, source, native_id, detail, since FROM orphan WHERE 1 = 1");
        if let Some(site) = &filter.site {
            q.push(" AND site = ").push_bind(site.clone());
        }
        if let Some(source) = &filter.source {
            q.push(" AND source = ").push_bind(source.clone());
        }
        if let Some(sites) = &filter.sites {
            q.push(" AND site IN (");
            let mut list = q.separated(", ");
            for site in sites {
                list.push_bind(site.clone());
            }
            q.push(")");
        }
        if let Some([site, source, native_id]) = after {
            q.push(" AND (site, source, native_id) > (").push_bind(site.to_owned()).push(", ");
            q.push_bind(source.to_owned()).push(", ").push_bind(native_id.to_owned()).push(")");
        }
        q.push(" ORDER BY site, source, native_id LIMIT ").push_bind(limit);
        let row = |r: &sqlx::sqlite::SqliteRow| {
            Ok(OrphanRow {
                site: r.try_get("site")?,
                source: r.try_get("source")?,
                native_id: r.try_get("native_id")?,
                detail: r.try_get("detail")?,
                since: Timestamp(r.try_get("since")?),
            })
        };
        q.build().fetch_all(&self.db.read).await?.iter().map(row).collect()
    }
}
