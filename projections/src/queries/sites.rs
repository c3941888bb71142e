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
        let rows: Vec<(String, Vec<u8>)> = sqlx::query_as("SELECT id, state FROM stream WHERE id >= 'site/' AND id < 'site0' ORDER BY id")
            .fetch_all(&self.db.read)
            .await?;
        let mut sites = Vec::new();
        for (id, state) in rows {
            let stream: StreamId = id.parse().map_err(|_| Error::Corrupt(format!("`{id}` is no stream")))?;
            sites.extend(thaw(&stream, &state)?.site().filter(|s| s.registered).cloned());
        }
        Ok(sites)
    }

    /// One registered site, and its version.
    pub async fn site(&self, id: &SiteId) -> Result<Option<(Arc<Site>, u64)>, Error> {
        let stream = StreamId::Site(id.clone());
        let row: Option<(i64, Vec<u8>)> = sqlx::query_as("SELECT version, state FROM stream WHERE id = $1")
            .bind(stream.to_string())
            .fetch_optional(&self.db.read)
            .await?;
        let Some((version, state)) = row else { return Ok(None) };
        Ok(thaw(&stream, &state)?.site().filter(|s| s.registered).map(|s| (s.clone(), version as u64)))
    }

    /// The sites as guards see them, for saying what would be decided now.
    pub async fn reference(&self) -> Result<Reference, Error> {
        let sites = self.sites().await?;
        Ok(Reference { sites: sites.into_iter().map(|s| (s.id.clone(), s)).collect(), ..Reference::default() })
    }
}
