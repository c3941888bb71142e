//! `vault erase`: the user-data of a configuration becomes unreadable.

use crate::args::Of;
use crate::configuration::hub::Configuration;
use crate::folder::vault_file;
use anyhow::{Context, bail};
use fleet_schemas::{RoleName, SiteId, StreamId};

/// Destroys the data keys of a configuration, also beside a process that has the folder: it keeps none in memory.
pub async fn erase(of: &Of, site: SiteId, role: RoleName) -> anyhow::Result<()> {
    let config = StreamId::BootstrapConfig(site, role);
    let configuration = of.config.as_deref().map(Configuration::read).transpose()?;
    let erased = match configuration.as_ref().and_then(|c| c.vault.as_ref()) {
        Some(database) => fleet_hub::vault::erase_shared(&database.config()?, &config).await?,
        None => {
            let data =
                configuration.as_ref().map(|c| c.data.clone()).or(of.data.clone()).context("--data FOLDER or --config FILE says whose")?;
            let file = vault_file(&data);
            if !file.exists() {
                bail!("{}: there is no vault here", file.display());
            }
            fleet_hub::vault::erase(&file, &config).await.with_context(|| file.display().to_string())?
        }
    };
    match erased {
        0 => bail!("{config}: the vault has no key of it; nothing was erased"),
        _ => crate::print::lines(&format!(
            "{config}: its user-data can be read by nobody any more, in no version; backups of the vault still hold the key"
        )),
    }
    Ok(())
}
