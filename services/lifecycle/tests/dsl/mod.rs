//! given / when / then for the deciders. A story begins with facts, something happens, and its events are read in words:
//!
//! ```text
//! given([in_service()]).when(drain()).then(["operation drain of alice", "InService -> Draining by 10, then stay", "wait drain +7d"]);
//! given([ready()]).when(decommission()).then_refused("not-available");
//! ```
//!
//! Steps run as in the journal, see [`run`].

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

pub mod asks;
pub mod facts;
pub mod run;
pub mod tell;

pub mod world;

pub use asks::*;
pub use facts::*;
pub use run::{Came, Run};
pub use world::*;

use fleet_lifecycle::{Device, Entity, Refusal, Site, bootstrap};
use fleet_schemas::{
    Actor, Ask, DeviceEvent, Event, ExclusiveKind, Micros, Notice, Phase, SECOND, SiteEvent, Source, StreamId, TaskId, TaskKind,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tell::Teller;

/// Something that came before.
pub struct Given(Box<dyn FnOnce(Story) -> Story>);

impl Given {
    pub fn new(tell: impl FnOnce(Story) -> Story + 'static) -> Self {
        Self(Box::new(tell))
    }
    /// The story with this in it.
    pub fn told(self, story: Story) -> Story {
        self.0(story)
    }
    /// And then this.
    pub fn and(self, next: Given) -> Self {
        Self::new(|story| next.0(self.0(story)))
    }
}

/// A stream, and what came last.
#[derive(Clone)]
pub struct Story {
    pub run: Run,
    last: Came,
    actor: Actor,
    reason: String,
    version: Option<u64>,
}

/// The story of a device that others may contend with: what it claims is told, and granted when the story says so.
pub fn given_contended<const N: usize>(facts: [Given; N]) -> Story {
    let mut story = story(StreamId::Device(device_id()), []);
    story.run.tells_claims = true;
    facts.into_iter().fold(story, |story, fact| (fact.0)(story))
}

/// The story of a serial.
pub fn given_serial<const N: usize>(facts: [Given; N]) -> Story {
    story(StreamId::Exclusive { kind: ExclusiveKind::Serial, value: "sn7".into() }, facts)
}

/// The story of a SLURM node at lhr1 that no device claims.
pub fn given_unclaimed<const N: usize>(facts: [Given; N]) -> Story {
    story(StreamId::Unclaimed { site: at("lhr1"), source: Source::Slurm, native_id: "gpu09".into() }, facts)
}

/// A device's story. It is alone in what it claims: every name is granted at once.
pub fn given<const N: usize>(facts: [Given; N]) -> Story {
    let mut story = story(StreamId::Device(device_id()), []);
    story.run.alone = true;
    facts.into_iter().fold(story, |story, fact| (fact.0)(story))
}

/// A site's story.
pub fn given_site<const N: usize>(facts: [Given; N]) -> Story {
    story(StreamId::Site(at("lhr1")), facts)
}

/// The story of a bootstrap configuration: role `gpu` at lhr1.
pub fn given_config<const N: usize>(facts: [Given; N]) -> Story {
    story(StreamId::BootstrapConfig(at("lhr1"), "gpu".parse().unwrap()), facts)
}

fn story<const N: usize>(stream: StreamId, facts: [Given; N]) -> Story {
    let alice = Actor { subject: "alice".into(), client: "fmctl".into(), on_behalf_of: None, reach: vec!["*".into()] };
    let run = Run::new(stream, reference(), START);
    let begun = Story { run, last: Came::default(), actor: alice, reason: "on purpose".into(), version: None };
    facts.into_iter().fold(begun, |story, fact| (fact.0)(story))
}

/// An agent saw this.
pub fn seen(look: Look) -> Given {
    Given::new(|story| story.seen(look))
}

/// This was asked, and granted.
pub fn asked(ask: impl Into<Ask>) -> Given {
    let ask = ask.into();
    Given::new(move |story| {
        let story = story.when(ask.clone());
        assert_eq!(story.last.refusal, None, "a story is built on what is granted: {ask:?}");
        story
    })
}

/// This stands in the history.
pub fn happened(event: impl Into<DeviceEvent>) -> Given {
    let event = Event::Device(event.into());
    Given::new(|mut story| {
        story.run.happened(event);
        story
    })
}

/// This stands in the site's history.
pub fn happened_at_site(event: impl Into<SiteEvent>) -> Given {
    let event = Event::Site(event.into());
    Given::new(|mut story| {
        story.run.happened(event);
        story
    })
}

/// So much time passed.
pub fn after(span: Micros) -> Given {
    Given::new(move |story| story.after(span))
}

/// The reference changed.
pub fn meanwhile(change: Change) -> Given {
    Given::new(|story| story.reference_changes(change))
}

/// The state is otherwise than any event of this build makes it.
pub fn somehow(change: impl FnOnce(&mut Device) + 'static) -> Given {
    Given::new(|mut story| {
        let Entity::Device(device) = &mut story.run.entity else { panic!("not a device") };
        change(Arc::make_mut(device));
        story
    })
}

impl Story {
    // What happens.

    pub fn when(mut self, ask: impl Into<Ask>) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        self.last = self.run.ask(&ask.into(), self.version.take(), &self.actor, &self.reason);
        self
    }

    /// Another stream told it this.
    pub fn hears(mut self, notice: impl Into<Notice>) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        self.last = self.run.hear(&notice.into());
        self
    }

    pub fn seen(mut self, look: Look) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        let sighting = look.sighting(&mut self.run);
        self.last = self.run.see(&sighting);
        self
    }

    /// Seen by a client whose right reaches these sites.
    pub fn seen_by(mut self, look: Look, reach: &[&str]) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        let sighting = look.sighting(&mut self.run);
        self.last = self.run.see_by(&sighting, reach.iter().map(|s| (*s).to_owned()).collect());
        self
    }

    /// Time passes, and every deadline in it; what they led to is told as one.
    pub fn after(mut self, span: Micros) -> Self {
        let came = self.run.pass(self.run.now.plus(span));
        self.last = Came { at: self.run.now, ..Came::default() };
        for one in came {
            self.last.at = one.at;
            self.last.events.extend(one.events);
            self.last.planned.extend(one.planned);
        }
        self
    }

    pub fn reference_changes(mut self, change: Change) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        let mut reference = self.run.reference.clone();
        change(&mut reference, self.run.now);
        self.last = self.run.refer(reference);
        self
    }

    /// Another hub leads; every stream is planned once.
    pub fn taken_over(mut self) -> Self {
        self.run.now = self.run.now.plus(SECOND);
        self.run.taken_over();
        self.last = self.run.plan();
        self
    }

    // Who asks, and how.

    pub fn reaching(mut self, sites: &[&str]) -> Self {
        self.actor.reach = sites.iter().map(|s| (*s).to_owned()).collect();
        self
    }
    pub fn expecting_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }
    pub fn saying(mut self, reason: &str) -> Self {
        self.reason = reason.into();
        self
    }

    // What came of it.

    #[track_caller]
    pub fn then<const N: usize>(self, expected: [&str; N]) -> Self {
        assert_eq!(self.last.refusal, None, "refused");
        assert_eq!(self.last.note, None, "set aside");
        assert_eq!(self.told(&self.last.events), expected, "the events");
        self
    }

    #[track_caller]
    pub fn and_plans<const N: usize>(self, expected: [&str; N]) -> Self {
        assert_eq!(self.told(&self.last.planned), expected, "the plan");
        self
    }

    /// No event, neither by the input nor by the plan.
    #[track_caller]
    pub fn then_nothing(self) -> Self {
        self.then(nothing()).and_plans(nothing())
    }

    #[track_caller]
    pub fn then_noted(self, note: &str) -> Self {
        assert_eq!(self.last.note, Some(note), "the note");
        assert_eq!(self.last.all().count(), 0, "set aside, and yet: {:?}", self.last);
        self
    }

    #[track_caller]
    pub fn then_refused(self, code: &str) -> Refused {
        let Some(refusal) = self.last.refusal.clone() else { panic!("granted: {:?}", self.told(&self.last.events)) };
        assert_eq!(refusal.code, code, "{refusal:?}");
        assert_eq!(self.last.all().count(), 0, "refused, and yet: {:?}", self.last);
        Refused { refusal, story: self }
    }

    #[track_caller]
    pub fn then_accepted(self) -> Self {
        assert_eq!(self.last.refusal, None, "refused");
        self
    }

    #[track_caller]
    pub fn stands_in(self, phase: Phase) -> Self {
        assert_eq!(self.device().phase, Some(phase), "the phase");
        self
    }

    /// The open plans, in words: kind and target.
    #[track_caller]
    pub fn has_open_plans<const N: usize>(self, expected: [&str; N]) -> Self {
        let open = self.device().tasks.values().filter(|t| t.state == fleet_lifecycle::device::TaskState::Open);
        let mut open: Vec<_> = open.map(|t| format!("{} of {}", t.kind, t.target)).collect();
        open.sort();
        assert_eq!(open, expected, "open plans");
        self
    }

    /// The verb of the running operation, or `nothing`.
    #[track_caller]
    pub fn runs(self, verb: &str) -> Self {
        assert_eq!(self.device().operation.as_ref().map_or("nothing", |o| o.verb.as_str()), verb, "the operation");
        self
    }

    /// No deadline is ahead, and asked all the same, none leads to anything.
    #[track_caller]
    pub fn waits_for_nothing(self) -> Self {
        assert_eq!(self.run.next_wait(), None, "the next wait");
        for (kind, name) in self.device().waits.keys() {
            let wait = fleet_lifecycle::Wait { kind: *kind, name: name.clone() };
            assert_eq!(self.run.clone().expire(&wait).all().count(), 0, "{wait:?}");
        }
        self
    }

    /// The names that it claims.
    #[track_caller]
    pub fn stands_claiming<const N: usize>(self, expected: [&str; N]) -> Self {
        let names: Vec<_> = self.device().claimed().map(|(name, _)| name.to_string()).collect();
        assert_eq!(names, expected, "claims");
        self
    }

    /// What waits for a person, by name.
    #[track_caller]
    pub fn has_attention<const N: usize>(self, expected: [&str; N]) -> Self {
        assert_eq!(self.device().attention.keys().collect::<Vec<_>>(), expected, "attention");
        self
    }

    /// A condition as `Status Reason`, or `absent`.
    #[track_caller]
    pub fn says_of_itself(self, r#type: &str, expected: &str) -> Self {
        let found = self.device().condition(r#type).map_or("absent".into(), |c| format!("{} {}", c.status, c.reason));
        assert_eq!(found, expected, "{}", r#type);
        self
    }

    pub fn device(&self) -> &Device {
        self.run.entity.device().unwrap()
    }

    pub fn site(&self) -> &Site {
        self.run.entity.site().unwrap()
    }

    pub fn config(&self) -> &bootstrap::Config {
        self.run.entity.bootstrap_config().unwrap()
    }

    /// The events of the last step, and what the plan added.
    pub fn in_words(&self) -> Vec<String> {
        [self.told(&self.last.events), self.told(&self.last.planned)].concat()
    }

    pub fn came(&self) -> &Came {
        &self.last
    }

    fn told(&self, events: &[Event]) -> Vec<String> {
        let ever = self.run.log.iter().flat_map(|(_, events)| events).chain(self.last.all());
        let tasks: BTreeMap<TaskId, TaskKind> = ever.filter_map(planned).collect();
        let teller = Teller { at: self.last.at, tasks };
        let told = |e: &&Event| self.run.tells_claims || !matches!(e, Event::Device(DeviceEvent::ClaimsChanged(_)));
        events.iter().filter(told).map(|e| teller.tell(e)).collect()
    }
}

fn planned(event: &Event) -> Option<(TaskId, TaskKind)> {
    match event {
        Event::Device(DeviceEvent::TaskPlanned(e)) => Some((e.task, e.kind)),
        Event::Device(_) | Event::Site(_) | Event::BootstrapConfig(_) | Event::Exclusive(_) | Event::Unclaimed(_) => None,
    }
}

/// No event.
pub fn nothing() -> [&'static str; 0] {
    []
}

/// A story that ended in a refusal.
pub struct Refused {
    refusal: Refusal,
    story: Story,
}

impl Refused {
    /// What the guard expected, what it saw, what helps.
    #[track_caller]
    pub fn because(self, expected: &str, seen: &str, helps: &str) -> Story {
        let found = (self.refusal.expected.as_ref(), self.refusal.seen.as_ref(), self.refusal.helps.as_ref());
        assert_eq!(found, (expected, seen, helps), "expected, seen, helps");
        self.story
    }
}
