//! Bootstrap configurations: those of a site, and every version of one.

use super::Reads;
use crate::db::Error;
use crate::fold::thaw;
use fleet_lifecycle::bootstrap::Config;
use fleet_schemas::{SealedUserData, SiteId, StreamId};
use std::sync::Arc;

/// One version of a configuration.
#[derive(Clone, Debug)]
pub struct ConfigVersion {
    /// As it stood then.
    pub config: Arc<Config>,
    /// The user-data that this version set, sealed.
    pub sealed: Option<SealedUserData>,
}

impl Reads {
    /// The configurations of a site by role, also those that were retired.
    pub async fn configs(&self, site: &SiteId) -> Result<Vec<Arc<Config>>, Error> {
        let sql = self.db.read.sql("SELECT id, state FROM stream WHERE id >= $1 AND id < $2 ORDER BY id");
        let sql = sql.with(format!("bootstrap-config/{site}/")).with(format!("bootstrap-config/{site}0"));
        let mut configs = Vec::new();
        for row in self.db.read.all(sql).await? {
            let (id, state) = (row.text("id")?, row.bytes("state")?);
            let stream: StreamId = id.parse().map_err(|_| Error::Corrupt(format!("`{id}` is no stream")))?;
            // A refusal alone leaves a stream without a version.
            configs.extend(thaw(&stream, &state)?.bootstrap_config().filter(|c| c.version > 0).cloned());
        }
        Ok(configs)
    }

    /// One version of a configuration.
    pub async fn config_version(&self, stream: &StreamId, version: u64) -> Result<Option<ConfigVersion>, Error> {
        let Ok(number) = i64::try_from(version) else { return Ok(None) };
        let sql = self.db.read.sql("SELECT state, sealed FROM config_version WHERE stream = $1 AND version = $2");
        let Some(row) = self.db.read.optional(sql.with(stream.to_string()).with(number)).await? else { return Ok(None) };
        let (state, sealed) = (row.bytes("state")?, row.opt_bytes("sealed")?);
        let entity = thaw(stream, &state)?;
        let config = entity.bootstrap_config().cloned().ok_or_else(|| Error::Corrupt(format!("{stream} is no configuration")))?;
        let sealed = sealed.map(|bytes| postcard::from_bytes(&bytes)).transpose();
        let sealed = sealed.map_err(|e| Error::Corrupt(format!("user-data of {stream}, version {version}: {e}")))?;
        Ok(Some(ConfigVersion { config, sealed }))
    }
}
