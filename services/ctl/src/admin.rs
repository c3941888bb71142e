//! `projections …` and `parked …`: running the hub.

use crate::api::Api;
use crate::exit::Failure;
use crate::output::{Output, field};
use clap::ArgMatches;
use serde_json::{Value, json};

fn items(body: &Value) -> impl Iterator<Item = &Value> {
    body["items"].as_array().into_iter().flatten()
}

/// `projections …`.
pub async fn projections(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let body = match m.subcommand() {
        Some(("list", _)) => api.get(&["admin", "projections"], &[]).await?,
        Some(("rebuild", m)) => {
            let body = json!({"flip_anyway": m.get_flag("flip-anyway")});
            let built = api.post_patiently(&["admin", "projections", "rebuild"], &body).await?.body;
            return rebuilt(&built, output);
        }
        Some((turn, _)) => api.post(&["admin", "projections", turn], &json!({}), &[]).await?.body,
        None => return Err(Failure::usage("say what to do with the projections")),
    };
    if output.whole(&body)? {
        return Ok(());
    }
    let row = |g: &Value| {
        let partitions = g["partitions"].as_array().into_iter().flatten();
        let offsets: Vec<_> = partitions.map(|p| format!("{}:{}", field(p, "partition"), field(p, "next"))).collect();
        let does = if g["active"] == true { "serves" } else { "beside" };
        vec![field(g, "generation"), does.to_owned(), field(g, "fed"), offsets.join(" ")]
    };
    output.table(&["generation", "does", "fed", "partition:next"], items(&body).map(row).collect())
}

/// Not the same as before is an answer, and a reason to look: exit 9.
fn rebuilt(built: &Value, output: &Output) -> Result<(), Failure> {
    if !output.whole(built)? {
        let row = ["generation", "devices", "decisions", "seconds", "equal", "flipped"].map(|n| field(built, n)).to_vec();
        output.table(&["generation", "devices", "decisions", "seconds", "equal", "flipped"], vec![row])?;
    }
    if built["flipped"] == true {
        return Ok(());
    }
    Err(Failure::new(
        crate::exit::INTEGRITY,
        "it differs from the one that serves, which serves on; `projections flip` lets it serve".to_owned(),
    ))
}

/// `parked …`.
pub async fn parked(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let id = |m: &ArgMatches| m.get_one::<String>("id").cloned().unwrap_or_default();
    match m.subcommand() {
        Some(("list", m)) => {
            let body = api.get(&["admin", "parked"], &[("closed", m.get_flag("closed").to_string()), ("limit", "500".into())]).await?;
            table(&body, items(&body), output)
        }
        Some(("show", m)) => {
            let body = api.get(&["admin", "parked", &id(m)], &[]).await?;
            table(&body, std::iter::once(&body), output)
        }
        Some((close, m)) => {
            let reason = json!({"reason": m.get_one::<String>("reason")});
            let body = api.post(&["admin", "parked", &id(m), close], &reason, &[]).await?.body;
            if output.whole(&body)? {
                return Ok(());
            }
            output.table(&["id", "outcome"], vec![vec![field(&body, "id"), field(&body, "how")]])
        }
        None => Err(Failure::usage("say what to do with parked input")),
    }
}

fn table<'v>(body: &Value, items: impl Iterator<Item = &'v Value>, output: &Output) -> Result<(), Failure> {
    if output.whole(body)? {
        return Ok(());
    }
    let row = |p: &Value| ["id", "bytes", "parked_by", "why", "parked_at", "closed.how", "closed.reason"].map(|n| field(p, n)).to_vec();
    output.table(&["id", "bytes", "parked by", "why", "at", "closed", "because"], items.map(row).collect())
}
