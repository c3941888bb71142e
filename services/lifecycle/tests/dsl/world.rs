//! Where the stories play: two sites, three roles.

use fleet_lifecycle::bootstrap::{self, Config};
use fleet_lifecycle::{Reference, Site, site};
use fleet_schemas::{
    BootstrapConfigCreated, BootstrapConfigRetired, BootstrapFields, DeviceId, Dhcp, FreezeLifted, FreezePlaced, FreshnessChanged, Mode,
    Provisioner, RoleProfile, RoleProfileSet, Scheduler, SiteEvent, SiteId, SiteRegistered, Source, SourceConfig, Timestamp,
};
use std::sync::Arc;

/// NetBox's name, part of every device's id.
pub const INSTANCE: &str = "netbox-main";
/// The device's id there.
pub const NETBOX_ID: i64 = 7;
/// When every story begins.
pub const START: Timestamp = Timestamp(1_767_225_600_000_000);
/// Seconds between looks at either source.
pub const INTERVAL: i64 = 60;

pub fn device_id() -> DeviceId {
    DeviceId::from_netbox(INSTANCE, NETBOX_ID)
}

pub fn at(site: &str) -> SiteId {
    site.parse().unwrap()
}

pub fn source(name: &str) -> Source {
    name.parse().unwrap()
}

/// `gpu` has SLURM and its proof, `cpu` has no scheduler; every other role has no profile.
pub fn profile(scheduler: Scheduler, proofs: &[&str]) -> RoleProfile {
    RoleProfile {
        provisioner: Provisioner::External,
        scheduler,
        dhcp: Dhcp::None,
        workload_proofs: proofs.iter().map(|p| (*p).to_owned()).collect(),
        bom: None,
        firmware: None,
        validation: None,
        burn_in: None,
    }
}

pub fn sources() -> Vec<SourceConfig> {
    Source::ALL.iter().map(|s| SourceConfig { source: *s, interval_seconds: INTERVAL, mode: Mode::Observe }).collect()
}

/// What a configuration of these says; every machine of a role with image and flavor can be installed from it.
pub fn boots(image: Option<&str>, flavor: Option<&str>) -> BootstrapFields {
    let text = |value: Option<&str>| value.map(str::to_owned);
    BootstrapFields { image: text(image), flavor: text(flavor), features: vec!["h100".into()], gres: Some("gpu:h100:8".into()) }
}

fn config(site: &str, role: &str, fields: BootstrapFields) -> Config {
    let mut config = Config::new(at(site), role.parse().unwrap());
    let created = BootstrapConfigCreated { version: 1, by: "hpc".into(), fields, user_data: None };
    bootstrap::evolve(&mut config, &created.into(), Timestamp(0));
    config
}

/// A role's bootstrap configuration at lhr1 says this now; none: it was retired.
pub fn gives_config(role: &str, fields: Option<BootstrapFields>) -> Change {
    let role = role.to_owned();
    Box::new(move |reference, now| {
        reference.next += 1;
        let mut config = config("lhr1", &role, fields.clone().unwrap_or(boots(None, None)));
        if fields.is_none() {
            bootstrap::evolve(&mut config, &BootstrapConfigRetired { version: 2, by: "hpc".into() }.into(), now);
        }
        reference.configs.insert((at("lhr1"), config.role.clone()), Arc::new(config));
    })
}

/// Both sites registered, every source fresh for long; role `gpu` can be installed.
pub fn reference() -> Reference {
    let sites = ["lhr1", "ams1"].map(|name| {
        let mut state = Site::new(at(name));
        let mut fold = |event: SiteEvent| site::evolve(&mut state, &event, Timestamp(0));
        fold(SiteRegistered { sources: sources() }.into());
        for (role, profile) in [("gpu", profile(Scheduler::Slurm, &["slurm-idle"])), ("cpu", profile(Scheduler::None, &[]))] {
            fold(RoleProfileSet { role: role.into(), profile }.into());
        }
        for source in Source::ALL {
            fold(freshness(*source, true, ""));
        }
        (at(name), Arc::new(state))
    });
    let configs = ["lhr1", "ams1"].map(|site| {
        let config = config(site, "gpu", boots(Some("ubuntu-22.04-gpu"), Some("bm.gpu.h100")));
        ((at(site), config.role.clone()), Arc::new(config))
    });
    Reference { next: 10, sites: sites.into_iter().collect(), configs: configs.into_iter().collect(), ..Reference::default() }
}

pub fn freshness(source: Source, fresh: bool, message: &str) -> SiteEvent {
    FreshnessChanged { source, fresh, last_look_at: None, fault: None, message: message.into() }.into()
}

/// A change of the reference.
pub type Change = Box<dyn Fn(&mut Reference, Timestamp)>;

fn site_event(name: &str, event: SiteEvent) -> Change {
    let id = at(name);
    Box::new(move |reference, now| {
        reference.next += 1;
        let state = reference.sites.entry(id.clone()).or_insert_with(|| Arc::new(Site::new(id.clone())));
        site::evolve(Arc::make_mut(state), &event, now);
    })
}

pub fn goes_stale(name: &str) -> Change {
    site_event("lhr1", freshness(source(name), false, "no complete look for 3 intervals of 60 s"))
}

pub fn is_fresh_again(name: &str) -> Change {
    site_event("lhr1", freshness(source(name), true, ""))
}

pub fn gives_profile(role: &str, profile: RoleProfile) -> Change {
    site_event("lhr1", RoleProfileSet { role: role.into(), profile }.into())
}

pub fn freezes(name: &str, until: Option<Timestamp>) -> Change {
    site_event("lhr1", FreezePlaced { name: name.into(), by: "alice".into(), reason: "the hall moves".into(), until }.into())
}

pub fn thaws(name: &str) -> Change {
    site_event("lhr1", FreezeLifted { name: name.into(), by: "alice".into() }.into())
}

/// The reader of partition 0 falls behind, or has caught up again.
pub fn lags(stale: bool) -> Change {
    Box::new(move |reference, _| reference.stale = stale)
}
