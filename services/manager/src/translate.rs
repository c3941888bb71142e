//! `translate`: what an agent would make of a recorded answer. So a user can attach an answer to a report.

use crate::args::TranslateArgs;
use crate::{Code, FAILURE, SUCCESS};
use anyhow::{Context, bail};
use fleet_satellite::{DeviceList, FileOptions, ListedDevice, translate_file};
use fleet_schemas::DeviceId;
use serde_json::Value;
use std::path::Path;

/// Prints one JSON line per object; exit 1 where no object could be named.
pub fn run(args: TranslateArgs) -> anyhow::Result<Code> {
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let list = |path: &Path| devices(&read(path)?).with_context(|| path.display().to_string());
    let options = FileOptions {
        api_version: args.api_version,
        http_status: args.http_status,
        devices: args.device_list.as_deref().map(list).transpose()?,
        partitions: args.partitions.as_deref().map(read).transpose()?,
    };
    let mut lines = translate_file(args.system, &options, &read(&args.file)?);
    // An answer that is too old, or NetBox's, is named whole; the list holds for it all the same.
    if let Some(list) = &options.devices {
        let listed = |name: &Value| list.devices.iter().any(|d| *name == d.name || d.slurm_node.as_deref().is_some_and(|n| name == n));
        lines.retain(|l| l.get("error").is_some() || listed(&l["name"]));
    }
    let failed = lines.iter().any(|l| l.get("error").is_some());
    lines.iter().for_each(|line| crate::print::lines(&line.to_string()));
    Ok(if failed { FAILURE } else { SUCCESS })
}

/// Names, one a line; or JSON: a list of names or of objects with `name` and `slurm_node`.
fn devices(text: &str) -> anyhow::Result<DeviceList> {
    let named =
        |name: &str, node: &str| ListedDevice { id: DeviceId::from_netbox("file", 0), name: name.into(), slurm_node: Some(node.into()) };
    let json = |item: &Value| {
        let name = item.as_str().or_else(|| item["name"].as_str()).with_context(|| format!("no name: {item}"))?;
        Ok(named(name, item["slurm_node"].as_str().unwrap_or(name)))
    };
    let devices: Vec<_> = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => items.iter().map(json).collect::<anyhow::Result<_>>()?,
        Ok(_) => bail!("JSON, but no list of names"),
        // A name holds no braces and quotes: this was meant as JSON.
        Err(e) if text.trim_start().starts_with(['{', '[', '"']) => bail!("neither names, one a line, nor JSON: {e}"),
        Err(_) => text.lines().map(str::trim).filter(|l| !l.is_empty()).map(|l| named(l, l)).collect(),
    };
    if devices.is_empty() { bail!("no name") } else { Ok(DeviceList { devices }) }
}
