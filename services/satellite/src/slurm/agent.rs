//! The agent of one site's SLURM.

use super::client::Client;
use super::drains::Remembered;
use super::translate::{Confirmed, Translated, to_confirm, translate};
use super::unclaimed;
use crate::{ClientError, Complete, ListedDevice, Look, MemoryChanges, Seen, Sweep, slurm::token};
use fleet_schemas::{SiteId, Source, StreamId};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Absences confirmed in one look; the rest wait for the next. A look is two calls, not one per node.
const CONFIRMED_PER_LOOK: usize = 50;

/// Where a site's SLURM is.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The site.
    pub site: SiteId,
    /// slurmrestd's base URL, `http://head01:6820`.
    pub url: String,
    /// X-SLURM-USER-NAME; 22.05 needs it.
    pub user: String,
    /// File with the JWT; read anew for each look.
    pub jwt_file: PathBuf,
    /// Between looks; 60 s is usual.
    pub interval: Duration,
    /// One call, body included; 30 s is usual, at least 15 s are taken.
    pub deadline: Duration,
}

/// Looks at one site's SLURM.
pub struct Agent {
    pub(super) settings: Settings,
    pub(super) client: Client,
}

impl Agent {
    /// # Errors
    /// If the URL is none. Nothing is asked yet.
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        Ok(Self { client: Client::new(&settings)?, settings })
    }
}

impl crate::Agent for Agent {
    const SOURCE: Source = Source::Slurm;
    const LINK: Option<fn(&ListedDevice) -> Option<&str>> = Some(|device| device.slurm_node.as_deref());

    fn sites(&self) -> &[SiteId] {
        std::slice::from_ref(&self.settings.site)
    }

    fn interval(&self) -> Duration {
        self.settings.interval
    }

    async fn look(&mut self, look: Look<'_>) -> Result<Sweep, ClientError> {
        let token = token::read(&self.settings.jwt_file, look.now)?;
        let mut listing = self.client.list(&token).await?;
        let site = &self.settings.site;
        // Two agents of one source share a memory: keys begin with the site.
        let prefix = format!("{site}/");
        let old: BTreeMap<String, Remembered> = look.memory.under(&prefix).map(|(name, r)| (name.to_owned(), r)).collect();
        for name in to_confirm(&listing.entries, look.devices, &old).into_iter().take(CONFIRMED_PER_LOOK) {
            if Instant::now() >= look.half_time {
                break;
            }
            let late = |_| Confirmed::NotKnown("GET of the node: no answer while there was time".into());
            let answer = timeout_at(look.half_time, self.client.confirm(&name, &token)).await.unwrap_or_else(late);
            listing.confirmed.insert(name, answer);
        }
        let Translated { seen, remembered } = translate(&listing, look.devices, &old, look.now);
        let aside = format!("unclaimed/{site}/");
        let noted: BTreeMap<String, unclaimed::Noted> = look.memory.under(&aside).map(|(name, n)| (name.to_owned(), n)).collect();
        let nobodys = unclaimed::judge(&listing.entries, look.devices, &noted);
        tracing::debug!(%site, listed = listing.entries.len(), unclaimed = nobodys.seen.len(), "listed SLURM nodes");
        let mut memory = MemoryChanges::default();
        for (name, new) in nobodys.remembered {
            match new {
                Some(new) => memory.put(format!("{aside}{name}"), &new),
                None => memory.remove(format!("{aside}{name}")),
            }
        }
        for (name, new) in remembered {
            match new {
                Some(new) => memory.put(format!("{prefix}{name}"), &new),
                None => memory.remove(format!("{prefix}{name}")),
            }
        }
        let observations = seen.into_iter().map(|(device, seen)| Seen {
            stream: StreamId::Device(device.id),
            site: site.clone(),
            native_id: seen.slurm_node.clone(),
            fact: seen.into(),
            observed_at: look.now,
        });
        let nobodys = nobodys.seen.into_iter().map(|(name, seen)| Seen {
            stream: StreamId::Unclaimed { site: site.clone(), source: Source::Slurm, native_id: name.as_str().into() },
            site: site.clone(),
            native_id: name,
            fact: seen.into(),
            observed_at: look.now,
        });
        let observations = observations.chain(nobodys);
        let count = i64::try_from(listing.entries.len()).unwrap_or(i64::MAX);
        Ok(Sweep { observations: observations.collect(), complete: vec![Complete { site: site.clone(), count }], memory, failed: None })
    }
}
