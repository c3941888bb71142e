//! What others build on PostgreSQL alone, in the same run on the same server: `tests/peers`, a program of its own.

use crate::bed::Bed;
use crate::table::{Table, short};
use fleet_tests::binary;
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

pub fn measure(bed: &Bed, devices: u64, table: &mut Table) {
    let Some(outside) = &bed.outside else { return };
    let url = outside.database.url_with_password().unwrap();
    let mut command = Command::new(binary("cqrs-es-peer"));
    command.args(["--url", &url, "--devices", &devices.to_string(), "--widths", "1,16,64"]).stderr(Stdio::inherit());
    let done = command.output().unwrap_or_else(|e| panic!("the peer: {e}; `make bench` builds it"));
    assert!(done.status.success(), "the peer failed");
    for line in String::from_utf8_lossy(&done.stdout).lines() {
        row(&serde_json::from_str(line).unwrap(), table);
    }
}

fn row(said: &Value, table: &mut Table) {
    let number = |name: &str| said[name].as_f64().unwrap_or_default();
    if let Some(width) = said["width"].as_u64() {
        let at = |name: &str| short(Duration::from_micros(number(name) as u64));
        let ours = format!("{:.0}/s, p50 {}, p99 {}", number("commands") / number("seconds"), at("p50_us"), at("p99_us"));
        table.row(&format!("peer: cqrs-es on postgres-es, {width} in flight"), "–", ours, "the peer");
    } else {
        let ours = format!("{:.0} rows/s", number("rows_per_second"));
        table.row("floor: a projector that writes row by row", "–", ours, "the floor");
    }
}
