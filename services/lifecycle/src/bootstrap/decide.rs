//! What can be asked of a bootstrap configuration.

use super::Config;
use crate::{Context, Refusal, wrong_stream::*};
use fleet_schemas::{
    Ask, BootstrapConfigChanged, BootstrapConfigCreated, BootstrapConfigEvent, BootstrapConfigRetired, BootstrapFields,
    CreateBootstrapConfig, Provisioner, ReadUserData, UpdateBootstrapConfig,
};

/// The fields that an update can name.
pub const ALL_FIELDS: &[&str] = &["image", "flavor", "features", "gres", "user_data"];
/// Features that a configuration may name.
const MOST_FEATURES: usize = 64;

type Done = Result<Vec<BootstrapConfigEvent>, Refusal>;

/// A field that cannot be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadField {
    /// The field.
    pub field: &'static str,
    /// What it may be.
    pub expected: &'static str,
    /// What it is.
    pub seen: String,
}

/// Whether the fields can be so: image and flavor are text of 1 to 255 characters or absent, features at most 64 words without blank or
/// comma (SLURM's list is made of them), each once, GRES text of 1 to 255 characters or absent.
pub fn check(fields: &BootstrapFields) -> Result<(), BadField> {
    let texts = [("image", &fields.image), ("flavor", &fields.flavor), ("gres", &fields.gres)];
    for (field, value) in texts {
        let bad = value.as_ref().filter(|v| v.trim().is_empty() || v.chars().count() > 255 || v.chars().any(char::is_control));
        if let Some(value) = bad {
            let seen = format!("`{}`", value.chars().take(64).collect::<String>().escape_debug());
            return Err(BadField { field, expected: "1 to 255 characters, no control characters; null where there is none", seen });
        }
    }
    let bad = |message: &'static str, seen: String| Err(BadField { field: "features", expected: message, seen });
    if fields.features.len() > MOST_FEATURES {
        return bad("at most 64 features", fields.features.len().to_string());
    }
    for (i, feature) in fields.features.iter().enumerate() {
        let plain = |c: char| !c.is_control() && !c.is_whitespace() && c != ',';
        let seen = || format!("`{}`", feature.chars().take(64).collect::<String>().escape_debug());
        if feature.is_empty() || feature.chars().count() > 64 || !feature.chars().all(plain) {
            return bad("features of 1 to 64 characters without blank or comma", seen());
        }
        if fields.features[..i].contains(feature) {
            return bad("each feature once", seen());
        }
    }
    Ok(())
}

/// Judges a request.
pub fn decide(config: &Config, ask: &Ask, ctx: &Context<'_>) -> Done {
    if !ctx.actor.reaches(&config.site) {
        let expected = format!("a right at {}", config.site);
        return Err(Refusal::new("out-of-reach", "reach", expected, ctx.actor.reach.join(", "), "ask the site's owner"));
    }
    match ask {
        Ask::CreateBootstrapConfig(a) => create(config, a, ctx),
        Ask::UpdateBootstrapConfig(a) => standing(config).and_then(|()| update(config, a, ctx)),
        Ask::RetireBootstrapConfig(_) => standing(config).and_then(|()| retire(config, ctx)),
        Ask::ReadUserData(a) => read(config, a),
        for_device!() | for_site!() | for_name!() => Err(wrong_stream(ask, "a bootstrap configuration")),
    }
}

fn standing(config: &Config) -> Result<(), Refusal> {
    if config.standing {
        return Ok(());
    }
    let seen = if config.version == 0 { "none".to_owned() } else { format!("it was retired as version {}", config.version) };
    let expected = format!("a bootstrap configuration of {} at {}", config.role, config.site);
    Err(Refusal::new("unknown-config", "configuration", expected, seen, "create one"))
}

fn valid(fields: &BootstrapFields) -> Result<(), Refusal> {
    check(fields).map_err(|bad| Refusal::new("invalid", bad.field, bad.expected, bad.seen, "correct the field"))
}

fn create(config: &Config, ask: &CreateBootstrapConfig, ctx: &Context<'_>) -> Done {
    if !ctx.reference.sites.get(&config.site).is_some_and(|s| s.registered) {
        let seen = config.site.to_string();
        return Err(Refusal::new("unknown-site", "registration", "a registered site", seen, "register the site in the configuration"));
    }
    if config.standing {
        let expected = format!("no bootstrap configuration of {} at {}", config.role, config.site);
        let seen = format!("version {}", config.version);
        return Err(Refusal::new("already-exists", "configuration", expected, seen, "change it, or retire it first"));
    }
    valid(&ask.fields)?;
    let (fields, user_data) = (ask.fields.clone(), ask.user_data.clone());
    Ok(vec![BootstrapConfigCreated { version: ctx.version + 1, by: ctx.actor.subject.clone(), fields, user_data }.into()])
}

/// The fields after a patch.
fn patched(config: &Config, ask: &UpdateBootstrapConfig) -> Result<BootstrapFields, Refusal> {
    let (mut fields, given) = (config.fields.clone(), ask.fields.clone());
    for name in &ask.set {
        match name.as_str() {
            "image" => fields.image.clone_from(&given.image),
            "flavor" => fields.flavor.clone_from(&given.flavor),
            "features" => fields.features.clone_from(&given.features),
            "gres" => fields.gres.clone_from(&given.gres),
            "user_data" => {}
            other => {
                return Err(Refusal::new("invalid", "set", ALL_FIELDS.join(", "), other.to_owned(), "name a field of a configuration"));
            }
        }
    }
    Ok(fields)
}

fn update(config: &Config, ask: &UpdateBootstrapConfig, ctx: &Context<'_>) -> Done {
    let fields = patched(config, ask)?;
    valid(&fields)?;
    let before = &config.fields;
    let mut changed: Vec<String> = [
        ("image", before.image != fields.image),
        ("flavor", before.flavor != fields.flavor),
        ("features", before.features != fields.features),
        ("gres", before.gres != fields.gres),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(name, _)| name.to_owned())
    .collect();
    // Under another key the digest says nothing: it is taken as another content.
    let same = |a: &super::UserData, b: &fleet_schemas::SealedUserData| (a.key, a.digest) == (b.key, b.digest);
    let named = ask.set.iter().any(|name| name == "user_data");
    let kept = match (&config.user_data, &ask.user_data) {
        (Some(before), Some(now)) => same(before, now),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    };
    let user_data = if named && !kept {
        changed.push("user_data".into());
        ask.user_data.clone()
    } else {
        None
    };
    if changed.is_empty() {
        return Ok(vec![]);
    }
    Ok(vec![BootstrapConfigChanged { version: ctx.version + 1, by: ctx.actor.subject.clone(), changed, fields, user_data }.into()])
}

/// In use: the role's machines at the site are installed by us, from this.
fn retire(config: &Config, ctx: &Context<'_>) -> Done {
    let profile = ctx.reference.profile(&config.site, config.role.as_str());
    if let Some(installs) = profile.map(|p| p.provisioner).filter(|p| *p != Provisioner::External) {
        let expected = format!("no role profile that installs {} at {}", config.role, config.site);
        let seen = format!("its role profile has provisioner {installs}");
        return Err(Refusal::new("in-use", "role profile", expected, seen, "give the role another provisioner first"));
    }
    Ok(vec![BootstrapConfigRetired { version: ctx.version + 1, by: ctx.actor.subject.clone() }.into()])
}

/// Changes nothing; the decision itself is what the journal keeps.
fn read(config: &Config, ask: &ReadUserData) -> Done {
    if (1..=config.version).contains(&ask.version) {
        return Ok(vec![]);
    }
    let expected = format!("a version of {} at {}", config.role, config.site);
    Err(Refusal::new("unknown-config", "version", expected, format!("version {}", ask.version), "name a version that there is"))
}
