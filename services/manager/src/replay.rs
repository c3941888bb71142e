//! `replay --verify`: the whole journal from its first record.

use crate::args::ReplayArgs;
use crate::ground;
use crate::{Code, INTEGRITY, SUCCESS};
use fleet_journal::replay;
use std::time::Instant;

/// Reads every partition, prints what was found, and says whether it may be believed.
pub async fn run(args: ReplayArgs) -> anyhow::Result<Code> {
    debug_assert!(args.verify);
    let (log, topics) = ground::read_only(args.data.as_deref(), args.config.as_deref()).await?;
    let started = Instant::now();
    let (mut decisions, mut sound) = (0, true);
    for partition in 0..topics.partitions {
        let (_, found) = replay::partition(&*log, &topics, partition).await;
        let verdict = if found.sound() { "sound" } else { "NOT SOUND" };
        crate::print::lines(&format!(
            "partition {partition}: {} records, {} decisions, {} dropped by the fence, {} streams: {verdict}",
            found.records, found.decisions, found.dropped, found.streams
        ));
        for line in found.forked.iter().chain(&found.broken) {
            crate::print::lines(&format!("  {line}"));
        }
        decisions += found.decisions;
        sound &= found.sound();
    }
    let took = started.elapsed().as_secs_f64();
    crate::print::lines(&format!(
        "{decisions} decisions in {took:.2} s, {:.0} a second, at most {} MiB of memory",
        decisions as f64 / took.max(1e-9),
        peak_mib()
    ));
    crate::print::lines(if sound { "every chain verifies" } else { "the journal is not sound" });
    Ok(if sound { SUCCESS } else { INTEGRITY })
}

/// The most memory this process had, MiB; 0 where the kernel does not say.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
