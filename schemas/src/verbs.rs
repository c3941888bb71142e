//! The verbs of the lifecycle, as data: the API's validation, the CLI's commands and the documents are generated from this table.

use crate::{
    Activate, Annotate, Ask, Drain, EndMaintenance, LiftHold, Maintain, NotBuilt, Phase, PlaceHold, Quarantine, Resume, Then, Timestamp,
    Validate,
};
use serde_json::{Map, Value};
use std::str::FromStr;

/// What a parameter of a verb holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free text of at most 120 characters.
    Text,
    /// A CamelCase word of at most 64 characters.
    CamelCase,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An instant, RFC 3339.
    Time,
}

/// One parameter of a verb.
#[derive(Debug)]
pub struct Param {
    /// Its name in `params`, and as a flag of the CLI.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What is taken where it is absent; `None` with `required` false = nothing.
    pub default: Option<&'static str>,
    /// Whether it must be given.
    pub required: bool,
    /// For people.
    pub help: &'static str,
}

/// One verb.
#[derive(Debug)]
pub struct Verb {
    /// Its name on the wire and in the CLI.
    pub name: &'static str,
    /// For people.
    pub help: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Whether this build can do it; else it is refused `not-available`.
    pub built: bool,
}

const THEN: Kind = Kind::OneOf(&["stay", "quarantine", "maintenance", "reprovision", "release"]);
const UNTIL: Param =
    Param { name: "until", kind: Kind::Time, default: None, required: false, help: "announced end, as in 2026-12-01T18:00:00Z" };
const HOLD: Param = Param { name: "name", kind: Kind::Text, default: Some("operator"), required: false, help: "name of the hold" };

const fn verb(name: &'static str, help: &'static str, params: &'static [Param]) -> Verb {
    Verb { name, help, params, built: true }
}
const fn later(name: &'static str, help: &'static str) -> Verb {
    Verb { name, help, params: &[], built: false }
}

/// Every verb that a person can give to a device.
pub const TABLE: &[Verb] = &[
    verb("activate", "put a Ready device into service", &[]),
    verb(
        "drain",
        "take a device out of service, letting its jobs end",
        &[
            Param { name: "mode", kind: Kind::OneOf(&["pending", "immediate"]), default: Some("pending"), required: false, help: "how" },
            Param { name: "then", kind: THEN, default: Some("stay"), required: false, help: "where the drain leads" },
        ],
    ),
    verb("resume", "put a draining device back into service", &[]),
    verb(
        "quarantine",
        "take a device out of service for a fault",
        &[Param { name: "cause", kind: Kind::CamelCase, default: Some("OperatorRequest"), required: false, help: "name of the fault" }],
    ),
    verb("validate", "take a quarantined device back through validation", &[]),
    verb("maintain", "take a device out of service for work on it", &[UNTIL]),
    verb("end-maintenance", "say that the work is done", &[]),
    verb(
        "hold",
        "let nothing advance the device",
        &[HOLD, Param { name: "expires_at", kind: Kind::Time, default: None, required: false, help: "when the hold ends by itself" }],
    ),
    verb("unhold", "lift a hold", &[HOLD]),
    verb(
        "annotate",
        "accept a person's NetBox edit as it stands",
        &[Param {
            name: "kind",
            kind: Kind::OneOf(&["accept-drift"]),
            default: Some("accept-drift"),
            required: false,
            help: "what is said",
        }],
    ),
    later("enrol", "make the device known to its provisioner"),
    later("provision", "install the device"),
    later("reprovision", "install the device again, in place"),
    later("burn-in", "run the burn-in suite again"),
    later("remediate", "run a repair action"),
    later("release", "take the device out of SLURM and clean it"),
    later("send-to-repair", "hand the device to the vendor"),
    later("return-from-repair", "take the device back from the vendor"),
    later("decommission", "take the device out for good"),
    later("force-transition", "break-glass change of phase"),
    later("cancel", "cancel the running operation"),
    later("waive", "let one stage pass in spite of a condition"),
    later("confirm-idle", "vouch that no work runs"),
    later("approve", "approve an operation"),
    later("reject", "reject an operation"),
];

/// The verb of this name.
pub fn find(name: &str) -> Option<&'static Verb> {
    TABLE.iter().find(|v| v.name == name)
}

/// Why a request is no command. Names the field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct BadAsk {
    /// The field at fault.
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

fn bad(field: impl Into<String>, problem: impl Into<String>) -> BadAsk {
    BadAsk { field: field.into(), problem: problem.into() }
}

/// The request for `verb` with these parameters.
pub fn ask(name: &str, params: &Map<String, Value>) -> Result<Ask, BadAsk> {
    let verb = find(name)
        .ok_or_else(|| bad("command", format!("`{}` is no verb; one of: {}", name.chars().take(64).collect::<String>(), names())))?;
    if !verb.built {
        return Ok(NotBuilt { verb: name.into() }.into());
    }
    if let Some(unknown) = params.keys().find(|k| verb.params.iter().all(|p| p.name != k.as_str())) {
        let known: Vec<_> = verb.params.iter().map(|p| p.name).collect();
        return Err(bad(format!("params.{unknown}"), format!("`{name}` has no such parameter; it has: {}", list(&known))));
    }
    let given = Given { verb, params };
    Ok(match name {
        "activate" => Activate {}.into(),
        "drain" => {
            Drain { mode: given.text("mode")?.unwrap_or_default(), then: given.parsed::<Then>("then")?.unwrap_or(Then::Stay) }.into()
        }
        "resume" => Resume {}.into(),
        "quarantine" => Quarantine { cause: given.text("cause")?.unwrap_or_default() }.into(),
        "validate" => Validate {}.into(),
        "maintain" => Maintain { until: given.parsed::<Timestamp>("until")? }.into(),
        "end-maintenance" => EndMaintenance {}.into(),
        "hold" => PlaceHold { name: given.text("name")?.unwrap_or_default(), expires_at: given.parsed::<Timestamp>("expires_at")? }.into(),
        "unhold" => LiftHold { name: given.text("name")?.unwrap_or_default() }.into(),
        "annotate" => Annotate { kind: given.text("kind")?.unwrap_or_default() }.into(),
        other => return Err(bad("command", format!("`{other}` is in the table but has no form"))),
    })
}

/// The request for `verb` with no parameter given, where the verb asks for none.
pub fn plain(name: &str) -> Option<Ask> {
    ask(name, &Map::new()).ok()
}

/// The verb that a request is, as people name it.
pub fn name_of(ask: &Ask) -> &str {
    match ask {
        Ask::Baseline(_) => "baseline",
        Ask::Activate(_) => "activate",
        Ask::Drain(_) => "drain",
        Ask::Resume(_) => "resume",
        Ask::Quarantine(_) => "quarantine",
        Ask::Validate(_) => "validate",
        Ask::Maintain(_) => "maintain",
        Ask::EndMaintenance(_) => "end-maintenance",
        Ask::PlaceHold(_) => "hold",
        Ask::LiftHold(_) => "unhold",
        Ask::Annotate(_) => "annotate",
        Ask::AcknowledgeAttention(_) => "acknowledge",
        Ask::NotBuilt(n) => &n.verb,
        Ask::RegisterSite(_) => "register-site",
        Ask::SetRoleProfile(_) => "set-role-profile",
        Ask::FirstRoleProfile(_) => "first-role-profile",
        Ask::ChangeRoleProfile(_) => "change-role-profile",
        Ask::ClaimEpoch(_) => "claim-epoch",
        Ask::SetAnnotations(_) => "set-annotations",
        Ask::CreateBootstrapConfig(_) => "create-bootstrap-config",
        Ask::UpdateBootstrapConfig(_) => "update-bootstrap-config",
        Ask::RetireBootstrapConfig(_) => "retire-bootstrap-config",
        Ask::ReadUserData(_) => "read-user-data",
        Ask::ChangeSite(_) => "change-site",
        Ask::PlaceFreeze(_) => "freeze",
        Ask::LiftFreeze(_) => "unfreeze",
        Ask::RegisterType(_) => "register-type",
        Ask::Take(_) => "take",
        Ask::GiveBack(_) => "give-back",
    }
}

fn names() -> String {
    TABLE.iter().map(|v| v.name).collect::<Vec<_>>().join(", ")
}

fn list(words: &[&str]) -> String {
    if words.is_empty() { "none".into() } else { words.join(", ") }
}

struct Given<'a> {
    verb: &'static Verb,
    params: &'a Map<String, Value>,
}

impl Given<'_> {
    fn text(&self, name: &str) -> Result<Option<String>, BadAsk> {
        let field = || format!("params.{name}");
        let param = self.verb.params.iter().find(|p| p.name == name).ok_or_else(|| bad(field(), "no such parameter"))?;
        let text = match self.params.get(name) {
            None | Some(Value::Null) if param.required => return Err(bad(field(), format!("required: {}", param.help))),
            None | Some(Value::Null) => return Ok(param.default.map(str::to_owned)),
            Some(Value::String(s)) => s.clone(),
            Some(other) => return Err(bad(field(), format!("expected text, got {other}"))),
        };
        check(&text, param.kind).map_err(|problem| bad(field(), problem))?;
        Ok(Some(text))
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(&self, name: &str) -> Result<Option<T>, BadAsk> {
        self.text(name)?.map(|t| t.parse().map_err(|e: T::Err| bad(format!("params.{name}"), e.to_string()))).transpose()
    }
}

fn check(text: &str, kind: Kind) -> Result<(), String> {
    let plain = |c: char| !c.is_control();
    match kind {
        Kind::Text if (1..=120).contains(&text.chars().count()) && text.chars().all(plain) => Ok(()),
        Kind::Text => Err("1 to 120 characters, no control characters".into()),
        Kind::CamelCase
            if text.len() <= 64
                && text.starts_with(|c: char| c.is_ascii_uppercase())
                && text.chars().all(|c| c.is_ascii_alphanumeric()) =>
        {
            Ok(())
        }
        Kind::CamelCase => {
            Err(format!("`{}` is not CamelCase of at most 64 letters and digits", text.chars().take(64).collect::<String>()))
        }
        Kind::OneOf(words) if words.contains(&text) => Ok(()),
        Kind::OneOf(words) => Err(format!("`{}` is not one of: {}", text.chars().take(64).collect::<String>(), words.join(", "))),
        Kind::Time => text
            .parse::<Timestamp>()
            .map(|_| ())
            .map_err(|_| format!("`{}` is no RFC 3339 time", text.chars().take(64).collect::<String>())),
    }
}

/// Phases a person can wait for, in the order of the lifecycle.
pub fn phases() -> impl Iterator<Item = &'static str> {
    Phase::ALL.iter().map(|p| p.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn params(v: Value) -> Map<String, Value> {
        v.as_object().cloned().unwrap()
    }

    #[test]
    fn every_built_verb_has_a_form_and_its_name_back() {
        for v in TABLE {
            let asked = ask(v.name, &Map::new()).unwrap();
            assert_eq!(name_of(&asked), v.name);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let rows = [
            ("fly", json!({}), "command: `fly` is no verb"),
            ("drain", json!({"hen": 1}), "params.hen: `drain` has no such parameter; it has: mode, then"),
            ("drain", json!({"then": "moon"}), "params.then: `moon` is not one of: stay"),
            ("drain", json!({"then": 7}), "params.then: expected text, got 7"),
            ("maintain", json!({"until": "tomorrow"}), "params.until: `tomorrow` is no RFC 3339 time"),
            ("quarantine", json!({"cause": "no gpu"}), "params.cause: `no gpu` is not CamelCase"),
            ("hold", json!({"name": ""}), "params.name: 1 to 120 characters"),
        ];
        for (verb, given, expected) in rows {
            let got = ask(verb, &params(given)).unwrap_err().to_string();
            assert!(got.starts_with(expected), "{got}");
        }
    }
}
