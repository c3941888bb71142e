//! Runs steps exactly as the journal does: the input's events, folded into a copy, then the plan's behind them; all of them in one
//! decision, folded in at its time. Beside that, every step is held to what holds of every step (see [`Run::step`]).

use fleet_lifecycle::{Context, Decider, Entity, Fleet, Observed, Reference, Refusal, Request, Sighting, Wait};
use fleet_schemas::{
    Actor, Ask, DecisionId, DeviceEvent, Event, ExclusiveGranted, Fact, NAMESPACE, Notice, Payload, SiteId, Source, SourceSeq, StreamId,
    Timestamp,
};
use std::collections::BTreeMap;
use uuid::Uuid;

/// One stream under a leader.
#[derive(Clone)]
pub struct Run {
    pub stream: StreamId,
    pub entity: Entity,
    pub reference: Reference,
    pub now: Timestamp,
    pub version: u64,
    /// Every decision with events, oldest first.
    pub log: Vec<(Timestamp, Vec<Event>)>,
    /// Highest place given out in each source's order.
    pub seqs: BTreeMap<(Source, SiteId), SourceSeq>,
    decisions: u64,
    leading_since: Timestamp,
    muted: bool,
    /// Whether every name that a device claims is granted at once, as where no other device claims it.
    pub alone: bool,
    /// Whether the story tells what the device claims.
    pub tells_claims: bool,
}

/// What an input came to.
#[derive(Clone, Debug, Default)]
pub struct Came {
    pub at: Timestamp,
    /// What the input itself led to.
    pub events: Vec<Event>,
    /// What the plan added.
    pub planned: Vec<Event>,
    pub note: Option<&'static str>,
    pub refusal: Option<Refusal>,
}

impl Came {
    pub fn all(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().chain(&self.planned)
    }
}

impl Run {
    pub fn new(stream: StreamId, reference: Reference, now: Timestamp) -> Self {
        let (entity, log, seqs) = (Fleet::new(&stream), Vec::new(), BTreeMap::new());
        // Led for long: only the tests of a take-over say otherwise.
        let leading_since = Timestamp(0);
        Self {
            stream,
            entity,
            reference,
            now,
            version: 0,
            log,
            seqs,
            decisions: 0,
            leading_since,
            muted: false,
            alone: false,
            tells_claims: false,
        }
    }

    pub fn ask(&mut self, ask: &Ask, expected_version: Option<u64>, actor: &Actor, reason: &str) -> Came {
        let request = Request { ask: ask.clone(), expected_version };
        self.step(actor, reason, true, |state, ctx| Fleet::decide(state, &request, ctx).map(Observed::events))
    }

    /// As the journal: an observation without events is followed by no plan, and a complete look is remembered beside the fold. SLURM's
    /// agent is a site's own; NetBox's looks at every site.
    pub fn see(&mut self, sighting: &Sighting) -> Came {
        let reach = match sighting.source {
            Source::Netbox => "*".to_owned(),
            Source::Slurm => sighting.site.to_string(),
        };
        self.see_by(sighting, vec![reach])
    }

    /// The same from a client whose right reaches these sites.
    pub fn see_by(&mut self, sighting: &Sighting, reach: Vec<String>) -> Came {
        let actor = Actor { subject: format!("agent:{}", sighting.source), client: "satellite".into(), on_behalf_of: None, reach };
        let came = self.step(&actor, "", false, |state, ctx| Ok(Fleet::observe(state, sighting, ctx)));
        if matches!(sighting.fact, Fact::SweepCompleted(_)) {
            Fleet::looked(&mut self.entity, sighting.source, sighting.observed_at);
            self.muted = false;
        }
        came
    }

    pub fn expire(&mut self, wait: &Wait) -> Came {
        self.step(&Actor::system("decider"), "", false, |state, ctx| Ok(Observed::events(Fleet::expire(state, wait, ctx))))
    }

    /// A change of the reference: those whom it can concern are planned.
    pub fn refer(&mut self, reference: Reference) -> Came {
        let before = std::mem::replace(&mut self.reference, reference);
        if Fleet::concerned(&self.entity, &before, &self.reference) { self.plan() } else { Came { at: self.now, ..Came::default() } }
    }

    /// A plan alone, as behind a change of the reference and after a take-over.
    pub fn plan(&mut self) -> Came {
        self.step(&Actor::system("decider"), "", true, |_, _| Ok(Observed::events(vec![])))
    }

    /// Another hub leads from now on.
    pub fn taken_over(&mut self) {
        (self.leading_since, self.muted) = (self.now, false);
        self.reference.claimed_at = self.now;
    }

    /// The next wait, where it is not muted for having led to nothing.
    pub fn next_wait(&self) -> Option<(Timestamp, Wait)> {
        Fleet::next_wait(&self.entity).filter(|_| !self.muted)
    }

    /// Lets time pass; every wait that falls due meanwhile is asked, in order.
    pub fn pass(&mut self, until: Timestamp) -> Vec<Came> {
        let mut all = Vec::new();
        while let Some((due, wait)) = self.next_wait().filter(|(due, _)| *due <= until) {
            self.now = self.now.max(due);
            all.push(self.fall_due(&wait));
            assert!(all.len() < 1000, "{wait:?} fires for ever");
        }
        self.now = self.now.max(until);
        all
    }

    /// One wait falls due; what leads to nothing is not asked again before something changes.
    pub fn fall_due(&mut self, wait: &Wait) -> Came {
        let came = self.expire(wait);
        self.muted |= came.events.is_empty();
        came
    }

    /// The next place in a source's order.
    pub fn next_seq(&mut self, source: Source, site: &SiteId) -> SourceSeq {
        let seq = self.seqs.entry((source, site.clone())).or_insert(SourceSeq { epoch: 1, counter: 0 });
        seq.counter += 1;
        seq.clone()
    }

    pub fn decision(&self) -> DecisionId {
        DecisionId(Uuid::new_v5(&NAMESPACE, format!("{}/{}", self.stream, self.decisions).as_bytes()))
    }

    /// Something that looks at the state and changes nothing.
    pub fn looking<T>(&self, subject: &str, look: impl FnOnce(&Context<'_>) -> T) -> T {
        look(&self.context(&Actor { reach: vec!["*".into()], ..Actor::system(subject) }, "by the way"))
    }

    fn context<'c>(&'c self, actor: &'c Actor, reason: &'c str) -> Context<'c> {
        Context {
            now: self.now,
            stream: &self.stream,
            version: self.version,
            decision: self.decision(),
            actor,
            reason,
            reference: &self.reference,
            leading_since: self.leading_since.max(self.reference.claimed_at),
        }
    }

    fn step(
        &mut self,
        actor: &Actor,
        reason: &str,
        always_plan: bool,
        judge: impl Fn(&Entity, &Context<'_>) -> Result<Observed<Event>, Refusal>,
    ) -> Came {
        let came = self.judged(actor, reason, always_plan, &judge);
        let again = self.judged(actor, reason, always_plan, &judge);
        assert_eq!(bytes(&came), bytes(&again), "the same input twice gives the same bytes");
        self.decisions += 1;
        let events: Vec<Event> = came.all().map(|e| self.through_the_log(e)).collect();
        if !events.is_empty() {
            self.fold(events);
        }
        self.grant(&came);
        came
    }

    fn judged(
        &self,
        actor: &Actor,
        reason: &str,
        always_plan: bool,
        judge: &impl Fn(&Entity, &Context<'_>) -> Result<Observed<Event>, Refusal>,
    ) -> Came {
        let ctx = self.context(actor, reason);
        let seen = match judge(&self.entity, &ctx) {
            Ok(seen) => seen,
            Err(refusal) => return Came { at: self.now, refusal: Some(refusal), ..Came::default() },
        };
        let mut after = self.entity.clone();
        seen.events.iter().for_each(|e| Fleet::evolve(&mut after, e, self.now));
        let plans = always_plan || !seen.events.is_empty();
        let planned = if plans { Fleet::plan(&after, &ctx) } else { vec![] };
        Came { at: self.now, events: seen.events, planned, note: seen.note, refusal: None }
    }

    /// What a reader of the journal gets.
    fn through_the_log(&self, event: &Event) -> Event {
        let read = Event::decode(&self.stream, &event.encode()).unwrap();
        assert_eq!(read, *event, "an event survives its encoding");
        read
    }

    fn fold(&mut self, events: Vec<Event>) {
        events.iter().for_each(|e| Fleet::evolve(&mut self.entity, e, self.now));
        (self.version, self.muted) = (self.version + 1, false);
        self.log.push((self.now, events));
        let actor = Actor::system("decider");
        let again = Fleet::plan(&self.entity, &self.context(&actor, ""));
        assert_eq!(again, vec![], "planning again gives nothing");
    }

    /// What another stream tells.
    pub fn hear(&mut self, notice: &Notice) -> Came {
        self.step(&Actor::system("reactor"), "", true, |state, ctx| Ok(Fleet::heed(state, notice, ctx)))
    }

    /// What the streams of the names say to a device that is alone in claiming them.
    fn grant(&mut self, came: &Came) {
        let claims = came.all().filter_map(|e| match e {
            Event::Device(DeviceEvent::ClaimsChanged(e)) if self.alone => Some(e.take.clone()),
            _ => None,
        });
        for name in claims.flatten().collect::<Vec<_>>() {
            self.hear(&ExclusiveGranted { name }.into());
        }
    }

    /// A history from elsewhere: folded in, not decided.
    pub fn happened(&mut self, event: Event) {
        Fleet::evolve(&mut self.entity, &event, self.now);
        self.version += 1;
        self.log.push((self.now, vec![event]));
    }
}

fn bytes(came: &Came) -> (Vec<Payload>, Option<&'static str>, Option<&Refusal>) {
    (came.all().map(Event::encode).collect(), came.note, came.refusal.as_ref())
}
