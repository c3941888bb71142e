//! From an observation to the row that shows it, at 2,000 a second.

use crate::bed::{Bed, device, slurm};
use crate::table::{Spread, Table, at_most};
use fleet_schemas::StreamId;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Observations every 50 ms: 2,000 a second, for ten seconds, however long each takes.
const TICK: Duration = Duration::from_millis(50);
const TICKS: u64 = 200;
const EACH: u64 = 100;

pub async fn measure(bed: &Bed, devices: u64, table: &mut Table) {
    let (started, before, looking) = (Instant::now(), bed.cpu(), &AtomicU32::new(0));
    let samples = (0..TICKS).map(|tick| async move {
        let (first, due) = (tick * EACH, started + TICK * tick as u32);
        tokio::time::sleep_until(due.into()).await;
        // Of a device that comes again with more allocated CPUs.
        let busy = |i: u64| 3 + i / devices;
        let some: Vec<_> = (first..first + EACH).map(|i| slurm(i % devices, 10 + busy(i), busy(i) as i64)).collect();
        bed.journal.observe(&some).await.unwrap();
        looking.fetch_add(1, Ordering::Relaxed);
        let took = visible(bed, first % devices, busy(first) as i64, due, looking).await;
        looking.fetch_sub(1, Ordering::Relaxed);
        took
    });
    let spread = Spread::new(futures::future::join_all(samples).await);
    let rate = (TICKS * EACH) as f64 / started.elapsed().as_secs_f64();
    let (p50, p99) = bed.ground.pick((10, 100), (50, 250));
    let most = |share, goal| at_most(spread.at(share), Duration::from_millis(goal));
    let verdict = format!("p50 {}, p99 {}", most(0.5, p50), most(0.99, p99));
    table.row(
        "observation → visible in the read model, 2,000/s",
        &format!("p50 ≤ {p50} ms, p99 ≤ {p99} ms"),
        format!("{} at {rate:.0}/s, {}", spread.text(), bed.each(before, TICKS * EACH)),
        verdict,
    );
}

/// Until the read model shows the device with so many allocated CPUs; so many are looked for.
async fn visible(bed: &Bed, i: u64, busy: i64, sent: Instant, looking: &AtomicU32) -> Duration {
    let StreamId::Device(id) = device(i) else { unreachable!("a device") };
    loop {
        let reads = bed.generations.reads().borrow().clone();
        let doc = reads.device(id).await.unwrap();
        if doc.is_some_and(|d| d.state.scheduler.as_ref().is_some_and(|s| s.alloc_cpus >= busy)) {
            return sent.elapsed();
        }
        assert!(sent.elapsed() < Duration::from_secs(30), "device {i} never showed {busy} CPUs");
        // Seldom enough, all together, to leave the machine to what is measured.
        tokio::time::sleep(Duration::from_millis(1) * looking.load(Ordering::Relaxed)).await;
    }
}
