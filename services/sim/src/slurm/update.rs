//! `POST /slurm/v0.0.4x/node/NAME`: what staff and demo need of it (knowledge/slurm.md section 5). No hostlists in the path.

use serde_json::{Map, Value, json};

use super::{Asked, SlurmFace, Trouble, Version, refusals};
use crate::http::{Answer, Call};
use crate::world::{Moment, SlurmNode};

/// Fields of the update that are accepted; all others are warned about.
const KNOWN: [&str; 4] = ["state", "reason", "comment", "resume_after"];

impl SlurmFace {
    pub(super) fn update(&self, version: Version, asked: Asked<'_>, call: &Call) -> Answer {
        let Asked::Node(name) = asked else { return Answer::text(404, super::NOT_FOUND) };
        let Ok(body) = serde_json::from_slice::<Map<String, Value>>(&call.body) else { return Answer::text(400, "Unable to parse query.") };
        let user = call.header("x-slurm-user-name").unwrap_or("slurm");
        match self.world.on_node(&self.site, name, |node, at| apply(node, &body, user, at)) {
            None => refusals::refuse(version, asked, Trouble::Unknown, true),
            Some(false) => refusals::bad_state(version, name),
            Some(true) => {
                let unknown = body.keys().filter(|k| !KNOWN.contains(&k.as_str()));
                let warning = |k: &String| {
                    let why = format!("Ignoring unknown field \"{k}\" in DATA_PARSER_UPDATE_NODE_MSG");
                    json!({ "description": why, "source": format!("#/{k}/") })
                };
                let warnings = Value::Array(unknown.map(warning).collect());
                Answer::json(200, format!(r#"{{"errors":[],"warnings":{warnings},"meta":{}}}"#, version.meta()))
            }
        }
    }
}

/// False = 2028; the new reason is stored all the same, as 24.11 does.
fn apply(node: &mut SlurmNode, body: &Map<String, Value>, user: &str, at: &Moment) -> bool {
    let states: Vec<String> = match body.get("state") {
        None => Vec::new(),
        Some(Value::String(one)) => vec![one.to_uppercase()],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).map(str::to_uppercase).collect(),
        Some(_) => vec![String::new()],
    };
    let reason = body.get("reason").and_then(Value::as_str).unwrap_or_default();
    node.set_reason(reason, user, at);
    match states.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["DRAIN"] => node.drain(reason, user, at),
        ["DOWN"] => node.down(reason, user, at),
        ["FAIL"] => node.add("FAIL"),
        ["IDLE"] if node.base() != "DOWN" => {}
        ["UNDRAIN"] => {
            node.undrain(at);
            node.settle(at);
        }
        ["RESUME" | "IDLE"] => {
            if !node.resume(at) {
                return false;
            }
            node.settle(at);
        }
        _ => return false,
    }
    true
}
