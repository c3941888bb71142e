//! Guards: each looks at the device, the confirmed reference and nothing else, and says what it saw.

use crate::edges::{Edge, Kind, Need};
use crate::{Context, Device, Reference, Refusal, baseline, bootstrap, device::Drain, device::claims};
use fleet_schemas::{Effect, GuardSeen, Owner, Phase, RoleProfile, Scheduler, Source, Stage, Status, Then};

type Seen = Result<GuardSeen, Refusal>;

fn seen(guard: &str, what: impl Into<String>) -> Seen {
    Ok(GuardSeen { guard: guard.into(), seen: what.into() })
}

/// The profile that applies to a device, or why none does.
pub fn profile<'a>(device: &Device, reference: &'a Reference) -> Result<&'a RoleProfile, Refusal> {
    let found = device.profile_key().and_then(|(site, role)| reference.profile(site, role));
    found.ok_or_else(|| {
        let seen = match device.profile_key() {
            Some((site, role)) => format!("role `{role}` has none at {site}"),
            None => "the device is in no inventory".into(),
        };
        Refusal::new(
            "no-role-profile",
            "role profile",
            "a role profile at the device's site",
            seen,
            "give the role a profile in the site's configuration",
        )
    })
}

/// Everything that `edge` needs, in order; the first that refuses ends it. `then` is where a drain asked for would lead.
pub fn all(edge: &Edge, device: &Device, then: Option<Then>, asked: Option<Phase>, ctx: &Context<'_>) -> Result<Vec<GuardSeen>, Refusal> {
    let mut out = Vec::new();
    if matches!(edge.kind, Kind::Advance | Kind::Destroy) {
        out.push(no_hold(device)?);
        out.push(owner(device)?);
        out.push(caught_up(ctx.reference)?);
        out.push(no_freeze(device, ctx.reference)?);
        for source in edge.reads {
            out.extend(fresh(device, *source, ctx.reference)?);
        }
        out.push(no_effect(device, Effect::PreventStateChange)?);
    }
    if edge.kind == Kind::Destroy {
        out.push(workload_proof(device, ctx.reference)?);
    }
    for need in edge.needs {
        out.push(match need {
            Need::Evidence => evidence(device, asked, ctx)?,
            Need::WorkloadProof => workload_proof(device, ctx.reference)?,
            Need::NoForeignDrain => no_foreign_drain(device)?,
            Need::NoEffect(effect) => no_effect(device, *effect)?,
            Need::StageLeadsTo(phase) => stage_leads_to(device, *phase)?,
            Need::SuitesPassed => suites(device, ctx.reference)?,
            Need::TargetBuilt => target_built(then)?,
            Need::Grants => grants(device)?,
        });
    }
    Ok(out)
}

/// A bootstrap configuration of the device's role stands at its site, and says all that installing needs (edge 4a).
pub fn adoptable(device: &Device, reference: &Reference) -> Seen {
    let refuse = |expected: String, seen: String, helps: String| {
        Err(Refusal::new("bootstrap-config-not-adoptable", "bootstrap configuration", expected, seen, helps))
    };
    let Some((site, role)) = device.profile_key() else {
        return refuse("a device with a role".into(), "the device is in no inventory".into(), "put it into NetBox".into());
    };
    let expected = format!("a bootstrap configuration of {role} at {site} with image and flavor");
    let Some(config) = reference.config(site, role) else {
        return refuse(expected, "none".into(), format!("create the configuration of {role}"));
    };
    match bootstrap::not_adoptable(&config.fields).as_slice() {
        [] => seen("bootstrap configuration", format!("{role} at {site}, version {}", config.version)),
        wrong => {
            let fields: Vec<_> = wrong.iter().map(|w| w.field).collect();
            let found = wrong.iter().map(|w| format!("{} is null", w.field)).collect::<Vec<_>>().join(", ");
            refuse(expected, format!("version {}: {found}", config.version), format!("give {role} {}", fields.join(" and ")))
        }
    }
}

fn no_hold(device: &Device) -> Seen {
    match device.holds.iter().next() {
        None => seen("no hold", "none"),
        Some((name, hold)) => {
            let found = format!("hold `{name}` by {}: {}", hold.by, hold.reason);
            Err(Refusal::new("held", "no hold", "no hold", found, format!("unhold --name {name}")))
        }
    }
}

fn owner(device: &Device) -> Seen {
    match device.owner {
        Owner::Fleet => seen("owner", "fleet"),
        Owner::Operator | Owner::Vendor => {
            Err(Refusal::new("not-ours", "owner", "owner fleet", device.owner.as_str(), "take the device back from its owner"))
        }
    }
}

fn caught_up(reference: &Reference) -> Seen {
    if !reference.stale {
        return seen("reference", format!("read up to {}", reference.next));
    }
    Err(Refusal::new("reference-stale", "reference", "the site's streams read up to now", "reading lags", "try again in some seconds"))
}

/// Neither where it is nor, while a move is not accepted, where its profile is from.
fn no_freeze(device: &Device, reference: &Reference) -> Seen {
    let frozen = device.sites().find_map(|site| Some((site, reference.sites.get(site)?.freezes.iter().next()?)));
    let Some((site, (name, freeze))) = frozen else { return seen("no freeze", "none") };
    let until = freeze.until.map_or_else(String::new, |t| format!(", until {t}"));
    let found = format!("freeze `{name}` of {site} by {}: {}{until}", freeze.by, freeze.reason);
    Err(Refusal::new("site-frozen", "no freeze", "no freeze at its site", found, "wait for its end, or let the site's owner lift it"))
}

/// Whether `source` is fresh, where the device's profile has it at all.
fn fresh(device: &Device, source: Source, reference: &Reference) -> Result<Option<GuardSeen>, Refusal> {
    let profile = profile(device, reference)?;
    if source == Source::Slurm && profile.scheduler == Scheduler::None {
        return Ok(None);
    }
    let Some(site) = device.site.as_ref() else { return Ok(None) };
    if reference.fresh(site, source) {
        return seen("fresh", format!("{source} at {site}")).map(Some);
    }
    let why = match reference.source(site, source) {
        None => format!("{site} has no source {source}"),
        Some(s) if s.problem.is_empty() => format!("{source} at {site} was never looked at, or is silent"),
        Some(s) => format!("{source} at {site}: {}", s.problem),
    };
    Err(Refusal::new(
        "source-stale",
        "fresh",
        format!("a fresh look at {source}"),
        why,
        format!("mend the look at {source}; see `get sites`"),
    ))
}

fn no_effect(device: &Device, effect: Effect) -> Seen {
    match device.effect(effect) {
        None => seen(effect.as_str(), "no condition has this effect"),
        Some(condition) => {
            let found = format!("{} is True: {}", condition.r#type, condition.message);
            Err(Refusal::new("effect-forbids", effect.as_str(), format!("no condition with {effect}"), found, "end the condition"))
        }
    }
}

/// All proofs that the profile names; none named proves nothing.
pub fn workload_proof(device: &Device, reference: &Reference) -> Seen {
    let profile = profile(device, reference)?;
    if profile.workload_proofs.is_empty() {
        let seen = "the role profile names none";
        return Err(Refusal::new(
            "no-workload-proof",
            "workload proof",
            "a proof that no work runs",
            seen,
            "name a workload proof in the role profile",
        ));
    }
    let mut out = Vec::new();
    for proof in &profile.workload_proofs {
        out.push(match proof.as_str() {
            "slurm-idle" => slurm_idle(device, reference)?,
            other => return Err(Refusal::not_available(&format!("workload proof `{other}`"))),
        });
    }
    seen("workload proof", out.join("; "))
}

/// IDLE+DRAIN under our own mark, no CPU allocated, nothing completing, seen freshly and live.
fn slurm_idle(device: &Device, reference: &Reference) -> Result<String, Refusal> {
    let refuse = |seen: String, helps: String| {
        Err(Refusal::new("work-not-excluded", "workload proof", "slurm-idle: IDLE+DRAIN under our own mark, no CPU allocated", seen, helps))
    };
    if fresh(device, Source::Slurm, reference).is_err() {
        return refuse("SLURM was not seen freshly".into(), "mend the look at SLURM".into());
    }
    match device.drain() {
        Drain::None => refuse("the node is not drained".into(), device.drain_help()),
        Drain::Foreign(whose) => refuse(whose, "its owner lifts it in SLURM; ours is set after that".into()),
        Drain::Own(_) if device.believed("SlurmDrained", reference) == Status::True => {
            Ok("slurm-idle: IDLE+DRAIN, 0 CPUs allocated".into())
        }
        Drain::Own(_) => refuse(device.scheduler_words(), "wait for the running SLURM jobs to end".into()),
    }
}

fn no_foreign_drain(device: &Device) -> Seen {
    match device.drain() {
        Drain::None => seen("no foreign drain", "not drained"),
        Drain::Own(_) => seen("no foreign drain", "drained under our own mark"),
        Drain::Foreign(whose) => {
            Err(Refusal::new("foreign-drain", "no foreign drain", "no drain but our own", whose, "its owner lifts it in SLURM"))
        }
    }
}

fn evidence(device: &Device, asked: Option<Phase>, ctx: &Context<'_>) -> Seen {
    let proposal = baseline::propose(device, ctx.reference);
    match (proposal.phase, asked) {
        (Some(phase), Some(asked)) if phase == asked => seen("evidence", proposal.evidence.join("; ")),
        (Some(phase), asked) => {
            let wanted = asked.map_or("a phase".to_owned(), |p| p.to_string());
            let found = format!("{phase}: {}", proposal.evidence.join("; "));
            Err(Refusal::new("baseline-changed", "evidence", format!("evidence for {wanted}"), found, "look at the preview again"))
        }
        (None, _) => {
            let found = proposal.problem.unwrap_or_else(|| "no evidence".into());
            Err(Refusal::new(
                "no-evidence",
                "evidence",
                "evidence that agrees on one phase",
                found,
                "mend what disagrees, then preview again",
            ))
        }
    }
}

fn grants(device: &Device) -> Seen {
    let Some((name, grant)) = device.claimed().find(|(_, grant)| !grant.held) else {
        let names: Vec<_> = device.claimed().map(|(name, _)| name.to_string()).collect();
        return seen("grants", if names.is_empty() { "it claims no name".into() } else { names.join(", ") });
    };
    let noun = claims::noun(name.kind);
    let (found, helps) = match grant.other {
        Some(other) => (format!("device {other} holds it"), format!("correct the {noun} of one of the two in NetBox")),
        None => ("it was asked for, and not granted yet".into(), "try again in some seconds".into()),
    };
    Err(Refusal::new("no-grant", "grants", format!("{noun} {} for itself alone", name.value), found, helps))
}

fn stage_leads_to(device: &Device, phase: Phase) -> Seen {
    let stage = device.stage.unwrap_or(Stage::Fault);
    let leads = match stage {
        Stage::Validate | Stage::BurnIn | Stage::Activate | Stage::Fault => phase == Phase::Validating,
        Stage::Enrol | Stage::Provision | Stage::Adopt | Stage::Decommission => false,
    };
    if leads {
        return seen("stage", stage.as_str());
    }
    Err(Refusal::new("phase-forbids", "stage", format!("a stage that leads to {phase}"), stage.as_str(), "repeat the stage that failed"))
}

fn suites(device: &Device, reference: &Reference) -> Seen {
    let profile = profile(device, reference)?;
    match (&profile.validation, &profile.burn_in) {
        (None, None) => seen("suites", "the role profile has none"),
        (Some(suite), _) | (_, Some(suite)) => Err(Refusal::not_available(&format!("test suite {suite}"))),
    }
}

fn target_built(then: Option<Then>) -> Seen {
    match then {
        Some(then @ (Then::Reprovision | Then::Release)) => Err(Refusal::not_available(&format!("a drain that leads to `{then}`"))),
        Some(Then::Stay | Then::Quarantine | Then::Maintenance) | None => seen("target", "built"),
    }
}
