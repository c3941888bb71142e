//! `wait`: until something is so, with what it waits for.

use crate::api::Api;
use crate::exit::{Failure, NOT_FOUND, PENDING};
use crate::output::{Output, field, watched};
use clap::ArgMatches;
use fleet_schemas::{OperationState, Phase, Status};
use indicatif::ProgressBar;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// A look may take so long, also where the time is nearly up.
const LOOK: Duration = Duration::from_secs(10);

/// Waits until `--for` holds, or the time is up.
pub async fn wait(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let text = |name: &str| m.get_one::<String>(name).cloned().unwrap_or_default();
    let thing = text("thing");
    let (kind, id) = thing.split_once('/').unwrap_or(("device", &thing));
    let wanted = text("for");
    let (name, value) = wanted.split_once('=').ok_or_else(|| Failure::usage("--for FIELD=VALUE"))?;
    let limit = span(&text("timeout"))?;
    let list = match kind {
        "device" => "devices",
        "operation" => "operations",
        other => return Err(Failure::usage(format!("`{other}` cannot be waited for; device/… or operation/…"))),
    };
    can_be(api, kind, name, value).await?;
    let bar = if watched() && !output.quiet { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(120));
    let started = Instant::now();
    loop {
        let left = limit.saturating_sub(started.elapsed());
        let body = match api.look(&[list, id], &[], left.max(LOOK)).await {
            // What nobody has seen yet may come; it is missing only when the time is up. A hub that is busy says when to ask again.
            Err(not_yet) if (not_yet.code == NOT_FOUND || not_yet.later.is_some()) && !left.is_zero() => {
                bar.set_message(not_yet.text);
                tokio::time::sleep(not_yet.later.unwrap_or(PAUSE).min(left)).await;
                continue;
            }
            Err(busy) if busy.later.is_some() => {
                bar.finish_and_clear();
                return Err(Failure::new(PENDING, format!("{thing}: {}\nresume: fmctl wait {thing} --for {wanted}", busy.text)));
            }
            other => other?,
        };
        let now = if kind == "operation" { field(&body, name) } else { of_device(&body, name) };
        if now.eq_ignore_ascii_case(value) {
            bar.finish_and_clear();
            return output.table(&["thing", "field", "value"], vec![vec![thing.clone(), name.into(), now]]);
        }
        if kind == "operation" && matches!(now.as_str(), "failed" | "cancelled" | "succeeded") {
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

/// Whether the field can ever have that value: waiting for a mistyped one would never end. The hub knows the types of conditions.
async fn can_be(api: &Api, kind: &str, name: &str, value: &str) -> Result<(), Failure> {
    let words: Vec<&str> = match (kind, name) {
        ("operation", "state") => OperationState::ALL.iter().map(|s| s.as_str()).collect(),
        ("operation", other) => return Err(Failure::usage(format!("`{other}` of an operation cannot be waited for; state"))),
        (_, "phase") => Phase::ALL.iter().map(|p| p.as_str()).collect(),
        (_, "drained") => vec!["true", "false"],
        (_, "operation") => vec!["none", "running"],
        (_, condition) if condition.starts_with(|c: char| c.is_ascii_uppercase()) => {
            api.get(&["conditions"], &[("filter", format!("type = {condition:?}")), ("limit", "1".into())]).await?;
            Status::ALL.iter().map(|s| s.as_str()).collect()
        }
        (_, other) => {
            return Err(Failure::usage(format!("`{other}` cannot be waited for; phase, drained, operation, or a condition's type")));
        }
    };
    if words.iter().any(|w| w.eq_ignore_ascii_case(value)) {
        return Ok(());
    }
    Err(Failure::usage(format!("{name} is never `{value}`; it is one of: {}", words.join(", "))))
}

fn of_device(body: &Value, name: &str) -> String {
    match name {
        "phase" => field(body, "lifecycle.phase"),
        "drained" => field(body, "lifecycle.drain_proven"),
        "operation" => if body["operation"].is_null() { "none" } else { "running" }.into(),
        condition => {
            let found = body["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == condition);
            found.map_or_else(|| "Unknown".into(), |c| field(c, "status"))
        }
    }
}

fn span(text: &str) -> Result<Duration, Failure> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let seconds = units.iter().find_map(|(unit, seconds)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| Failure::usage(format!("`{text}` is no span; 30s, 10m, 2h")))
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        let rows = [
            ("30s", Some(30)),
            ("10m", Some(600)),
            ("2h", Some(7200)),
            ("0s", Some(0)),
            ("", None),
            ("5", None),
            ("h", None),
            ("-1s", None),
            ("1.5h", None),
            ("5µ", None),
            ("5µs", None),
            ("9999999999999999h", None),
            ("99999999999999999999s", None),
        ];
        for (text, seconds) in rows {
            assert_eq!(span(text).ok().map(|s| s.as_secs()), seconds, "{text}");
        }
    }
}
