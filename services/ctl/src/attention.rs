//! What waits for a person: the list, and saying that it is known.

use crate::api::Api;
use crate::exit::{Failure, PENDING};
use crate::get::{all, filter, items, max, say_age, text};
use crate::output::{Form, Output, field};
use clap::ArgMatches;
use serde_json::{Value, json};

/// `get attention`.
pub async fn list(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = all(api, &["attention"], vec![("filter", filter(m))], max(m), output).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |a: &Value| match output.form {
        // What `acknowledge` takes.
        Form::Name => vec![field(a, "id")],
        form => {
            let mut row: Vec<_> = ["name", "item", "since", "owner", "acknowledged.by", "why"].iter().map(|f| field(a, f)).collect();
            if form == Form::Wide {
                row.extend([helps(a), field(a, "id")]);
            }
            row
        }
    };
    let headers = ["device", "item", "since", "owner", "acknowledged", "why", "ways out", "id"];
    output.table(&headers[..if output.form == Form::Wide { 8 } else { 6 }], items(&body).map(row).collect())?;
    say_age(&body, output);
    Ok(())
}

fn helps(a: &Value) -> String {
    a["ways_out"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

/// `acknowledge`.
pub async fn acknowledge(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let item = text(m, "item").cloned().unwrap_or_default();
    let reason = json!({"reason": text(m, "reason")});
    let answer = api.post(&["attention", &item, "acknowledge"], &reason, &[]).await?;
    if answer.status == reqwest::StatusCode::ACCEPTED {
        return Err(Failure::new(PENDING, format!("pending  {item}  not decided yet; `fmctl get attention` shows when it is")));
    }
    if output.whole(&answer.body)? {
        return Ok(());
    }
    output.table(&["id", "version"], vec![vec![field(&answer.body, "id"), field(&answer.body, "version")]])
}
