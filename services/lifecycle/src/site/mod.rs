//! A site: its sources with their freshness and epochs, and the profiles of its roles.

mod decide;
mod observe;
mod settings;

use crate::{KnownType, Wait, condition_type};
use fleet_schemas::{
    BootId, LookFault, Micros, RoleProfile, SECOND, SiteEvent, SiteId, Source, SourceConfig, Timestamp, TypeDefinition, WaitKind,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use decide::decide;
pub use observe::{expire, observe};
pub use settings::Freeze;

/// A source is stale when this many intervals passed without a complete look.
pub const STALE_AFTER_INTERVALS: i64 = 3;

/// The state of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Its name.
    pub id: SiteId,
    /// Whether it was registered.
    pub registered: bool,
    /// Its sources.
    pub sources: BTreeMap<Source, SourceState>,
    /// Profiles by role.
    pub profiles: BTreeMap<String, RoleProfile>,
    /// Freezes by name: nothing here advances or is destroyed while one stands.
    pub freezes: BTreeMap<String, Freeze>,
    /// Types of conditions that are registered here, by name.
    pub types: BTreeMap<String, TypeDefinition>,
    /// Who answers for a source.
    pub source_teams: BTreeMap<Source, String>,
    /// Who answers for the devices of a role.
    pub role_teams: BTreeMap<String, String>,
    /// Epoch and run of the sources that it had: one that comes back goes on from there, so that no place in its order comes twice.
    pub former: BTreeMap<Source, (u64, Option<BootId>)>,
    /// When each source was last looked at completely.
    #[serde(skip)]
    pub looks: Soft<BTreeMap<Source, Timestamp>>,
}

/// State beside the fold: kept by the leader, restored from Progress, never compared and never in a read model.
#[derive(Clone, Debug, Default)]
pub struct Soft<T>(pub T);

impl<T> PartialEq for Soft<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// One source of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceState {
    /// Its settings.
    pub config: SourceConfig,
    /// Whether what it last said counts as known.
    pub fresh: bool,
    /// Since when that is so.
    pub changed_at: Timestamp,
    /// The last complete look that the journal tells of.
    pub last_look_at: Option<Timestamp>,
    /// Why looks fail, while they do.
    pub fault: Option<LookFault>,
    /// In words.
    pub problem: String,
    /// The epoch that counts; 0 = none granted.
    pub epoch: u64,
    /// Whose it is.
    pub boot: Option<BootId>,
}

impl SourceState {
    /// Seconds between looks, as a span.
    pub fn interval(&self) -> Micros {
        self.config.interval_seconds.max(1) * SECOND
    }
    /// How long silence may last.
    pub fn patience(&self) -> Micros {
        self.interval() * STALE_AFTER_INTERVALS
    }
}

impl Site {
    /// A site that nothing is known of.
    pub fn new(id: SiteId) -> Self {
        Self {
            id,
            registered: false,
            sources: BTreeMap::new(),
            profiles: BTreeMap::new(),
            freezes: BTreeMap::new(),
            types: BTreeMap::new(),
            source_teams: BTreeMap::new(),
            role_teams: BTreeMap::new(),
            former: BTreeMap::new(),
            looks: Soft::default(),
        }
    }

    /// The type of condition of this name as it counts here: built in, or registered here.
    pub fn condition_type(&self, name: &str) -> Option<KnownType<'_>> {
        condition_type(name).map(KnownType::from).or_else(|| self.types.get(name).map(KnownType::from))
    }
}

/// The source that falls silent next, or the freeze that ends.
pub fn next_wait(site: &Site) -> Option<(Timestamp, Wait)> {
    let due = |(source, state): (&Source, &SourceState)| {
        let last = site.looks.0.get(source).copied().or(state.last_look_at)?;
        state.fresh.then(|| (last.plus(state.patience()), Wait { kind: WaitKind::Look, name: source.to_string() }))
    };
    let ends = |(name, freeze): (&String, &Freeze)| Some((freeze.until?, Wait { kind: WaitKind::FreezeEnd, name: name.clone() }));
    site.sources.iter().filter_map(due).chain(site.freezes.iter().filter_map(ends)).min()
}

/// Folds an event in.
pub fn evolve(site: &mut Site, event: &SiteEvent, at: Timestamp) {
    match event {
        SiteEvent::SiteRegistered(e) => {
            site.registered = true;
            has_sources(site, &e.sources, at);
        }
        SiteEvent::RoleProfileSet(e) => {
            site.profiles.insert(e.role.clone(), e.profile.clone());
        }
        SiteEvent::EpochGranted(e) => on(site, e.source, |s| (s.epoch, s.boot) = (e.epoch, Some(e.boot))),
        SiteEvent::FreshnessChanged(e) => on(site, e.source, |s| {
            (s.fresh, s.changed_at, s.last_look_at) = (e.fresh, at, e.last_look_at);
            (s.fault, s.problem) = (e.fault, e.message.clone());
        }),
        SiteEvent::TeamsSet(e) => {
            e.sources.iter().for_each(|t| set(&mut site.source_teams, t.source, t.team.clone()));
            e.roles.iter().for_each(|t| set(&mut site.role_teams, t.role.clone(), t.team.clone()));
        }
        SiteEvent::FreezePlaced(e) => {
            let freeze = Freeze { by: e.by.clone(), reason: e.reason.clone(), since: at, until: e.until };
            site.freezes.insert(e.name.clone(), freeze);
        }
        SiteEvent::FreezeLifted(e) => {
            site.freezes.remove(&e.name);
        }
        SiteEvent::TypeRegistered(e) => {
            site.types.insert(e.definition.name.clone(), e.definition.clone());
        }
        SiteEvent::LooksFailing(e) => on(site, e.source, |s| (s.fault, s.problem) = (e.fault, e.message.clone())),
    }
}

/// What is known of a source that stays, stays.
fn has_sources(site: &mut Site, sources: &[SourceConfig], at: Timestamp) {
    let (stay, gone) = std::mem::take(&mut site.sources).into_iter().partition(|(had, _)| sources.iter().any(|c| c.source == *had));
    let gone: BTreeMap<Source, SourceState> = gone;
    site.sources = stay;
    site.former.extend(gone.into_iter().map(|(source, had)| (source, (had.epoch, had.boot))));
    for config in sources {
        let (epoch, boot) = site.former.remove(&config.source).unwrap_or_default();
        let problem = String::new();
        let fresh =
            SourceState { config: config.clone(), fresh: false, changed_at: at, last_look_at: None, fault: None, problem, epoch, boot };
        site.sources.entry(config.source).or_insert(fresh).config = config.clone();
    }
}

fn set<K: Ord>(teams: &mut BTreeMap<K, String>, of: K, team: Option<String>) {
    match team {
        Some(team) => drop(teams.insert(of, team)),
        None => drop(teams.remove(&of)),
    }
}

fn on(site: &mut Site, source: Source, change: impl FnOnce(&mut SourceState)) {
    if let Some(state) = site.sources.get_mut(&source) {
        change(state);
    }
}
