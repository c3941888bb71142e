//! What a site is set to: teams, freezes, its own types of conditions.

use super::Site;
use crate::{Context, Refusal, condition_type};
use fleet_schemas::{
    ChangeSite, Effect, FreezeLifted, FreezePlaced, LiftFreeze, Mode, PlaceFreeze, RegisterType, RoleTeam, Sense, SiteEvent, SourceTeam,
    TeamsSet, Timestamp, TypeDefinition, TypeRegistered,
};
use serde::{Deserialize, Serialize};

/// Freezes that may stand at one site, and types that it may register.
const FREEZES: usize = 50;
const TYPES: usize = 200;
/// Seconds that a statement may count: a minute to thirty days.
const TTL: std::ops::RangeInclusive<i64> = 60..=2_592_000;

/// A freeze: nothing at the site advances or is destroyed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Freeze {
    /// Who placed it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
}

type Done = Result<Vec<SiteEvent>, Refusal>;

fn invalid(guard: &'static str, expected: impl Into<String>, seen: impl Into<String>) -> Refusal {
    Refusal::new("invalid", guard, expected.into(), seen.into(), format!("correct `{guard}`"))
}

fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

/// A text that people read: so many characters, none of them a control character.
fn words(guard: &'static str, text: &str, most: usize) -> Result<(), Refusal> {
    let fits = !text.trim().is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control);
    if fits { Ok(()) } else { Err(invalid(guard, format!("1 to {most} characters, no control characters"), short(text))) }
}

/// Modes above `observe` are not built; who answers for what is.
pub(super) fn change(site: &Site, ask: &ChangeSite) -> Done {
    for asked in &ask.modes {
        known(site, asked.source)?;
        if asked.mode != Mode::Observe {
            return Err(Refusal::not_available(&format!("mode `{}` of {}: this version only observes", asked.mode, asked.source)));
        }
    }
    for asked in &ask.source_teams {
        known(site, asked.source)?;
        asked.team.as_deref().map_or(Ok(()), |team| words("owners", team, 120))?;
    }
    for asked in &ask.role_teams {
        words("owners", &asked.role, 100)?;
        asked.team.as_deref().map_or(Ok(()), |team| words("owners", team, 120))?;
    }
    let of_source = |t: &&SourceTeam| site.source_teams.get(&t.source) != t.team.as_ref();
    let of_role = |t: &&RoleTeam| site.role_teams.get(&t.role) != t.team.as_ref();
    let sources: Vec<_> = ask.source_teams.iter().filter(of_source).cloned().collect();
    let roles: Vec<_> = ask.role_teams.iter().filter(of_role).cloned().collect();
    Ok(if sources.is_empty() && roles.is_empty() { vec![] } else { vec![TeamsSet { sources, roles }.into()] })
}

fn known(site: &Site, source: fleet_schemas::Source) -> Result<(), Refusal> {
    if site.sources.contains_key(&source) {
        return Ok(());
    }
    let known: Vec<_> = site.sources.keys().map(|s| s.as_str()).collect();
    let seen = format!("{source}; it has: {}", known.join(", "));
    Err(Refusal::new("unknown-source", "sources", "a source that the site has", seen, "name one of them"))
}

pub(super) fn freeze(site: &Site, ask: &PlaceFreeze, ctx: &Context<'_>) -> Done {
    words("name", &ask.name, 64)?;
    if let Some(until) = ask.until.filter(|until| *until <= ctx.now) {
        return Err(invalid("until", "a time to come", until.to_string()));
    }
    if site.freezes.len() >= FREEZES && !site.freezes.contains_key(&ask.name) {
        return Err(Refusal::new("invalid", "freezes", format!("at most {FREEZES} at a site"), "one more", "lift one that is over"));
    }
    let (by, reason) = (ctx.actor.subject.clone(), ctx.reason.to_owned());
    let same = site.freezes.get(&ask.name).is_some_and(|f| f.until == ask.until && f.reason == reason);
    Ok(if same { vec![] } else { vec![FreezePlaced { name: ask.name.clone(), by, reason, until: ask.until }.into()] })
}

pub(super) fn unfreeze(site: &Site, ask: &LiftFreeze, ctx: &Context<'_>) -> Done {
    if site.freezes.contains_key(&ask.name) {
        return Ok(vec![FreezeLifted { name: ask.name.clone(), by: ctx.actor.subject.clone() }.into()]);
    }
    let names: Vec<_> = site.freezes.keys().map(String::as_str).collect();
    let seen = if names.is_empty() { "no freeze".to_owned() } else { names.join(", ") };
    Err(Refusal::new("no-such-freeze", "freezes", format!("a freeze named `{}`", short(&ask.name)), seen, "name a freeze that stands"))
}

/// What a type means must be possible here, and its sense is for ever: what stands was said by it.
pub(super) fn register_type(site: &Site, ask: &RegisterType) -> Done {
    let d = &ask.definition;
    shape(d)?;
    let exists = |seen: &str| Err(Refusal::new("type-exists", "name", "a name of its own", seen.to_owned(), "take another name"));
    if condition_type(&d.name).is_some() {
        return exists("a built-in type has it");
    }
    match site.types.get(&d.name) {
        Some(known) if known.sense != d.sense => exists(&format!("a {} has it", known.sense)),
        Some(known) if known == d => Ok(vec![]),
        None if site.types.len() >= TYPES => {
            Err(Refusal::new("invalid", "types", format!("at most {TYPES} at a site"), "one more", "use a type that there is"))
        }
        Some(_) | None => Ok(vec![TypeRegistered { definition: d.clone() }.into()]),
    }
}

fn shape(d: &TypeDefinition) -> Result<(), Refusal> {
    let camel = d.name.starts_with(|c: char| c.is_ascii_uppercase()) && d.name.chars().all(|c| c.is_ascii_alphanumeric());
    if !camel || d.name.len() > 64 {
        return Err(invalid("name", "CamelCase of at most 64 letters and digits", short(&d.name)));
    }
    if d.sense != Sense::Problem && !d.effects.is_empty() {
        return Err(invalid(
            "effects",
            "none: only a problem acts through effects",
            format!("{} effects of a {}", d.effects.len(), d.sense),
        ));
    }
    if let Some(effect) = d.effects.iter().find(|e| matches!(e, Effect::RequireDrain | Effect::Fatal)) {
        return Err(Refusal::not_available(&format!("effect {effect}: this version takes nothing out of service by itself")));
    }
    if let Some(seconds) = d.ttl_seconds.filter(|s| !TTL.contains(s)) {
        return Err(invalid("ttl_seconds", format!("{} to {} s", TTL.start(), TTL.end()), seconds.to_string()));
    }
    if d.writers.is_empty() || d.writers.len() > 50 {
        return Err(invalid("writers", "1 to 50 clients", d.writers.len().to_string()));
    }
    d.writers.iter().try_for_each(|w| words("writers", w, 120))?;
    words("about", &d.about, 200)
}
