//! `whoami` and `auth can-i`: what the hub lets us do.

use crate::api::Api;
use crate::exit::Failure;
use crate::output::{Output, field, print};
use clap::ArgMatches;
use serde_json::Value;

/// `whoami`.
pub async fn whoami(api: &Api, output: &Output) -> Result<(), Failure> {
    let body = api.get(&["whoami"], &[]).await?;
    if output.whole(&body)? {
        return Ok(());
    }
    output.say(&format!("{} (client {})", field(&body, "subject"), field(&body, "client")));
    let list = |v: &Value| v.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
    let grants = body["grants"].as_array().into_iter().flatten();
    let rows = grants.flat_map(|g| {
        g["scopes"].as_array().into_iter().flatten().map(|s| vec![s.as_str().unwrap_or_default().to_owned(), list(&g["sites"])])
    });
    output.table(&["scope", "at"], rows.collect())
}

/// `auth can-i`.
pub async fn auth(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let Some(("can-i", m)) = m.subcommand() else { return Err(Failure::usage("say what to ask: auth can-i SCOPE")) };
    let text = |name: &str| m.get_one::<String>(name).cloned();
    let query = [("scope", text("scope")), ("site", text("at"))];
    let query: Vec<_> = query.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let body = api.get(&["can-i"], &query).await?;
    let allowed = body["allowed"] == true;
    if !output.whole(&body)? {
        print(if allowed { "yes\n" } else { "no\n" })?;
    }
    if allowed { Ok(()) } else { Err(Failure::auth(field(&body, "because"))) }
}
