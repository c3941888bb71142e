//! What can be asked of a site.

use super::{Site, settings};
use crate::{Context, Refusal, wrong_stream::*};
use fleet_schemas::{
    Ask, ChangeRoleProfile, ClaimEpoch, EpochGranted, FirstRoleProfile, Mode, Provisioner, RegisterSite, RoleProfile, RoleProfileSet,
    SiteEvent, SiteRegistered,
};

/// The workload proofs that this build can read.
pub const PROOFS: &[&str] = &["slurm-idle"];

/// Judges a request.
pub fn decide(site: &Site, ask: &Ask, ctx: &Context<'_>) -> Result<Vec<SiteEvent>, Refusal> {
    if !ctx.actor.reaches(&site.id) {
        return Err(Refusal::new(
            "out-of-reach",
            "reach",
            format!("a right at {}", site.id),
            ctx.actor.reach.join(", "),
            "ask the site's owner",
        ));
    }
    match ask {
        Ask::RegisterSite(a) => register(site, a),
        Ask::SetRoleProfile(a) => registered(site).and_then(|()| set_profile(site, &a.role, &a.profile)),
        Ask::FirstRoleProfile(a) => registered(site).and_then(|()| first_profile(site, a)),
        Ask::ChangeRoleProfile(a) => registered(site).and_then(|()| change_profile(site, a)),
        Ask::ClaimEpoch(a) => registered(site).and_then(|()| claim_epoch(site, a)),
        Ask::ChangeSite(a) => registered(site).and_then(|()| settings::change(site, a)),
        Ask::PlaceFreeze(a) => registered(site).and_then(|()| settings::freeze(site, a, ctx)),
        Ask::LiftFreeze(a) => registered(site).and_then(|()| settings::unfreeze(site, a, ctx)),
        Ask::RegisterType(a) => registered(site).and_then(|()| settings::register_type(site, a)),
        for_device!() | for_config!() | for_name!() => Err(wrong_stream(ask, "a site")),
    }
}

fn registered(site: &Site) -> Result<(), Refusal> {
    if site.registered {
        return Ok(());
    }
    Err(Refusal::new("unknown-site", "registration", "a registered site", site.id.to_string(), "register the site in the configuration"))
}

fn register(site: &Site, ask: &RegisterSite) -> Result<Vec<SiteEvent>, Refusal> {
    for config in &ask.sources {
        if config.mode != Mode::Observe {
            return Err(Refusal::not_available(&format!("mode `{}` of {}: this version only observes", config.mode, config.source)));
        }
        if !(1..=86_400).contains(&config.interval_seconds) {
            let seen = format!("{} s for {}", config.interval_seconds, config.source);
            return Err(Refusal::new("invalid", "interval", "1 to 86,400 s between looks", seen, "correct the site's configuration"));
        }
    }
    let same = site.registered
        && site.sources.len() == ask.sources.len()
        && ask.sources.iter().all(|c| site.sources.get(&c.source).is_some_and(|s| s.config == *c));
    Ok(if same { vec![] } else { vec![SiteRegistered { sources: ask.sources.clone() }.into()] })
}

fn set_profile(site: &Site, role: &str, profile: &RoleProfile) -> Result<Vec<SiteEvent>, Refusal> {
    buildable(profile)?;
    let same = site.profiles.get(role) == Some(profile);
    Ok(if same { vec![] } else { vec![RoleProfileSet { role: role.to_owned(), profile: profile.clone() }.into()] })
}

/// A configuration is the first word; what people set since then stands.
fn first_profile(site: &Site, ask: &FirstRoleProfile) -> Result<Vec<SiteEvent>, Refusal> {
    buildable(&ask.profile)?;
    if site.profiles.contains_key(&ask.role) { Ok(vec![]) } else { set_profile(site, &ask.role, &ask.profile) }
}

/// Merged here, with what is known now: a repeat asks the same whatever came in between.
fn change_profile(site: &Site, ask: &ChangeRoleProfile) -> Result<Vec<SiteEvent>, Refusal> {
    let known = site.profiles.get(&ask.role);
    let names = |field: &str| ask.set.iter().any(|s| s == field);
    if let Some(missing) = ["provisioner", "scheduler", "dhcp"].into_iter().find(|field| known.is_none() && !names(field)) {
        let helps = format!("name `{missing}`");
        return Err(Refusal::new("invalid", missing, "a value: the role has no profile yet", "none", helps));
    }
    let mut merged = known.unwrap_or(&ask.profile).clone();
    let RoleProfile { provisioner, scheduler, dhcp, workload_proofs, bom, firmware, validation, burn_in } = ask.profile.clone();
    for field in &ask.set {
        match field.as_str() {
            "provisioner" => merged.provisioner = provisioner,
            "scheduler" => merged.scheduler = scheduler,
            "dhcp" => merged.dhcp = dhcp,
            "workload_proofs" => merged.workload_proofs.clone_from(&workload_proofs),
            "bom" => merged.bom.clone_from(&bom),
            "firmware" => merged.firmware.clone_from(&firmware),
            "validation" => merged.validation.clone_from(&validation),
            "burn_in" => merged.burn_in.clone_from(&burn_in),
            other => {
                let seen = other.chars().take(64).collect::<String>();
                return Err(Refusal::new("invalid", "set", "fields of a role's profile", seen, "name fields of a role's profile"));
            }
        }
    }
    set_profile(site, &ask.role, &merged)
}

/// A profile may only ask for what this build can do: a stage that is named and never runs would be a lie.
fn buildable(profile: &RoleProfile) -> Result<(), Refusal> {
    let stages =
        [("bom", &profile.bom), ("firmware", &profile.firmware), ("validation", &profile.validation), ("burn_in", &profile.burn_in)];
    if let Some((name, Some(value))) = stages.into_iter().find(|(_, value)| value.is_some()) {
        return Err(Refusal::not_available(&format!("{name}: {value}; only `none` so far")));
    }
    if profile.provisioner != Provisioner::External {
        return Err(Refusal::not_available(&format!("provisioner: {}; only `external` so far", profile.provisioner)));
    }
    match profile.workload_proofs.iter().find(|p| !PROOFS.contains(&p.as_str())) {
        Some(proof) => Err(Refusal::not_available(&format!("workload proof `{proof}`; known: {}", PROOFS.join(", ")))),
        None => Ok(()),
    }
}

fn claim_epoch(site: &Site, ask: &ClaimEpoch) -> Result<Vec<SiteEvent>, Refusal> {
    let Some(source) = site.sources.get(&ask.source) else {
        let known: Vec<_> = site.sources.keys().map(|s| s.as_str()).collect();
        let seen = format!("{}; it has: {}", ask.source, known.join(", "));
        return Err(Refusal::new(
            "unknown-source",
            "sources",
            "a source that the site has",
            seen,
            "add the source to the site's configuration",
        ));
    };
    let granted = EpochGranted { source: ask.source, boot: ask.boot, epoch: source.epoch + 1 };
    Ok(if source.boot == Some(ask.boot) { vec![] } else { vec![granted.into()] })
}
