//! Things that sources show and no device claims.

use super::Reads;
use crate::db::Error;
use crate::sql::Line;
use fleet_schemas::Timestamp;

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
        let mut q = self.db.read.sql("SELECT site, source, native_id, detail, since FROM orphan WHERE 1 = 1");
        if let Some(site) = &filter.site {
            q.push(" AND site = ").bind(site);
        }
        if let Some(source) = &filter.source {
            q.push(" AND source = ").bind(source);
        }
        if let Some(sites) = &filter.sites {
            q.push(" AND ").among("site", sites);
        }
        if let Some([site, source, native_id]) = after {
            q.push(" AND (site, source, native_id) > (").bind(site).push(", ").bind(source).push(", ").bind(native_id).push(")");
        }
        q.push(" ORDER BY site, source, native_id LIMIT ").bind(limit);
        let row = |r: &Line| {
            Ok(OrphanRow {
                site: r.text("site")?,
                source: r.text("source")?,
                native_id: r.text("native_id")?,
                detail: r.text("detail")?,
                since: r.time("since")?,
            })
        };
        self.db.read.all(q).await?.iter().map(row).collect()
    }
}
