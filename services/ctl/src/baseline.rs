//! `site baseline`: preview as a table, then confirm.

use crate::api::Api;
use crate::exit::{Failure, NOT_FOUND, PENDING};
use crate::output::{Output, field};
use clap::ArgMatches;
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};

/// `site …`.
pub async fn site(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let Some(("baseline", m)) = m.subcommand() else { return Err(Failure::usage("say what to do with the site")) };
    let site = m.get_one::<String>("site").cloned().unwrap_or_default();
    let preview = api.get(&["sites", &site, "baseline"], &[]).await?;
    let only: Vec<_> = m.get_many::<String>("only").into_iter().flatten().cloned().collect();
    let wanted = |item: &&Value| only.is_empty() || only.contains(&field(item, "name")) || only.contains(&field(item, "id"));
    let items: Vec<Value> = preview["items"].as_array().into_iter().flatten().filter(wanted).cloned().collect();
    let missing: Vec<_> = only.iter().filter(|n| !items.iter().any(|i| field(i, "name") == **n || field(i, "id") == **n)).collect();
    for name in &missing {
        output.say(&format!("{name} is not in the preview: another site's, decided already, or unknown"));
    }
    if m.get_flag("preview") || !output.quiet {
        show(&preview, &items, output)?;
    }
    if m.get_flag("preview") {
        return found(&missing);
    }
    let devices: Vec<_> = items.iter().filter(|i| i["phase"].is_string()).map(|i| json!({"id": i["id"], "phase": i["phase"]})).collect();
    let undecided = items.len() - devices.len();
    if devices.is_empty() {
        output.say(&format!("nothing to confirm; {undecided} undecided"));
        return found(&missing);
    }
    confirm(devices.len(), m.get_flag("yes"))?;
    let body = json!({"devices": devices, "reason": m.get_one::<String>("reason")});
    let done = api.post(&["sites", &site, "baseline"], &body, &[]).await?.body;
    for item in done["items"].as_array().into_iter().flatten().filter(|i| i["result"] != "accepted") {
        output.say(&format!("{}  {}  {}  {}", field(item, "id"), field(item, "result"), field(item, "code"), field(item, "detail")));
    }
    let [accepted, refused, pending] = ["accepted", "refused", "pending"].map(|n| done[n].as_u64().unwrap_or(0));
    output.say(&format!("{accepted} taken over, {refused} refused, {undecided} undecided"));
    match (refused, pending) {
        (0, 0) => found(&missing),
        (0, _) => Err(Failure::new(PENDING, format!("{pending} are not decided yet; the preview shows when they are"))),
        (_, _) => Err(Failure::new(4, format!("{refused} were refused, {pending} are not decided yet"))),
    }
}

/// What was named and is not there is an answer of its own.
fn found(missing: &[&String]) -> Result<(), Failure> {
    match missing {
        [] => Ok(()),
        names => Err(Failure::new(NOT_FOUND, format!("{} of those named are not in the preview", names.len()))),
    }
}

fn show(preview: &Value, items: &[Value], output: &Output) -> Result<(), Failure> {
    if output.whole(preview)? {
        return Ok(());
    }
    let row = |i: &Value| {
        let evidence: Vec<_> = i["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let phase = if i["phase"].is_null() { "-".to_owned() } else { field(i, "phase") };
        let why = if field(i, "problem").is_empty() { evidence.join("; ") } else { field(i, "problem") };
        vec![field(i, "name"), phase, why]
    };
    output.table(&["device", "proposed", "because"], items.iter().map(row).collect())
}

fn confirm(count: usize, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!("{count} devices would be taken over; --yes confirms where nobody can be asked")));
    }
    eprint!("take over {count} devices? [y/N] ");
    // A lost prompt is answered with no.
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|e| Failure::error(e.to_string()))?;
    if matches!(answer.trim(), "y" | "yes") { Ok(()) } else { Err(Failure::error("nothing was changed")) }
}
