//! Sites: all of them, as the read model has them.

use super::Reads;
use crate::db::Error;
use crate::fold::thaw;
use fleet_lifecycle::{Reference, Site};
use fleet_schemas::{SiteId, StreamId};
use std::sync::Arc;

impl Reads {
    /// Every registered site, by name.
    pub async fn sites(&self) -> Result<Vec<Arc<Site>>, Error> {
        let sql = self.db.read.sql("SELECT id, state FROM stream WHERE id >= 'site/' AND id < 'site0' ORDER BY id");
        let mut sites = Vec::new();
        for row in self.db.read.all(sql).await? {
            let (id, state) = (row.text("id")?, row.bytes("state")?);
            let stream: StreamId = id.parse().map_err(|_| Error::Corrupt(format!("`{id}` is no stream")))?;
            sites.extend(thaw(&stream, &state)?.site().filter(|s| s.registered).cloned());
        }
        Ok(sites)
    }

    /// One registered site, and its version.
    pub async fn site(&self, id: &SiteId) -> Result<Option<(Arc<Site>, u64)>, Error> {
        let stream = StreamId::Site(id.clone());
        let sql = self.db.read.sql("SELECT version, state FROM stream WHERE id = $1").with(stream.to_string());
        let Some(row) = self.db.read.optional(sql).await? else { return Ok(None) };
        let (version, state) = (row.number("version")?, row.bytes("state")?);
        Ok(thaw(&stream, &state)?.site().filter(|s| s.registered).map(|s| (s.clone(), version)))
    }

    /// The sites as guards see them, for saying what would be decided now.
    pub async fn reference(&self) -> Result<Reference, Error> {
        let sites = self.sites().await?;
        Ok(Reference { sites: sites.into_iter().map(|s| (s.id.clone(), s)).collect(), ..Reference::default() })
    }
}
