//! `wait`: until something is so, with what it waits for.

use crate::api::Api;
use crate::exit::{Failure, PENDING};
use crate::output::{Output, field, watched};
use clap::ArgMatches;
use indicatif::ProgressBar;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Waits until `--for` holds, or the time is up.
pub async fn wait(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let text = |name: &str| m.get_one::<String>(name).cloned().unwrap_or_default();
    let thing = text("thing");
    let (kind, id) = thing.split_once('/').unwrap_or(("device", &thing));
    let wanted = text("for");
    let (name, value) = wanted.split_once('=').ok_or_else(|| Failure::usage("--for FIELD=VALUE"))?;
    let limit = span(&text("timeout"))?;
    let path = match kind {
        "device" => format!("/devices/{id}"),
        "operation" => format!("/operations/{id}"),
        other => return Err(Failure::usage(format!("`{other}` cannot be waited for; device/… or operation/…"))),
    };
    let bar = if watched() && !output.quiet { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(120));
    let started = Instant::now();
    loop {
        let body = api.get(&path, &[]).await?;
        let now = if kind == "operation" { field(&body, name) } else { of_device(&body, name)? };
        if now.eq_ignore_ascii_case(value) {
            bar.finish_and_clear();
            return output.table(&["thing", "field", "value"], vec![vec![thing.clone(), name.into(), now]]);
        }
        if kind == "operation" && matches!(field(&body, "state").as_str(), "failed" | "cancelled" | "succeeded") && name == "state" {
            bar.finish_and_clear();
            return Err(Failure::error(format!("{thing} ended as {now}: {}", field(&body, "message"))));
        }
        let reason = body["waiting_for"]
            .as_array()
            .and_then(|w| w.first())
            .map_or_else(String::new, |w| format!("; it waits for {}", field(w, "what")));
        bar.set_message(format!("{name} is {now}{reason}"));
        if started.elapsed() >= limit {
            bar.finish_and_clear();
            return Err(Failure::new(
                PENDING,
                format!("{thing}: {name} is {now}, not {value}{reason}\nresume: fmctl wait {thing} --for {wanted}"),
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn of_device(body: &Value, name: &str) -> Result<String, Failure> {
    match name {
        "phase" => Ok(field(body, "lifecycle.phase")),
        "drained" => Ok(field(body, "lifecycle.drain_proven")),
        "operation" => Ok(if body["operation"].is_null() { "none".into() } else { "running".into() }),
        condition if condition.starts_with(|c: char| c.is_ascii_uppercase()) => {
            let found = body["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == condition);
            Ok(found.map_or_else(|| "Unknown".into(), |c| field(c, "status")))
        }
        other => Err(Failure::usage(format!("`{other}` cannot be waited for; phase, drained, operation, or a condition's type"))),
    }
}

fn span(text: &str) -> Result<Duration, Failure> {
    let bad = || Failure::usage(format!("`{text}` is no span; 30s, 10m, 2h"));
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number * 60)),
        "h" => Ok(Duration::from_secs(number * 3600)),
        _ => Err(bad()),
    }
}
