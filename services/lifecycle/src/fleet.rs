//! The one decider, over every kind of entity.

use crate::{Context, Decider, Device, Observed, Reference, Refusal, Request, Sighting, Site, Wait, bootstrap, device, site};
use fleet_schemas::{Event, Source, StreamId, Timestamp};
use std::sync::Arc;

/// The state of any stream. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    /// A device.
    Device(Arc<Device>),
    /// A site.
    Site(Arc<Site>),
    /// A bootstrap configuration.
    BootstrapConfig(Arc<bootstrap::Config>),
}

impl Entity {
    /// The device, if it is one.
    pub fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Self::Device(device) => Some(device),
            Self::Site(_) | Self::BootstrapConfig(_) => None,
        }
    }
    /// The site, if it is one.
    pub fn site(&self) -> Option<&Arc<Site>> {
        match self {
            Self::Site(site) => Some(site),
            Self::Device(_) | Self::BootstrapConfig(_) => None,
        }
    }
    /// The bootstrap configuration, if it is one.
    pub fn bootstrap_config(&self) -> Option<&Arc<bootstrap::Config>> {
        match self {
            Self::BootstrapConfig(config) => Some(config),
            Self::Device(_) | Self::Site(_) => None,
        }
    }
}

/// See the module.
pub struct Fleet;

impl Decider for Fleet {
    type State = Entity;
    type Event = Event;

    fn new(stream: &StreamId) -> Entity {
        match stream {
            StreamId::Device(id) => Entity::Device(Arc::new(Device::new(*id))),
            StreamId::Site(id) => Entity::Site(Arc::new(Site::new(id.clone()))),
            StreamId::BootstrapConfig(site, role) => Entity::BootstrapConfig(Arc::new(bootstrap::Config::new(site.clone(), role.clone()))),
        }
    }

    fn decide(state: &Entity, request: &Request, ctx: &Context<'_>) -> Result<Vec<Event>, Refusal> {
        if let Some(expected) = request.expected_version.filter(|v| *v != ctx.version) {
            return Err(Refusal::new(
                "version-conflict",
                "expected version",
                format!("version {expected}"),
                format!("version {}", ctx.version),
                format!("read the {} again and decide anew", noun(state)),
            ));
        }
        match state {
            Entity::Device(device) => device::decide(device, &request.ask, ctx).map(devices),
            Entity::Site(site) => site::decide(site, &request.ask, ctx).map(sites),
            Entity::BootstrapConfig(config) => bootstrap::decide(config, &request.ask, ctx).map(configs),
        }
    }

    fn observe(state: &Entity, sighting: &Sighting, ctx: &Context<'_>) -> Observed<Event> {
        match state {
            Entity::Device(device) => {
                let seen = device::observe(device, sighting, ctx);
                Observed { events: devices(seen.events), note: seen.note }
            }
            Entity::Site(site) => {
                let seen = site::observe(site, sighting, ctx);
                Observed { events: sites(seen.events), note: seen.note }
            }
            // No agent looks at what people decide.
            Entity::BootstrapConfig(_) => Observed::set_aside("wrong-stream"),
        }
    }

    fn expire(state: &Entity, wait: &Wait, ctx: &Context<'_>) -> Vec<Event> {
        match state {
            Entity::Device(device) => devices(device::expire(device, wait, ctx)),
            Entity::Site(site) => sites(site::expire(site, wait, ctx)),
            Entity::BootstrapConfig(_) => vec![],
        }
    }

    fn next_wait(state: &Entity) -> Option<(Timestamp, Wait)> {
        match state {
            Entity::Device(device) => device::next_wait(device),
            Entity::Site(site) => site::next_wait(site),
            Entity::BootstrapConfig(_) => None,
        }
    }

    fn plan(state: &Entity, ctx: &Context<'_>) -> Vec<Event> {
        match state {
            Entity::Device(device) => devices(device::plan(device, ctx)),
            Entity::Site(_) | Entity::BootstrapConfig(_) => vec![],
        }
    }

    fn evolve(state: &mut Entity, event: &Event, at: Timestamp) {
        match (state, event) {
            (Entity::Device(device), Event::Device(event)) => device::evolve(Arc::make_mut(device), event, at),
            (Entity::Site(site), Event::Site(event)) => site::evolve(Arc::make_mut(site), event, at),
            (Entity::BootstrapConfig(config), Event::BootstrapConfig(event)) => bootstrap::evolve(Arc::make_mut(config), event, at),
            // An event of another kind of stream cannot stand in this one: the codec decodes by the stream's kind.
            (Entity::Device(_), Event::Site(_) | Event::BootstrapConfig(_))
            | (Entity::Site(_), Event::Device(_) | Event::BootstrapConfig(_))
            | (Entity::BootstrapConfig(_), Event::Device(_) | Event::Site(_)) => {}
        }
    }
}

impl Fleet {
    /// Remembers a complete look at a source: soft state beside the fold, from which silence is judged.
    pub fn looked(state: &mut Entity, source: Source, at: Timestamp) {
        if let Entity::Site(site) = state {
            let looks = &mut Arc::make_mut(site).looks.0;
            let last = looks.entry(source).or_insert(at);
            *last = (*last).max(at);
        }
    }

    /// Whether a change of the reference from `before` to `now` can concern this state.
    pub fn concerned(state: &Entity, before: &Reference, now: &Reference) -> bool {
        let Entity::Device(device) = state else { return false };
        before.stale != now.stale || device.sites().any(|site| before.sites.get(site) != now.sites.get(site))
    }
}

/// What people call it.
fn noun(state: &Entity) -> &'static str {
    match state {
        Entity::Device(_) => "device",
        Entity::Site(_) => "site",
        Entity::BootstrapConfig(_) => "configuration",
    }
}

fn devices(events: Vec<fleet_schemas::DeviceEvent>) -> Vec<Event> {
    events.into_iter().map(Event::Device).collect()
}

fn sites(events: Vec<fleet_schemas::SiteEvent>) -> Vec<Event> {
    events.into_iter().map(Event::Site).collect()
}

fn configs(events: Vec<fleet_schemas::BootstrapConfigEvent>) -> Vec<Event> {
    events.into_iter().map(Event::BootstrapConfig).collect()
}
