//! `translate`: what an agent would make of a recorded answer. So a user can attach an answer to a report.

use crate::args::TranslateArgs;
use anyhow::Context;
use fleet_satellite::{DeviceList, FileOptions, ListedDevice, translate_file};
use fleet_schemas::{DeviceId, Source};
use serde_json::Value;
use std::{path::Path, process::ExitCode};

/// Prints one JSON line per object; exit 1 where no object could be named.
pub fn run(args: TranslateArgs) -> anyhow::Result<ExitCode> {
    let system: Source = args.system.parse()?;
    let read = |path: &Path| std::fs::read_to_string(path).with_context(|| path.display().to_string());
    let options = FileOptions {
        api_version: args.api_version,
        http_status: args.http_status,
        devices: args.device_list.as_deref().map(|f| read(f).map(|text| devices(&text))).transpose()?,
        partitions: args.partitions.as_deref().map(read).transpose()?,
    };
    let lines = translate_file(system, &options, &read(&args.file)?);
    let failed = lines.iter().any(|l| l.get("error").is_some());
    lines.iter().for_each(|line| crate::print::lines(&line.to_string()));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names, one a line; or JSON: a list of names or of objects with `name` and `slurm_node`.
fn devices(text: &str) -> DeviceList {
    let named =
        |name: &str, node: &str| ListedDevice { id: DeviceId::from_netbox("file", 0), name: name.into(), slurm_node: Some(node.into()) };
    let devices = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(items)) => items
            .iter()
            .filter_map(|i| {
                let name = i.as_str().or_else(|| i["name"].as_str())?;
                Some(named(name, i["slurm_node"].as_str().unwrap_or(name)))
            })
            .collect(),
        _ => text.lines().map(str::trim).filter(|l| !l.is_empty()).map(|l| named(l, l)).collect(),
    };
    DeviceList { devices }
}
