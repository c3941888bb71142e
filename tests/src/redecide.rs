//! The undisturbed decider: every decision of a journal is made again from the state before it and its own input, and must come out
//! the same; inputs that left no decision must leave none again. Stamps, ids and hashes are taken from the journal, nothing else.

use fleet_journal::{Applied, Ledger, Rules, Topics};
use fleet_lifecycle::{Context, Decider, Entity, Fleet, Reference, Request, Sighting, Wait};
use fleet_log::{EventLog, Item, Stored, TopicPartition};
use fleet_schemas::{topics as names, *};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// What was checked.
#[derive(Debug, Default)]
pub struct Checked {
    /// Decisions made again.
    pub decisions: u64,
    /// Inputs that rightly left none.
    pub silent: u64,
}

/// The inputs of one partition by offset.
struct Inbox {
    commands: Vec<Stored>,
    observations: Vec<Stored>,
}

/// The reference as it was at each offset of partition 0.
pub struct References(BTreeMap<u64, Arc<Reference>>);

/// Reads partition 0 and keeps the reference after every record.
pub async fn references(log: &dyn EventLog, topics: &Topics) -> Result<References, String> {
    let (mut ledger, mut out) = (Ledger::new(0, Rules::default()), BTreeMap::from([(0, Arc::default())]));
    for stored in all(log, topics.at(names::JOURNAL, 0)).await? {
        ledger.apply(&stored)?;
        let streams = ledger.streams.values().map(|s| &s.entity);
        let now = Reference { next: ledger.position.next, claimed_at: ledger.claimed_at, ..Reference::of(streams) };
        out.insert(now.next, Arc::new(now));
    }
    Ok(References(out))
}

async fn all(log: &dyn EventLog, at: TopicPartition) -> Result<Vec<Stored>, String> {
    let start = log.bounds(at.clone()).await.map_err(|e| e.to_string())?.start;
    let (mut reader, mut out) = (log.read(&[(at, start)]), Vec::new());
    loop {
        match reader.next().await {
            Ok(Item::Record(stored)) => out.push(stored),
            Ok(Item::End { .. }) => return Ok(out),
            Err(e) => return Err(e.to_string()),
        }
    }
}

/// Makes every decision of a partition again.
pub async fn partition(log: &dyn EventLog, topics: &Topics, partition: u32, references: &References) -> Result<Checked, String> {
    let all_of = |topic| all(log, topics.at(topic, partition));
    let inbox = Inbox { commands: all_of(names::COMMANDS).await?, observations: all_of(names::OBSERVATIONS).await? };
    let (mut ledger, mut checked) = (Ledger::new(partition, Rules::default()), Checked::default());
    for stored in all_of(names::JOURNAL).await? {
        let before = ledger.inputs.clone();
        let (states, until) = match JournalRecord::decode(&stored.record.value) {
            Ok(JournalRecord::Decision(d)) => {
                let state = ledger.streams.get(&d.stream).map_or_else(|| Fleet::new(&d.stream), |s| s.entity.clone());
                (Some(state), d.inputs.observations)
            }
            _ => (None, 0),
        };
        // Judged by the ledger first: what the fence drops was never decided.
        let claimed_at = ledger.claimed_at;
        let silent = silent_states(&ledger, &inbox, before.observations..until);
        if let (Applied::Decision(decision), Some(mut state)) = (ledger.apply(&stored)?, states) {
            looks(&mut state, &decision);
            // In partition 0 itself: what stands before the decision.
            let reference = if partition == 0 { at(references, stored.offset)? } else { at(references, decision.reference)? };
            let leading_since = claimed_at.max(reference.claimed_at);
            again(&state, &decision, &reference, leading_since, &inbox)?;
            checked.silent += silences(&silent, &decision, &before, &reference, leading_since)?;
            checked.decisions += 1;
        }
    }
    Ok(checked)
}

/// When a source was last looked at is a stamp: it stands beside the fold, and in the event that tells of its silence.
fn looks(state: &mut Entity, d: &Decision) {
    for event in d.events.iter().filter_map(|e| Event::decode(&d.stream, e).ok()) {
        if let Event::Site(SiteEvent::FreshnessChanged(FreshnessChanged { source, fresh: false, last_look_at: Some(at), .. })) = event {
            Fleet::looked(state, source, at);
        }
    }
}

fn at(references: &References, next: u64) -> Result<Arc<Reference>, String> {
    references
        .0
        .get(&next)
        .cloned()
        .ok_or_else(|| format!("a decision was made with reference position {next}, which no record of partition 0 gives"))
}

fn find(inputs: &[Stored], offset: u64) -> Result<&Stored, String> {
    let at = inputs.binary_search_by_key(&offset, |s| s.offset);
    at.map(|at| &inputs[at]).map_err(|_| format!("input {offset} is gone"))
}

fn sighting(stored: &Stored) -> Result<(StreamId, Sighting, Actor), String> {
    let o: Observation = decode(&stored.record.value).map_err(|e| e.to_string())?;
    let fact = Fact::decode(&o.fact).map_err(|e| e.to_string())?;
    let actor =
        Actor { subject: format!("agent:{}", o.source), client: o.client.clone(), on_behalf_of: None, reach: vec![o.site.to_string()] };
    let seen = Sighting {
        fact,
        site: o.site,
        source: o.source,
        native_id: o.native_id,
        seq: o.source_seq,
        observed_at: o.observed_at,
        sent_at: o.sent_at,
    };
    Ok((o.stream, seen, actor))
}

fn planned(state: &Entity, mut events: Vec<Event>, ctx: &Context<'_>) -> Vec<Event> {
    let mut after = state.clone();
    events.iter().for_each(|e| Fleet::evolve(&mut after, e, ctx.now));
    events.extend(Fleet::plan(&after, ctx));
    events
}

fn again(state: &Entity, d: &Decision, reference: &Reference, leading_since: Timestamp, inbox: &Inbox) -> Result<(), String> {
    let ctx = Context {
        now: d.recorded_at,
        stream: &d.stream,
        version: d.version_before,
        decision: d.id,
        actor: &d.actor,
        reason: &d.reason,
        reference,
        leading_since,
    };
    let offset = d.cause.offset.unwrap_or_default();
    let events = match d.cause.kind {
        CauseKind::Command => return command(state, d, find(&inbox.commands, offset)?, &ctx),
        CauseKind::Observation => {
            let (_, seen, _) = sighting(find(&inbox.observations, offset)?)?;
            let observed = Fleet::observe(state, &seen, &ctx);
            if observed.events.is_empty() { vec![] } else { planned(state, observed.events, &ctx) }
        }
        CauseKind::Deadline => return deadline(state, d, &ctx),
        CauseKind::Reference => Fleet::plan(state, &ctx),
        CauseKind::Reaction => return reaction(state, d, find(&inbox.commands, offset)?, &ctx),
    };
    same(d, &events)
}

/// The journal names the kind of wait; what of that kind fell due must give the same.
fn deadline(state: &Entity, d: &Decision, ctx: &Context<'_>) -> Result<(), String> {
    let kind = d.cause.wait.ok_or("a deadline without a wait")?;
    let names: Vec<String> = match state {
        Entity::Device(device) => device.waits.keys().filter(|(k, _)| *k == kind).map(|(_, name)| name.clone()).collect(),
        Entity::Site(site) => site.sources.keys().map(ToString::to_string).collect(),
        Entity::BootstrapConfig(_) | Entity::Exclusive(_) | Entity::Unclaimed(_) => vec![],
    };
    let mut otherwise = format!("{}: a deadline of {kind} where nothing of it waits", d.id);
    for name in names {
        let outcome = match Fleet::expire(state, &Wait { kind, name }, ctx) {
            none if none.is_empty() => same(d, &[]),
            events => same(d, &planned(state, events, ctx)),
        };
        match outcome {
            Ok(()) => return Ok(()),
            Err(why) => otherwise = why,
        }
    }
    Err(otherwise)
}

fn reaction(state: &Entity, d: &Decision, stored: &Stored, ctx: &Context<'_>) -> Result<(), String> {
    let c: Command = decode(&stored.record.value).map_err(|e| e.to_string())?;
    let to = c.reaction.ok_or("a reaction to nothing")?;
    let cause = (&d.cause.stream, d.cause.version, d.cause.decision, d.cause.index);
    if cause != (&Some(to.stream), Some(to.version), Some(to.decision), Some(to.index))
        || c.id != CommandId::reaction(to.decision, to.index)
    {
        return Err(format!("{}: its cause is not the input's", d.id));
    }
    if Notice::NAMES.contains(&c.ask.r#type.as_str()) {
        let heard = Fleet::heed(state, &Notice::decode(&c.ask).map_err(|e| e.to_string())?, ctx);
        return match heard.note {
            Some(note) if note == d.outcome.code => same(d, &[]),
            Some(note) => Err(format!("{}: the journal has {:?}, again it is noted {note}", d.id, d.outcome)),
            None => same(d, &planned(state, heard.events, ctx)),
        };
    }
    let ask = Ask::decode(&c.ask).map_err(|e| e.to_string())?;
    match Fleet::decide(state, &Request { ask, expected_version: None }, ctx) {
        Ok(events) if d.outcome.kind == OutcomeKind::Accepted => same(d, &planned(state, events, ctx)),
        other => Err(format!("{}: the journal has {:?}, again it is {other:?}", d.id, d.outcome)),
    }
}

fn command(state: &Entity, d: &Decision, stored: &Stored, ctx: &Context<'_>) -> Result<(), String> {
    let c: Command = decode(&stored.record.value).map_err(|e| e.to_string())?;
    if Some(c.id) != d.cause.command || c.dry_run || d.outcome.code == "expired" || d.outcome.code == "reference-stale" {
        return if d.events.is_empty() { Ok(()) } else { Err(format!("{}: events where none can be", d.id)) };
    }
    let ask = Ask::decode(&c.ask).map_err(|e| e.to_string())?;
    match Fleet::decide(state, &Request { ask, expected_version: c.expected_version }, ctx) {
        Ok(events) if d.outcome.kind == OutcomeKind::Accepted => same(d, &planned(state, events, ctx)),
        Ok(events) if d.outcome.code == "user-data-read" && events.is_empty() => same(d, &[]),
        Err(refusal) if d.outcome.code == refusal.code => same(d, &[]),
        other => Err(format!("{}: the journal has {:?}, again it is {other:?}", d.id, d.outcome)),
    }
}

fn same(d: &Decision, events: &[Event]) -> Result<(), String> {
    let again: Vec<Payload> = events.iter().map(Event::encode).collect();
    if again == d.events {
        return Ok(());
    }
    let names = |list: &[Payload]| list.iter().map(|p| p.r#type.clone()).collect::<Vec<_>>();
    Err(format!("{} on {} ({:?}): the journal has {:?}, again it is {:?}", d.id, d.stream, d.cause.kind, names(&d.events), names(&again)))
}

/// Observations read and not decided when the next decision is made, with the states they met.
type Silent = Vec<(u64, StreamId, Sighting, Actor, Entity)>;

/// At most this many are checked before one decision: a long idle time is the same look again and again.
const SILENT: usize = 200;

fn silent_states(ledger: &Ledger, inbox: &Inbox, passed: Range<u64>) -> Silent {
    let from = inbox.observations.partition_point(|s| s.offset < passed.start);
    let unread = inbox.observations[from..].iter().take_while(|s| s.offset < passed.end).take(SILENT);
    let state = |s: &Stored| {
        let (stream, seen, actor) = sighting(s).ok()?;
        let entity = ledger.streams.get(&stream).map_or_else(|| Fleet::new(&stream), |s| s.entity.clone());
        Some((s.offset, stream, seen, actor, entity))
    };
    unread.filter_map(state).collect()
}

/// Those that this decision's position passes over must have meant nothing.
fn silences(silent: &Silent, d: &Decision, before: &Inputs, reference: &Reference, leading_since: Timestamp) -> Result<u64, String> {
    let mut count = 0;
    for (offset, stream, seen, actor, entity) in silent {
        let own = d.cause.kind == CauseKind::Observation && d.cause.offset == Some(*offset);
        if *offset < before.observations || *offset >= d.inputs.observations || own {
            continue;
        }
        let (version, decision) = (0, d.id);
        let ctx = Context { now: d.recorded_at, stream, version, decision, actor, reason: "", reference, leading_since };
        let observed = Fleet::observe(entity, seen, &ctx);
        if !observed.events.is_empty() || observed.note.is_some() {
            return Err(format!("observation {offset} of {stream} was passed over, but means {:?} {:?}", observed.events, observed.note));
        }
        count += 1;
    }
    Ok(count)
}
