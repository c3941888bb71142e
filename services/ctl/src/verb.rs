//! Giving a command.

use crate::api::Api;
use crate::exit::{Failure, PENDING};
use crate::output::{Output, field};
use clap::ArgMatches;
use fleet_schemas::verbs;
use serde_json::{Map, Value, json};

/// Gives `verb` and prints what came of it.
pub async fn give(api: &Api, verb: &str, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let Some(known) = verbs::find(verb) else { return Err(Failure::usage(format!("`{verb}` is no verb"))) };
    let text = |name: &str| m.get_one::<String>(name).cloned();
    let params: Map<String, Value> = known.params.iter().filter_map(|p| Some((p.name.to_owned(), json!(text(p.name)?)))).collect();
    let device = text("device").unwrap_or_default();
    let body = json!({"command": verb, "reason": text("reason"), "params": params, "dry_run": m.get_flag("dry-run")});
    let mut headers = vec![];
    if m.get_flag("no-wait") {
        headers.push(("prefer", "respond-async".into()));
    }
    if let Some(version) = m.get_one::<u64>("if-version") {
        headers.push(("if-match", format!("\"v{version}\"")));
    }
    let answer = api.post(&["devices", &device, "commands"], &body, &headers).await?;
    if output.whole(&answer.body)? {
        return Ok(());
    }
    if answer.status == reqwest::StatusCode::ACCEPTED {
        let text = format!("pending  {device}  {verb}  not decided yet; `fmctl history {device}` shows when it is");
        return if m.get_flag("no-wait") {
            output.table(&["command"], vec![vec![field(&answer.body, "command")]])
        } else {
            Err(Failure::new(PENDING, text))
        };
    }
    let what = if answer.body["dry_run"] == true { "would be accepted" } else { "accepted" };
    let rest = if answer.body["dry_run"] == true { field(&answer.body, "would") } else { field(&answer.body, "operation") };
    let name = if field(&answer.body, "device.name").is_empty() { device } else { field(&answer.body, "device.name") };
    let row = vec![name, what.into(), field(&answer.body, "device.phase"), format!("v{}", field(&answer.body, "device.version")), rest];
    output.table(&["device", "outcome", "phase", "version", "operation"], vec![row])
}
