//! Sites: all of them, as the read model has them.

use super::Reads;
use crate::db::Error;
use crate::fold::thaw;
use fleet_lifecycle::{Reference, Site};
use fleet_schemas::StreamId;
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

    /// The sites as guards see them, for saying what would be decided now.
    pub async fn reference(&self) -> Result<Reference, Error> {
        let sites = self.sites().await?;
        Ok(Reference { sites: sites.into_iter().map(|s| (s.id.clone(), s)).collect(), ..Reference::default() })
    }
}
