//! From an observation to the row that shows it, at 2,000 a second.

use crate::bed::{Bed, device, slurm};
use crate::table::{Spread, Table, at_most, cpu};
use fleet_schemas::StreamId;
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(10);
/// Observations every 50 ms: 2,000 a second.
const TICK: Duration = Duration::from_millis(50);
const EACH: u64 = 100;

pub async fn measure(bed: &Bed, devices: u64, table: &mut Table) {
    let mut tick = tokio::time::interval(TICK);
    let (started, mut next, mut samples, before) = (Instant::now(), 0u64, Vec::new(), cpu());
    while started.elapsed() < FOR {
        tick.tick().await;
        let counter = 10 + next / devices;
        let some: Vec<_> = (0..EACH).map(|n| slurm((next + n) % devices, counter, (counter % 3) as i64 + 3)).collect();
        let sampled = next % devices;
        next += EACH;
        let sent = Instant::now();
        bed.journal.observe(&some).await.unwrap();
        samples.push(visible(bed, sampled, (counter % 3) as i64 + 3, sent).await);
    }
    let spread = Spread::new(samples);
    let each = (cpu() - before).as_micros() as f64 / next as f64;
    let (p50, p99) = bed.ground.pick((10, 100), (50, 250));
    let most = |share, goal| at_most(spread.at(share), Duration::from_millis(goal));
    let verdict = format!("p50 {}, p99 {}", most(0.5, p50), most(0.99, p99));
    table.row(
        "observation → visible in the read model, 2,000/s",
        &format!("p50 ≤ {p50} ms, p99 ≤ {p99} ms"),
        format!("{} at {:.0}/s, {each:.0} µs CPU each", spread.text(), next as f64 / started.elapsed().as_secs_f64()),
        verdict,
    );
}

/// Until the read model shows the device with so many allocated CPUs.
async fn visible(bed: &Bed, i: u64, busy: i64, sent: Instant) -> Duration {
    let StreamId::Device(id) = device(i) else { unreachable!("a device") };
    loop {
        let reads = bed.generations.reads().borrow().clone();
        let doc = reads.device(id).await.unwrap();
        if doc.is_some_and(|d| d.state.scheduler.as_ref().is_some_and(|s| s.alloc_cpus == busy)) {
            return sent.elapsed();
        }
        assert!(sent.elapsed() < Duration::from_secs(30), "device {i} never showed {busy} CPUs");
        // Seldom enough to leave the machine to what is measured.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
