//! The agent of one NetBox, bound to sites.

use super::client::Client;
use super::round::Round;
use super::row::SlurmLink;
use super::state::State;
use crate::error::{ClientError, ErrorClass};
use crate::{Complete, Look, Sweep};
use fleet_schemas::{LookFault, Micros, SiteId, Source};
use std::{collections::HashSet, path::PathBuf, time::Duration};
use tokio::time::Instant;

/// Where a NetBox is and what of it is ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Our name for this NetBox; part of every device's id, so it never changes.
    pub instance: String,
    /// Base URL.
    pub url: String,
    /// File with the token, v2 (`nbt_…`) or v1; read anew for each look.
    pub token_file: PathBuf,
    /// Slugs of the sites it speaks for; devices elsewhere are ignored.
    pub sites: Vec<SiteId>,
    /// Between polls of the feed; 60 s is usual.
    pub interval: Duration,
    /// Between full sweeps; 900 s is usual.
    pub sweep_every: Duration,
    /// How far back each poll reads: longer than the longest transaction; 600 s is usual.
    pub window: Duration,
    /// One call, body included; 30 s is usual.
    pub deadline: Duration,
    /// What links a device to a SLURM node; usually the custom field `slurm_node`.
    pub slurm_link: SlurmLink,
}

/// Looks at one NetBox.
pub struct Agent {
    pub(super) settings: Settings,
    pub(super) client: Client,
    /// Request ids of our own writes, whose echoes are no edits of people (rule 8). We write nothing yet.
    ours: HashSet<String>,
}

impl Agent {
    /// # Errors
    /// If the URL is none, or no site is named. Nothing is asked yet.
    pub fn new(settings: Settings) -> Result<Self, ClientError> {
        if settings.sites.is_empty() {
            return Err(ClientError::new(ErrorClass::Permanent, "sites of NetBox", "none is named", LookFault::NoData));
        }
        let client = Client::new(&settings.url, settings.deadline)?;
        Ok(Self { settings, client, ours: HashSet::new() })
    }
}

impl crate::Agent for Agent {
    const SOURCE: Source = Source::Netbox;

    fn sites(&self) -> &[SiteId] {
        &self.settings.sites
    }

    fn interval(&self) -> Duration {
        self.settings.interval
    }

    async fn look(&mut self, look: Look<'_>) -> Result<Sweep, ClientError> {
        let Settings { instance, token_file, window, .. } = &self.settings;
        let session = self.client.session(token_file)?;
        let before = State::load(look.memory, instance);
        let mut state = before.clone();
        // A site that is not bound any more is somebody else's: its devices are neither missing nor gone.
        state.known.retain(|_, known| self.settings.sites.contains(&known.site));
        let Look { now, half_time, .. } = look;
        let mut round = Round { settings: &self.settings, session, now, half_time, state, failed: None, whole: true };
        if let Err(error) = round.read_feed(micros(*window), &self.ours).await {
            // 403 = the token or a right (rule 12). Else a sweep that is due needs no feed, and heals what the feed does not tell.
            let stops = error.fault == LookFault::PermissionDenied || !round.is_sweep_due() || Instant::now() >= half_time;
            if stops {
                return Err(error);
            }
            round.failed = Some(error);
        }
        let noted = round.state.clone();
        match (round.go().await, &before.swept) {
            (Ok((observations, Round { state, failed, whole, .. })), _) => {
                let count = |site: &SiteId| state.known.values().filter(|k| k.site == *site).count() as i64;
                let complete = self.settings.sites.iter().filter(|_| whole).map(|site| Complete { site: site.clone(), count: count(site) });
                Ok(Sweep { observations, complete: complete.collect(), memory: state.changes_since(&before, instance), failed })
            }
            // Before the first sweep there is nothing worth keeping: the next look begins anew.
            (Err(error), None) => Err(error),
            // The feed was read: what it made dirty stays so, and is not asked for twice.
            (Err(error), Some(_)) => Ok(Sweep { memory: noted.changes_since(&before, instance), failed: Some(error), ..Sweep::default() }),
        }
    }
}

pub(crate) fn micros(span: Duration) -> Micros {
    Micros::try_from(span.as_micros()).unwrap_or(Micros::MAX)
}
