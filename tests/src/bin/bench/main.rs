//! `make bench`: measures against the goals of the design and prints one table, which it also keeps in `docs/BENCHMARKS.md`.
//!
//! Everything is measured in one run on one machine: a figure means something beside the others of its run. Sizes come from
//! `FM_BENCH_DEVICES` (100,000) and `FM_BENCH_DECISIONS` (1,000,000). `FM_BENCH_ON=Embedded`, `Cluster` or `Replicated` measures one column,
//! `FM_BENCH_ONLY=commands`, `observations`, `gateway`, `reads` or `processes` one thing, for a profiler.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on says why by panicking")]

mod bed;
mod commands;
mod cpu;
mod floors;
mod gateway;
mod observations;
mod peers;
mod processes;
mod reads;
mod served;
mod table;
mod takeover;

use table::{Ground, Table};

/// As in `fleet-manager`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    fleet_tests::crypto();
    let size = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (devices, decisions) = (size("FM_BENCH_DEVICES", 100_000), size("FM_BENCH_DECISIONS", 1_000_000));
    let mut table = Table::new(devices, decisions);
    let on = std::env::var("FM_BENCH_ON").ok();
    // What needs most runs first: it fails soon, if it fails.
    for ground in Ground::ALL.into_iter().rev().filter(|g| on.as_ref().is_none_or(|on| *on == format!("{g:?}"))) {
        table.on(ground);
        match ground {
            Ground::Replicated => written(ground, devices / 4, &mut table).await,
            Ground::Embedded | Ground::Cluster => all(ground, devices, decisions, &mut table).await,
        }
    }
    if on.is_none() && std::env::var_os("FM_BENCH_ONLY").is_none() {
        table.finish();
    }
}

/// What is written alone.
async fn written(ground: Ground, devices: u64, table: &mut Table) {
    let bed = bed::Bed::new(ground).await;
    floors::measure(&bed, table).await;
    bed.fill(devices, table).await;
    observations::measure(&bed, devices, table).await;
    commands::measure(&bed, devices, table).await;
    bed.stop().await;
}

async fn all(ground: Ground, devices: u64, decisions: u64, table: &mut Table) {
    let bed = bed::Bed::new(ground).await;
    floors::measure(&bed, table).await;
    bed.fill(devices, table).await;
    let served = served::Served::start(&bed).await;
    match std::env::var("FM_BENCH_ONLY").as_deref() {
        Ok("commands") => return commands::measure(&bed, devices, table).await,
        Ok("observations") => return observations::measure(&bed, devices, table).await,
        Ok("gateway") => return gateway::measure(&bed, &served, devices, table).await,
        Ok("reads") => return reads::measure(&bed, &served.api, devices, table).await,
        _ => {}
    }
    if std::env::var("FM_BENCH_ONLY").as_deref() != Ok("processes") {
        observations::measure(&bed, devices, table).await;
        commands::measure(&bed, devices, table).await;
        peers::measure(&bed, devices, table);
        gateway::measure(&bed, &served, devices, table).await;
        bed.grow(devices, decisions, table).await;
        reads::measure(&bed, &served.api, devices, table).await;
    }
    served.stop().await;
    match bed.stop().await {
        (folder, None) => processes::measure(folder.path(), table).await,
        (folder, Some(outside)) => takeover::measure(folder.path(), &outside, table).await,
    }
}
