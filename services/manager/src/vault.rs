//! `vault erase`: the user-data of a configuration becomes unreadable.

use crate::folder::vault_file;
use anyhow::{Context, bail};
use fleet_schemas::{RoleName, SiteId, StreamId};
use std::path::Path;

/// Destroys the data keys of a configuration, also beside a process that has the folder: it keeps none in memory.
pub async fn erase(data: &Path, site: SiteId, role: RoleName) -> anyhow::Result<()> {
    let file = vault_file(data);
    if !file.exists() {
        bail!("{}: there is no vault here", file.display());
    }
    let config = StreamId::BootstrapConfig(site, role);
    match fleet_hub::vault::erase(&file, &config).await.with_context(|| file.display().to_string())? {
        0 => bail!("{config}: the vault has no key of it; nothing was erased"),
        _ => crate::print::lines(&format!(
            "{config}: its user-data can be read by nobody any more, in no version; backups of the vault still hold the key"
        )),
    }
    Ok(())
}
