//! `make bench`: measures against the goals of the design and prints one table, which it also keeps in `docs/BENCHMARKS.md`.
//!
//! Everything is measured in one run on one machine: a figure means something beside the others of its run. Sizes come from
//! `FM_BENCH_DEVICES` (100,000) and `FM_BENCH_DECISIONS` (1,000,000); `FM_BENCH_ONLY=commands`, `observations`, `gateway` or `reads` measures one thing, for
//! a profiler.

#![allow(clippy::unwrap_used, reason = "a bench that cannot go on says why by panicking")]

mod bed;
mod commands;
mod floors;
mod gateway;
mod observations;
mod processes;
mod reads;
mod served;
mod table;

use table::Table;

/// As in `fleet-manager`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() {
    fleet_tests::crypto();
    let size = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let (devices, decisions) = (size("FM_BENCH_DEVICES", 100_000), size("FM_BENCH_DECISIONS", 1_000_000));
    let mut table = Table::new(devices, decisions);
    floors::measure(&mut table);
    let bed = bed::Bed::new().await;
    bed.fill(devices, &mut table).await;
    let served = served::Served::start(&bed).await;
    match std::env::var("FM_BENCH_ONLY").as_deref() {
        Ok("commands") => return commands::measure(&bed, devices, &mut table).await,
        Ok("observations") => return observations::measure(&bed, devices, &mut table).await,
        Ok("gateway") => return gateway::measure(&bed, &served, devices, &mut table).await,
        Ok("reads") => return reads::measure(&bed, &served.api, devices, &mut table).await,
        _ => {}
    }
    observations::measure(&bed, devices, &mut table).await;
    commands::measure(&bed, devices, &mut table).await;
    gateway::measure(&bed, &served, devices, &mut table).await;
    bed.grow(devices, decisions, &mut table).await;
    reads::measure(&bed, &served.api, devices, &mut table).await;
    served.stop().await;
    let folder = bed.stop().await;
    processes::measure(folder.path(), &mut table).await;
    table.finish();
}
