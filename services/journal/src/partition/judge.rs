//! One input becomes at most one decision: the input's events, then the plan's, in the same record.

use super::batch::{Batch, Draft, Events};
use crate::{Ledger, Rules, ask, ledger::USER_DATA_READ, ledger::panic_text};
use fleet_lifecycle::{Context, Entity, Reference, Refusal, Request, Sighting, Wait};
use fleet_log::Stored;
use fleet_schemas::{
    Actor, Ask, Cause, CauseKind, Command, Event, Fact, MINUTE, Micros, Observation, Outcome, OutcomeKind, Source, StreamId, Timestamp,
    decode,
};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an input came to.
pub(crate) enum Judged {
    /// Nothing to record.
    Nothing,
    /// A decision.
    Decision(Box<Draft>),
    /// It cannot be used: keep it where people see it; and record this, where somebody waits for an answer.
    Park(String, Option<Box<Draft>>),
    /// A command that was decided before; who waits gets the answer of then.
    Repeated(fleet_schemas::CommandId),
}

/// Everything a judgement looks at.
pub(crate) struct Bench<'a> {
    pub(crate) rules: Rules,
    pub(crate) partition: u32,
    pub(crate) partitions: u32,
    pub(crate) ledger: &'a Ledger,
    pub(crate) batch: &'a Batch,
    pub(crate) reference: &'a Reference,
}

pub(super) fn cause(kind: CauseKind, offset: Option<u64>) -> Cause {
    let (command, ask_hash, observation, source, wait) = (None, None, None, None, None);
    let (decision, index, stream, version) = (None, None, None, None);
    Cause { kind, command, ask_hash, observation, source, wait, decision, index, offset, stream, version }
}

impl Bench<'_> {
    fn homeless(&self, stream: &StreamId) -> Option<String> {
        let home = stream.partition(self.partitions);
        (home != self.partition).then(|| format!("{stream} belongs into partition {home}"))
    }

    fn stopped(&self, stream: &StreamId) -> Option<String> {
        self.ledger.streams.get(stream)?.stopped.as_ref().map(|why| format!("its stream is stopped: {why}"))
    }

    /// The reference for a request to a stream of partition 0: what stands before this decision, in the journal and in the batch. So a
    /// reader of the partition gives it again.
    fn own_reference(&self) -> Reference {
        let streams = self.ledger.streams.iter().filter(|(_, s)| s.stopped.is_none());
        let before = Reference::of(streams.map(|(_, s)| &s.entity));
        let now = Reference::of(self.batch.entities());
        let (mut sites, mut configs) = (before.sites, before.configs);
        sites.extend(now.sites);
        configs.extend(now.configs);
        Reference { sites, configs, ..self.reference.clone() }
    }

    pub(super) fn context<'c>(&'c self, stream: &'c StreamId, version: u64, actor: &'c Actor, reason: &'c str) -> Context<'c> {
        Context {
            now: self.batch.now,
            stream,
            version,
            decision: self.batch.decision_id(),
            actor,
            reason,
            reference: self.reference,
            leading_since: self.ledger.claimed_at.max(self.reference.claimed_at),
        }
    }

    pub(crate) fn command(&self, input: &Stored) -> Judged {
        let command: Command = match decode(&input.record.value) {
            Ok(command) => command,
            Err(e) => return Judged::Park(e.to_string(), None),
        };
        if let Some(why) = self.homeless(&command.stream).or_else(|| self.stopped(&command.stream)) {
            return Judged::Park(why, None);
        }
        if let Some(to) = &command.reaction {
            return self.reaction(&command, to, input);
        }
        let known = self.ledger.streams.get(&command.stream).and_then(|s| s.memory.get(&command.id));
        if known.is_some() || self.batch.asked(&command.id).is_some() {
            return Judged::Repeated(command.id);
        }
        let cause =
            Cause { command: Some(command.id), ask_hash: Some(ask::hash(&command)), ..cause(CauseKind::Command, Some(input.offset)) };
        judged(&command, cause, input, || self.judge(&command))
    }

    fn judge(&self, command: &Command) -> Result<(Outcome, Events), String> {
        let ask = Ask::decode(&command.ask).map_err(|e| e.to_string())?;
        let (state, head) = self.batch.stream(self.ledger, &command.stream);
        let own = matches!(command.stream, StreamId::BootstrapConfig(..)).then(|| self.own_reference());
        let ctx = self.context(&command.stream, head.version, &command.actor, &command.reason);
        let ctx = Context { reference: own.as_ref().unwrap_or(ctx.reference), ..ctx };
        let read = user_data_read(&ask);
        let judged = self.admissible(command).and_then(|()| {
            let request = Request { ask, expected_version: command.expected_version };
            (self.rules.decide)(&state, &request, &ctx).map(|events| planned(self.rules, state, events, &ctx))
        });
        Ok(match judged {
            Ok(events) if command.dry_run => (rehearsed(&events.list), Events::default()),
            Ok(events) => (read.unwrap_or_else(Outcome::accepted), events),
            Err(refusal) if command.dry_run => (Outcome { kind: OutcomeKind::Noted, ..rejected(&refusal) }, Events::default()),
            Err(refusal) => (rejected(&refusal), Events::default()),
        })
    }

    fn admissible(&self, command: &Command) -> Result<(), Refusal> {
        if self.batch.now > command.not_after {
            let (expected, seen) = (format!("a decision by {}", command.not_after), self.batch.now.to_string());
            return Err(Refusal::new("expired", "not_after", expected, seen, "ask again"));
        }
        let remembered = command.ask.r#type != "ReadUserData";
        if remembered && self.ledger.streams.get(&command.stream).is_some_and(|s| s.memory.full()) {
            let expected = format!("fewer than {} commands a day", crate::ledger::MEMORY_CAP);
            return Err(Refusal::new(
                "too-many-commands",
                "memory",
                expected,
                "as many already",
                "ask again tomorrow, or batch the requests",
            ));
        }
        Ok(())
    }

    pub(crate) fn observation(&self, input: &Stored) -> (Judged, Option<Look>) {
        let observation: Observation = match decode(&input.record.value) {
            Ok(observation) => observation,
            Err(e) => return (Judged::Park(e.to_string(), None), None),
        };
        let stream = observation.stream.clone();
        if let Some(why) = self.homeless(&stream).or_else(|| self.stopped(&stream)) {
            return (Judged::Park(why, None), None);
        }
        let fact = match Fact::decode(&observation.fact) {
            Ok(fact) => fact,
            Err(e) => return (Judged::Park(e.to_string(), None), None),
        };
        let sighting = Sighting {
            fact,
            site: observation.site.clone(),
            source: observation.source,
            native_id: observation.native_id.clone(),
            seq: observation.source_seq.clone(),
            observed_at: observation.observed_at,
            sent_at: observation.sent_at,
        };
        let actor = Actor {
            subject: format!("agent:{}", observation.source),
            client: observation.client.clone(),
            on_behalf_of: None,
            reach: if observation.reach.is_empty() { vec![observation.site.to_string()] } else { observation.reach.clone() },
        };
        let seen = catch_unwind(AssertUnwindSafe(|| self.observe(&stream, &sighting, &actor)));
        // One that was set aside says nothing of how fresh its source is; silence is measured by our own clock.
        let complete = matches!(sighting.fact, Fact::SweepCompleted(_)) && matches!(seen, Ok((_, None)));
        let look =
            complete.then(|| Look { site: stream.clone(), source: sighting.source, at: observation.received_at.min(self.batch.now) });
        let judged = match seen {
            Ok((events, None)) if events.list.is_empty() => Judged::Nothing,
            Ok((events, note)) => Judged::Decision(Box::new(Draft {
                stream: stream.clone(),
                cause: Cause {
                    observation: Some(observation.id),
                    source: Some(observation.source),
                    ..cause(CauseKind::Observation, Some(input.offset))
                },
                actor,
                reason: String::new(),
                trace_id: observation.trace_id.clone(),
                outcome: Outcome::noted(note.unwrap_or(if clock_suspect(&observation) { "clock-suspect" } else { "" })),
                events,
                occurred_at: None,
                observed_at: Some(observation.observed_at),
                received_at: Some(observation.received_at),
            })),
            Err(panic) => Judged::Park(format!("the decider panicked: {}", panic_text(&*panic)), None),
        };
        (judged, look)
    }

    fn observe(&self, stream: &StreamId, sighting: &Sighting, actor: &Actor) -> (Events, Option<&'static str>) {
        let (state, head) = self.batch.stream(self.ledger, stream);
        let ctx = self.context(stream, head.version, actor, "");
        let seen = (self.rules.observe)(&state, sighting, &ctx);
        let events = if seen.events.is_empty() { Events::default() } else { planned(self.rules, state, seen.events, &ctx) };
        (events, seen.note)
    }

    /// A wait fell due, or the reference changed under a stream.
    pub(crate) fn own(&self, stream: &StreamId, wait: Option<&Wait>) -> Result<Option<Draft>, String> {
        let actor = Actor::system("decider");
        let (state, head) = self.batch.stream(self.ledger, stream);
        let ctx = self.context(stream, head.version, &actor, "");
        let events = catch_unwind(AssertUnwindSafe(|| match wait {
            Some(wait) => match (self.rules.expire)(&state, wait, &ctx) {
                none if none.is_empty() => Events::default(),
                events => planned(self.rules, state, events, &ctx),
            },
            None => planned(self.rules, state, vec![], &ctx),
        }))
        .map_err(|panic| panic_text(&*panic))?;
        let cause = match wait {
            Some(wait) => Cause { wait: Some(wait.kind), ..cause(CauseKind::Deadline, None) },
            None => cause(CauseKind::Reference, Some(self.reference.next)),
        };
        Ok((!events.list.is_empty()).then(|| Draft {
            stream: stream.clone(),
            cause,
            actor: actor.clone(),
            reason: String::new(),
            trace_id: String::new(),
            outcome: Outcome::noted(""),
            events,
            occurred_at: None,
            observed_at: None,
            received_at: None,
        }))
    }
}

/// A satellite sends at once: where the stamps of sending and taking differ by more, one of the two clocks is wrong.
fn clock_suspect(observation: &Observation) -> bool {
    observation.received_at.since(observation.sent_at).abs() > CLOCK_TOLERANCE
}

/// How far the clocks of satellite and hub may differ.
const CLOCK_TOLERANCE: Micros = 5 * MINUTE;

/// The input's events, and what the plan adds once they are folded in.
pub(super) fn planned(rules: Rules, mut after: Entity, mut list: Vec<Event>, ctx: &Context<'_>) -> Events {
    list.iter().for_each(|e| (rules.evolve)(&mut after, e, ctx.now));
    let plan = (rules.plan)(&after, ctx);
    plan.iter().for_each(|e| (rules.evolve)(&mut after, e, ctx.now));
    list.extend(plan);
    Events { list, after: Some(after) }
}

/// A granted read of user-data changes nothing, and says in the journal which version was read.
fn user_data_read(ask: &Ask) -> Option<Outcome> {
    let Ask::ReadUserData(read) = ask else { return None };
    Some(Outcome { seen: format!("version {}", read.version), ..Outcome::noted(USER_DATA_READ) })
}

/// The decision on a command for which `judge` speaks; where it cannot, or panics, the command is parked and who waits is told so.
pub(super) fn judged(command: &Command, cause: Cause, input: &Stored, judge: impl FnOnce() -> Result<(Outcome, Events), String>) -> Judged {
    let refused = |code, why: &str| (rejected(&internal(code, why)), Events::default());
    let (parked, (outcome, events)) = match catch_unwind(AssertUnwindSafe(judge)) {
        Ok(Ok(decided)) => (None, decided),
        Ok(Err(undecodable)) => (Some(undecodable.clone()), refused("undecodable", &undecodable)),
        Err(panic) => {
            let why = panic_text(&*panic);
            (Some(format!("the decider panicked: {why}")), refused("internal", &why))
        }
    };
    let draft = Box::new(Draft {
        stream: command.stream.clone(),
        cause,
        actor: command.actor.clone(),
        reason: command.reason.clone(),
        trace_id: command.trace_id.clone(),
        outcome,
        events,
        occurred_at: Some(command.issued_at),
        observed_at: None,
        received_at: Some(Timestamp(input.appended_at)),
    });
    match parked {
        Some(why) => Judged::Park(why, Some(draft)),
        None => Judged::Decision(draft),
    }
}

pub(super) fn rejected(refusal: &Refusal) -> Outcome {
    Outcome {
        kind: OutcomeKind::Rejected,
        code: refusal.code.into(),
        guard: refusal.guard.into(),
        expected: refusal.expected.to_string(),
        seen: refusal.seen.to_string(),
        helps: refusal.helps.to_string(),
    }
}

fn internal(code: &'static str, why: &str) -> Refusal {
    Refusal::new(code, "decider", "a request that can be decided", why.to_owned(), "the input is parked; report it with its text")
}

/// What a rehearsal says: the events that would have been.
fn rehearsed(events: &[Event]) -> Outcome {
    let name = |event: &Event| match event {
        Event::Device(fleet_schemas::DeviceEvent::PhaseChanged(p)) => format!("PhaseChanged to {}", p.to),
        other => other.name().to_owned(),
    };
    let names: Vec<_> = events.iter().map(name).collect();
    Outcome { seen: names.join(", "), ..Outcome::noted("dry-run") }
}

/// A complete look at a source of a site.
pub(crate) struct Look {
    pub(crate) site: StreamId,
    pub(crate) source: Source,
    pub(crate) at: Timestamp,
}
