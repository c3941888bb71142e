//! Looking: lists, one device, why, timeline, history.

use crate::api::Api;
use crate::exit::Failure;
use crate::output::{Form, Output, field, print};
use clap::{ArgMatches, parser::ValueSource};
use serde_json::Value;

/// An argument.
pub fn text<'m>(m: &'m ArgMatches, name: &str) -> Option<&'m String> {
    m.get_one::<String>(name)
}

/// `get`.
pub async fn get(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let what = text(m, "what").map_or("sites", String::as_str);
    match what {
        "devices" => only(m, &["filter", "site", "max"])?,
        "conditions" if text(m, "device").is_some() => only(m, &["device"])?,
        "conditions" => only(m, &["filter", "max"])?,
        "operations" => only(m, &["filter", "device", "state", "max"])?,
        "attention" => only(m, &["filter", "site", "max"])?,
        "denials" => only(m, &["max"])?,
        "configs" => only(m, &["site"])?,
        "orphans" => only(m, &["site", "source", "max"])?,
        _ => only(m, &[])?,
    }
    match what {
        "devices" => devices(api, m, output).await,
        "conditions" => conditions(api, m, output).await,
        "operations" => operations(api, m, output).await,
        "attention" => crate::attention::list(api, m, output).await,
        "denials" => denials(api, m, output).await,
        "configs" => crate::configs::get(api, m.get_one::<String>("site"), output).await,
        "orphans" => orphans(api, m, output).await,
        _ => sites(api, output).await,
    }
}

/// A flag that this list does not heed is refused: the list would look like an answer to it.
fn only(m: &ArgMatches, takes: &[&str]) -> Result<(), Failure> {
    let typed = |flag: &str| m.value_source(flag) == Some(ValueSource::CommandLine);
    match ["filter", "site", "source", "device", "state", "max"].into_iter().find(|f| typed(f) && !takes.contains(f)) {
        Some(odd) if takes.is_empty() => Err(Failure::usage(format!("--{odd} does not go with this list, which takes none"))),
        Some(odd) => Err(Failure::usage(format!("--{odd} does not go with this list, which takes: {}", takes.join(", ")))),
        None => Ok(()),
    }
}

/// Every page up to `--max` lines, as one body.
pub async fn all(api: &Api, list: &[&str], mut query: Vec<(&str, String)>, max: u32, output: &Output) -> Result<Value, Failure> {
    let mut items: Vec<Value> = Vec::new();
    query.push(("limit", max.min(500).to_string()));
    let mut page = query.clone();
    let mut body = loop {
        let body = api.get(list, &page).await?;
        items.extend(body["items"].as_array().cloned().unwrap_or_default());
        match body["next_cursor"].as_str() {
            Some(next) if items.len() < max as usize => {
                page = query.clone();
                page.push(("cursor", next.to_owned()));
            }
            Some(_) => {
                output.say(&format!("… and more; --max {max} ended the list"));
                break body;
            }
            None => break body,
        }
    };
    items.truncate(max as usize);
    body["items"] = items.into();
    Ok(body)
}

/// The lines of a list.
pub fn items(body: &Value) -> impl Iterator<Item = &Value> {
    body["items"].as_array().into_iter().flatten()
}

/// Lines at most.
pub fn max(m: &ArgMatches) -> u32 {
    m.get_one::<u32>("max").copied().unwrap_or(500)
}

/// `--site` and `--filter` as one filter.
pub fn filter(m: &ArgMatches) -> String {
    let site = text(m, "site").map(|s| format!("site = \"{s}\""));
    let filter = text(m, "filter").filter(|f| !f.trim().is_empty()).map(|f| format!("({f})"));
    site.into_iter().chain(filter).collect::<Vec<_>>().join(" AND ")
}

async fn devices(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = all(api, &["devices"], vec![("filter", filter(m))], max(m), output).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let wide = output.form == Form::Wide;
    let row = |d: &Value| {
        let bad = d["conditions_bad"].as_array().into_iter().flatten().map(|c| match field(c, "status").as_str() {
            "Unknown" => format!("{}?", field(c, "type")),
            _ => field(c, "type"),
        });
        let mut bad: Vec<_> = bad.collect();
        // One type may stand for several subjects.
        bad.dedup();
        let mut row: Vec<_> = ["name", "site", "role", "phase", "tenant_state"].iter().map(|f| field(d, f)).collect();
        if wide {
            row.extend(["owner", "rack", "version", "updated_at", "id"].iter().map(|f| field(d, f)));
        }
        row.push(bad.join(","));
        row
    };
    let rows = items(&body).map(row).collect();
    let headers: &[&str] = if wide {
        &["name", "site", "role", "phase", "tenant", "owner", "rack", "version", "updated", "id", "not well"]
    } else {
        &["name", "site", "role", "phase", "tenant", "not well"]
    };
    output.table(headers, rows)?;
    say_age(&body, output);
    Ok(())
}

/// Staleness is visible.
pub fn say_age(body: &Value, output: &Output) {
    let stale: Vec<_> = body["meta"]["sources"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|s| s["fresh"] != true)
        .map(|s| format!("{} at {}", field(s, "source"), field(s, "site")))
        .collect();
    if !stale.is_empty() {
        output.say(&format!("not fresh: {}", stale.join(", ")));
    }
    if body["meta"]["lag_seconds"].as_f64().is_some_and(|lag| lag > 5.0) {
        output.say(&format!("the list is {} s old", body["meta"]["lag_seconds"]));
    }
}

async fn conditions(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = match text(m, "device") {
        Some(device) => api.get(&["devices", device, "conditions"], &[]).await?,
        None => {
            let filter = text(m, "filter").cloned().unwrap_or_else(|| "type = SlurmSchedulable".into());
            all(api, &["conditions"], vec![("filter", filter)], max(m), output).await?
        }
    };
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |c: &Value| ["name", "type", "status", "reason", "source", "age_seconds", "message"].iter().map(|f| field(c, f)).collect();
    output.table(&["device", "type", "status", "reason", "source", "age s", "message"], items(&body).map(row).collect())
}

async fn operations(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let query = ["filter", "device", "state"].iter().filter_map(|n| text(m, n).map(|v| (*n, v.clone()))).collect();
    let body = all(api, &["operations"], query, max(m), output).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |o: &Value| ["id", "name", "verb", "state", "started_at", "by", "reason", "message"].iter().map(|f| field(o, f)).collect();
    output.table(&["id", "device", "verb", "state", "started", "by", "reason", "message"], items(&body).map(row).collect())
}

async fn denials(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = all(api, &["audit", "denials"], vec![], max(m), output).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |d: &Value| ["at", "client", "reason", "method", "path", "unrecorded", "detail"].iter().map(|f| field(d, f)).collect();
    output.table(&["at", "client", "reason", "method", "path", "more", "detail"], items(&body).map(row).collect())
}

async fn orphans(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let query = ["site", "source"].iter().filter_map(|n| text(m, n).map(|v| (*n, v.clone()))).collect();
    let body = all(api, &["orphans"], query, max(m), output).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |o: &Value| ["site", "source", "native_id", "since", "detail"].iter().map(|f| field(o, f)).collect();
    output.table(&["site", "source", "id there", "since", "detail"], items(&body).map(row).collect())?;
    say_age(&body, output);
    Ok(())
}

async fn sites(api: &Api, output: &Output) -> Result<(), Failure> {
    let body = api.get(&["sites"], &[]).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let mut rows = Vec::new();
    for site in items(&body) {
        for source in site["sources"].as_array().into_iter().flatten() {
            let mode = field(site, &format!("modes.{}", field(source, "source")));
            let fresh = if source["fresh"] == true { "fresh" } else { "not fresh" };
            let problem =
                [field(source, "fault"), field(source, "problem")].into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(": ");
            rows.push(vec![field(site, "site_id"), field(source, "source"), mode, fresh.into(), field(source, "since"), problem]);
        }
    }
    output.table(&["site", "source", "mode", "fresh", "since", "problem"], rows)
}

/// `describe device`.
pub async fn describe(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let device = text(m, "device").cloned().unwrap_or_default();
    let body = api.get(&["devices", &device], &[]).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let mut out = format!("{}  {}  version {}\n", field(&body, "name"), field(&body, "id"), field(&body, "version"));
    for section in ["lifecycle", "inventory", "identity", "scheduler", "operation"] {
        out.push_str(&section_text(section, &body[section]));
    }
    out.push_str("conditions\n");
    for c in body["conditions"].as_array().into_iter().flatten() {
        let said = if c["said"].is_null() { String::new() } else { format!(" (last said {})", field(c, "said")) };
        let line = format!("  {:<22} {:<8} {:<20} {}{said}", field(c, "type"), field(c, "status"), field(c, "reason"), field(c, "message"));
        out.push_str(&format!("{}\n", line.trim_end()));
    }
    out.push_str(&waiting(&body["waiting_for"]));
    print(&out)
}

fn section_text(name: &str, value: &Value) -> String {
    let Some(map) = value.as_object() else { return String::new() };
    let plain = |v: &Value| match v {
        Value::String(s) => s.clone(),
        Value::Array(a) => a.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let shown = map.iter().filter(|(_, v)| !v.is_null() && v.as_array().is_none_or(|a| !a.is_empty()));
    let lines: String = shown.map(|(k, v)| format!("  {k:<18} {}\n", plain(v))).collect();
    format!("{name}\n{lines}")
}

fn waiting(list: &Value) -> String {
    let mut out = String::new();
    for w in list.as_array().into_iter().flatten() {
        out.push_str(&format!("waits for {}\n", field(w, "what")));
        for (label, name) in [("since", "since"), ("until", "until"), ("owner", "owner"), ("helps", "helps")] {
            if !field(w, name).is_empty() {
                out.push_str(&format!("  {label:<7} {}\n", field(w, name)));
            }
        }
    }
    if out.is_empty() { "waits for nothing\n".into() } else { out }
}

/// `why`.
pub async fn why(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let device = text(m, "device").cloned().unwrap_or_default();
    let body = api.get(&["devices", &device, "why"], &[]).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let phase = if field(&body, "phase").is_empty() { "no phase".to_owned() } else { field(&body, "phase") };
    let mut out = format!("{}  {phase}  version {}\n{}", field(&body, "name"), field(&body, "version"), waiting(&body["waiting_for"]));
    let verbs: Vec<_> = body["verbs"].as_array().cloned().unwrap_or_default();
    let allowed: Vec<_> = verbs.iter().filter(|v| v["allowed"] == true).map(|v| field(v, "verb")).collect();
    out.push_str(&format!("may be asked now: {}\n", if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") }));
    for v in verbs.iter().filter(|v| v["allowed"] != true) {
        out.push_str(&format!(
            "  not {:<16} {}: expected {}, seen {}\n",
            field(v, "verb"),
            field(v, "code"),
            field(v, "expected"),
            field(v, "seen")
        ));
    }
    print(&out)
}

/// `timeline`.
pub async fn timeline(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = past(api, m, "timeline").await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let mut rows: Vec<Vec<String>> =
        items(&body).map(|e| ["at", "version", "actor", "text"].iter().map(|f| field(e, f)).collect()).collect();
    rows.reverse();
    output.table(&["at", "version", "by", "what"], rows)
}

/// `history`.
pub async fn history(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = past(api, m, "history").await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |d: &Value| {
        let events: Vec<_> = d["events"].as_array().into_iter().flatten().map(|e| field(e, "type")).collect();
        let place = format!("{}:{}", field(d, "journal.partition"), field(d, "journal.offset"));
        let hash: String = field(d, "journal.hash").chars().take(12).collect();
        let outcome = [field(d, "outcome.kind"), field(d, "outcome.code")].join(" ");
        vec![field(d, "recorded_at"), field(d, "version"), field(d, "cause.kind"), outcome.trim().to_owned(), events.join(","), place, hash]
    };
    let mut rows: Vec<_> = items(&body).map(row).collect();
    rows.reverse();
    output.table(&["at", "version", "cause", "outcome", "events", "journal", "hash"], rows)
}

async fn past(api: &Api, m: &ArgMatches, what: &str) -> Result<Value, Failure> {
    let device = text(m, "device").cloned().unwrap_or_default();
    let limit = m.get_one::<u32>("limit").copied().unwrap_or(50);
    api.get(&["devices", &device, what], &[("limit", limit.to_string())]).await
}
