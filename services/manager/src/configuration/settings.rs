//! [`page`]: every key of the three configuration files, read from the types that read the files. docs/SETTINGS.md is this page.

use super::{dev, hub, satellite};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

const HEAD: &str = "# Settings

Every key of the three configuration files: of a hub, of a satellite, and of `dev`, which is both in one process. TOML; unknown keys are refused;
relative paths count from the file; any key can be overridden by an environment variable, `FM_CFG__HUB__URL` for `hub.url`.
`fleet-manager config check FILE` says whether a file would be taken. This page is `fleet-manager config settings`: do not edit it.

`name[]` is a table that may stand several times (`[[name]]` in TOML), `<name>` a key that you choose. Where the default reads *required*, a file without the key is
refused; – means that there is none.

";

/// The page, as Markdown.
pub fn page() -> String {
    let mut out = HEAD.to_owned();
    out.push_str(&file::<hub::Configuration>("A hub", "`fleet-manager hub --config FILE`"));
    out.push_str(&file::<satellite::Configuration>("A satellite", "`fleet-manager satellite --config FILE`"));
    out.push_str(&file::<dev::Configuration>("A developer's process", "`fleet-manager dev --config FILE`"));
    out
}

/// One file.
fn file<T: JsonSchema>(title: &str, command: &str) -> String {
    let generator = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true).into_generator();
    let schema = generator.into_root_schema_for::<T>().to_value();
    let mut rows = Vec::new();
    keys("", &schema, &mut rows);
    format!("## {title}\n\n{command}\n\n| key | type | unit | default | what it is |\n|---|---|---|---|---|\n{}\n", rows.concat())
}

/// The rows of a table's keys, and of the tables below it after them.
fn keys(prefix: &str, schema: &Value, rows: &mut Vec<String>) {
    let mut tables = Vec::new();
    let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, key) in schema["properties"].as_object().into_iter().flatten() {
        let key = if key["anyOf"].is_array() { merged(key) } else { key.clone() };
        let must = required.contains(&name.as_str());
        match below(&key) {
            Some((path, table)) => tables.push((format!("{prefix}{}", path.replace("{}", name)), told(&key), must, table.clone())),
            None => rows.push(row(&format!("{prefix}{name}"), &kind(&key), unit(name), &default(&key, must), &told(&key))),
        }
    }
    for (path, about, must, table) in tables {
        let default = if must { "*required*" } else { "–" };
        rows.push(row(path.trim_end_matches('.'), "table", "", default, &about));
        keys(&path, &table, rows);
    }
}

fn row(key: &str, kind: &str, unit: &str, default: &str, about: &str) -> String {
    format!("| `{key}` | {kind} | {unit} | {default} | {about} |\n")
}

/// What may be absent, as what it is where it is there.
fn merged(key: &Value) -> Value {
    let there = key["anyOf"].as_array().into_iter().flatten().find(|s| s["type"] != "null");
    let mut there = there.cloned().unwrap_or_default();
    for name in ["description", "default"] {
        if let Some(said) = key.get(name) {
            there[name] = said.clone();
        }
    }
    there
}

/// The table that a key leads to, and how its path is written.
fn below(key: &Value) -> Option<(&'static str, &Value)> {
    let table = |of: &Value| of["properties"].is_object();
    match key {
        _ if table(key) => Some(("{}.", key)),
        _ if table(&key["items"]) => Some(("{}[].", &key["items"])),
        _ if table(&key["additionalProperties"]) => Some(("{}.<name>.", &key["additionalProperties"])),
        _ => None,
    }
}

fn kind(key: &Value) -> String {
    let named = match &key["type"] {
        Value::Array(names) => names.iter().find(|n| *n != "null").and_then(Value::as_str),
        name => name.as_str(),
    };
    match named {
        Some("string") => "text".into(),
        Some("integer") => "whole number".into(),
        Some("boolean") => "true or false".into(),
        Some("array") => format!("list of {}", kind(&key["items"])),
        Some("object") => format!("table of {}", kind(&key["additionalProperties"])),
        other => other.unwrap_or("any").into(),
    }
}

/// Units stand in the names of keys.
fn unit(name: &str) -> &'static str {
    match name {
        _ if name.ends_with("_seconds") || name == "sources" => "s",
        _ if name.ends_with("_days") => "days",
        "per_second" => "1/s",
        _ => "",
    }
}

fn default(key: &Value, required: bool) -> String {
    match key.get("default") {
        _ if required => "*required*".into(),
        None | Some(Value::Null) => "–".into(),
        Some(Value::Array(list)) if list.is_empty() => "none".into(),
        Some(Value::Object(table)) if table.is_empty() => "none".into(),
        Some(Value::String(text)) if text.is_empty() => "–".into(),
        Some(Value::String(text)) => format!("`{text}`"),
        Some(other) => format!("`{other}`"),
    }
}

/// On one line, fit for a table.
fn told(key: &Value) -> String {
    key["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
