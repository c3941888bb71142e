//! The reference: what every device's guards may know of its site.

use crate::{Entity, KnownType, Site, bootstrap::Config, condition_type, site::SourceState};
use fleet_schemas::{RoleName, RoleProfile, SiteId, Source, Timestamp};
use std::{collections::BTreeMap, sync::Arc};

/// The streams of partition 0, as confirmed up to `next`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reference {
    /// Next offset of partition 0.
    pub next: u64,
    /// Whether the reader has fallen behind; advance and destroy edges are refused then.
    pub stale: bool,
    /// Whether partition 0 cannot be read on: nothing newer will come.
    pub broken: bool,
    /// When the standing term of partition 0 was claimed.
    pub claimed_at: Timestamp,
    /// The sites.
    pub sites: BTreeMap<SiteId, Arc<Site>>,
    /// The bootstrap configurations, also those that were retired.
    pub configs: BTreeMap<(SiteId, RoleName), Arc<Config>>,
}

impl Reference {
    /// What these streams say; the rest is as in [`Reference::default`].
    pub fn of<'e>(entities: impl Iterator<Item = &'e Entity>) -> Self {
        let mut out = Self::default();
        for entity in entities {
            match entity {
                Entity::Device(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => {}
                Entity::Site(site) => drop(out.sites.insert(site.id.clone(), site.clone())),
                Entity::BootstrapConfig(c) => drop(out.configs.insert((c.site.clone(), c.role.clone()), c.clone())),
            }
        }
        out
    }

    /// The bootstrap configuration of `role` at `site`, if one stands.
    pub fn config(&self, site: &SiteId, role: &str) -> Option<&Config> {
        let role: RoleName = role.parse().ok()?;
        self.configs.get(&(site.clone(), role)).map(Arc::as_ref).filter(|c| c.standing)
    }

    /// Whether nothing that a device's plan reads differs. Bootstrap configurations are read by requests alone.
    pub fn same_for_plans(&self, other: &Self) -> bool {
        self.stale == other.stale && self.sites == other.sites
    }

    /// The profile of `role` at `site`.
    pub fn profile(&self, site: &SiteId, role: &str) -> Option<&RoleProfile> {
        self.sites.get(site)?.profiles.get(role)
    }

    /// A source of a site.
    pub fn source(&self, site: &SiteId, source: Source) -> Option<&SourceState> {
        self.sites.get(site)?.sources.get(&source)
    }

    /// Whether what `source` last said of `site` counts as known. Never looked = stale.
    pub fn fresh(&self, site: &SiteId, source: Source) -> bool {
        self.source(site, source).is_some_and(|s| s.fresh)
    }

    /// Whether it was so without a break since `since`.
    pub fn fresh_since(&self, site: &SiteId, source: Source, since: Timestamp) -> bool {
        self.source(site, source).is_some_and(|s| s.fresh && s.changed_at <= since)
    }

    /// Whether any site registers a type of condition of this name.
    pub fn registers(&self, name: &str) -> bool {
        self.sites.values().any(|s| s.types.contains_key(name))
    }

    /// The type of condition of this name as it counts at `site`: built in, or registered there.
    pub fn condition_type<'a>(&'a self, site: &SiteId, name: &str) -> Option<KnownType<'a>> {
        let built_in = condition_type(name).map(KnownType::from);
        built_in.or_else(|| self.sites.get(site)?.types.get(name).map(KnownType::from))
    }

    /// The team that answers for a source at a site, or else for its devices of a role.
    pub fn team(&self, site: &SiteId, source: Option<Source>, role: &str) -> Option<&str> {
        let site = self.sites.get(site)?;
        let of_source = source.and_then(|s| site.source_teams.get(&s));
        of_source.or_else(|| site.role_teams.get(role)).map(String::as_str)
    }
}
