//! The one decider, over every kind of entity.

use crate::{
    Context, Decider, Device, Exclusive, Observed, Reaction, Reference, Refusal, Request, Sighting, Site, Unclaimed, Wait, bootstrap,
    device, exclusive, site, unclaimed,
};
use fleet_schemas::{Event, Notice, Source, StreamId, Timestamp};
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
    /// A name that only one device may have.
    Exclusive(Arc<Exclusive>),
    /// A thing that no device claims.
    Unclaimed(Arc<Unclaimed>),
}

impl Entity {
    /// The device, if it is one.
    pub fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Self::Device(device) => Some(device),
            Self::Site(_) | Self::BootstrapConfig(_) | Self::Exclusive(_) | Self::Unclaimed(_) => None,
        }
    }
    /// The site, if it is one.
    pub fn site(&self) -> Option<&Arc<Site>> {
        match self {
            Self::Site(site) => Some(site),
            Self::Device(_) | Self::BootstrapConfig(_) | Self::Exclusive(_) | Self::Unclaimed(_) => None,
        }
    }
    /// The bootstrap configuration, if it is one.
    pub fn bootstrap_config(&self) -> Option<&Arc<bootstrap::Config>> {
        match self {
            Self::BootstrapConfig(config) => Some(config),
            Self::Device(_) | Self::Site(_) | Self::Exclusive(_) | Self::Unclaimed(_) => None,
        }
    }
    /// The name, if it is one.
    pub fn exclusive(&self) -> Option<&Arc<Exclusive>> {
        match self {
            Self::Exclusive(name) => Some(name),
            Self::Device(_) | Self::Site(_) | Self::BootstrapConfig(_) | Self::Unclaimed(_) => None,
        }
    }
    /// The unclaimed thing, if it is one.
    pub fn unclaimed(&self) -> Option<&Arc<Unclaimed>> {
        match self {
            Self::Unclaimed(thing) => Some(thing),
            Self::Device(_) | Self::Site(_) | Self::BootstrapConfig(_) | Self::Exclusive(_) => None,
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
            StreamId::Exclusive { kind, value } => Entity::Exclusive(Arc::new(Exclusive::new(*kind, value.clone()))),
            StreamId::Unclaimed { site, source, native_id } => {
                Entity::Unclaimed(Arc::new(Unclaimed::new(site.clone(), *source, native_id.clone())))
            }
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
            Entity::Exclusive(name) => exclusive::decide(name, &request.ask).map(|events| wrapped(events, Event::Exclusive)),
            Entity::Unclaimed(_) => {
                let seen = format!("`{}` for a thing that no device claims", fleet_schemas::verbs::name_of(&request.ask));
                Err(Refusal::new("wrong-stream", "stream", "a device", seen, "link it to a device in NetBox"))
            }
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
            // No agent looks at what people, or other streams, decide.
            Entity::BootstrapConfig(_) | Entity::Exclusive(_) => Observed::set_aside("wrong-stream"),
            Entity::Unclaimed(thing) => {
                let seen = unclaimed::observe(thing, sighting, ctx);
                Observed { events: wrapped(seen.events, Event::Unclaimed), note: seen.note }
            }
        }
    }

    fn heed(state: &Entity, notice: &Notice, ctx: &Context<'_>) -> Observed<Event> {
        match state {
            Entity::Device(device) => {
                let heard = device::heed(device, notice, ctx);
                Observed { events: devices(heard.events), note: heard.note }
            }
            Entity::Site(_) | Entity::BootstrapConfig(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => {
                Observed::set_aside("wrong-stream")
            }
        }
    }

    fn expire(state: &Entity, wait: &Wait, ctx: &Context<'_>) -> Vec<Event> {
        match state {
            Entity::Device(device) => devices(device::expire(device, wait, ctx)),
            Entity::Site(site) => sites(site::expire(site, wait, ctx)),
            Entity::BootstrapConfig(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => vec![],
        }
    }

    fn next_wait(state: &Entity) -> Option<(Timestamp, Wait)> {
        match state {
            Entity::Device(device) => device::next_wait(device),
            Entity::Site(site) => site::next_wait(site),
            Entity::BootstrapConfig(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => None,
        }
    }

    fn plan(state: &Entity, ctx: &Context<'_>) -> Vec<Event> {
        match state {
            Entity::Device(device) => devices(device::plan(device, ctx)),
            Entity::Site(_) | Entity::BootstrapConfig(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => vec![],
        }
    }

    fn evolve(state: &mut Entity, event: &Event, at: Timestamp) {
        match (state, event) {
            (Entity::Device(device), Event::Device(event)) => device::evolve(Arc::make_mut(device), event, at),
            (Entity::Site(site), Event::Site(event)) => site::evolve(Arc::make_mut(site), event, at),
            (Entity::BootstrapConfig(config), Event::BootstrapConfig(event)) => bootstrap::evolve(Arc::make_mut(config), event, at),
            (Entity::Exclusive(name), Event::Exclusive(event)) => exclusive::evolve(Arc::make_mut(name), event),
            (Entity::Unclaimed(thing), Event::Unclaimed(event)) => unclaimed::evolve(Arc::make_mut(thing), event, at),
            // An event of another kind of stream cannot stand in this one: the codec decodes by the stream's kind.
            (Entity::Device(_), Event::Site(_) | Event::BootstrapConfig(_) | Event::Exclusive(_) | Event::Unclaimed(_))
            | (Entity::Site(_), Event::Device(_) | Event::BootstrapConfig(_) | Event::Exclusive(_) | Event::Unclaimed(_))
            | (Entity::BootstrapConfig(_), Event::Device(_) | Event::Site(_) | Event::Exclusive(_) | Event::Unclaimed(_))
            | (Entity::Exclusive(_), Event::Device(_) | Event::Site(_) | Event::BootstrapConfig(_) | Event::Unclaimed(_))
            | (Entity::Unclaimed(_), Event::Device(_) | Event::Site(_) | Event::BootstrapConfig(_) | Event::Exclusive(_)) => {}
        }
    }

    fn react(stream: &StreamId, event: &Event) -> Vec<Reaction> {
        match (stream, event) {
            (StreamId::Device(id), Event::Device(event)) => device::react(*id, event),
            (StreamId::Exclusive { kind, value }, Event::Exclusive(event)) => exclusive::react(*kind, value, event),
            (
                StreamId::Device(_)
                | StreamId::Site(_)
                | StreamId::BootstrapConfig(..)
                | StreamId::Exclusive { .. }
                | StreamId::Unclaimed { .. },
                Event::Device(_) | Event::Site(_) | Event::BootstrapConfig(_) | Event::Exclusive(_) | Event::Unclaimed(_),
            ) => vec![],
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
        Entity::Exclusive(_) => "name",
        Entity::Unclaimed(_) => "thing",
    }
}

fn devices(events: Vec<fleet_schemas::DeviceEvent>) -> Vec<Event> {
    events.into_iter().map(Event::Device).collect()
}

fn sites(events: Vec<fleet_schemas::SiteEvent>) -> Vec<Event> {
    events.into_iter().map(Event::Site).collect()
}

fn wrapped<E>(events: Vec<E>, wrap: fn(E) -> Event) -> Vec<Event> {
    events.into_iter().map(wrap).collect()
}

fn configs(events: Vec<fleet_schemas::BootstrapConfigEvent>) -> Vec<Event> {
    events.into_iter().map(Event::BootstrapConfig).collect()
}
