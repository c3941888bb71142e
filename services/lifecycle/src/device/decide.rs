//! What can be asked of a device: the table first, then the verb.

use super::{state::Device, step::Step, verbs};
use crate::edges::{self, Edge};
use crate::{Context, Refusal, guards};
use fleet_schemas::{Ask, DeviceEvent, GuardSeen, Phase, Then, verbs as table};

/// Judges a request.
pub fn decide(device: &Device, ask: &Ask, ctx: &Context<'_>) -> Result<Vec<DeviceEvent>, Refusal> {
    let Some(site) = device.site.as_ref() else {
        return Err(Refusal::new(
            "unknown-device",
            "inventory",
            "a device that NetBox has",
            ctx.stream.to_string(),
            "look the device up by name",
        ));
    };
    if !ctx.actor.reaches(site) {
        let reach = if ctx.actor.reach.is_empty() { "no site".into() } else { ctx.actor.reach.join(", ") };
        return Err(Refusal::new("out-of-reach", "reach", format!("a right at {site}"), reach, "ask the site's owner for access"));
    }
    if let Ask::NotBuilt(asked) = ask {
        // What a later version would refuse as well is said now: the field is null whoever installs.
        if asked.verb == "provision" {
            guards::adoptable(device, ctx.reference)?;
        }
        return Err(Refusal::not_available(&format!("`{}`", asked.verb)));
    }
    let mut step = Step::new(device, ctx);
    verbs::apply(&mut step, ask)?;
    Ok(step.into_events())
}

/// The edge that `verb` takes from where the device is, and what its guards saw.
pub(super) fn take(
    step: &Step<'_>,
    verb: &str,
    then: Option<Then>,
    asked: Option<Phase>,
) -> Result<(&'static Edge, Vec<GuardSeen>), Refusal> {
    let edge = find(&step.device, verb, step.ctx)?;
    let guards = guards::all(edge, &step.device, then, asked, step.ctx)?;
    Ok((edge, guards))
}

fn find(device: &Device, verb: &str, ctx: &Context<'_>) -> Result<&'static Edge, Refusal> {
    guards::profile(device, ctx.reference)?;
    let phase = device.phase;
    match edges::of_verb(verb).find(|e| phase.is_some_and(|p| e.from.contains(&p))) {
        Some(edge) if edge.built => Ok(edge),
        Some(_) => Err(Refusal::not_available(&format!("`{verb}`"))),
        None => {
            let from: Vec<_> = edges::of_verb(verb).flat_map(|e| e.from).map(|p| p.as_str()).collect();
            let seen = phase.map_or("no phase", Phase::as_str);
            Err(Refusal::new("phase-forbids", "phase", from.join(", "), seen, legal(phase)))
        }
    }
}

/// The verbs that the table allows in a phase.
fn legal(phase: Option<Phase>) -> String {
    let allowed =
        |verb: &&table::Verb| verb.built && edges::of_verb(verb.name).any(|e| e.built && phase.is_some_and(|p| e.from.contains(&p)));
    let names: Vec<_> = table::TABLE.iter().filter(allowed).map(|v| v.name).collect();
    if names.is_empty() { "no verb leads out of here".into() } else { names.join(", ") }
}
