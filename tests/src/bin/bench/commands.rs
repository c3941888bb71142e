//! Commands: put, decided, durable, read back, answered.

use crate::bed::{Bed, command, device};
use crate::table::{Spread, Table, at_least, at_most};
use fleet_schemas::{LiftHold, PlaceHold};
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(8);

pub async fn measure(bed: &Bed, devices: u64, table: &mut Table) {
    let (one, spread, each) = run(bed, devices, 1).await;
    let text = format!("{one:.0}/s, {}, {each}", spread.text());
    let (goal, least) = bed.ground.pick(("≥ 1,000/s", 1000.0), ("≥ 800/s", 800.0));
    table.row("commands, one at a time", goal, text, at_least(one, least));
    let (many, spread, each) = run(bed, devices, 64).await;
    let verdict = format!("{}; p99 {}", at_least(many, 10_000.0), at_most(spread.at(0.99), Duration::from_millis(50)));
    table.row(
        "commands decided, durable, 64 in flight",
        "≥ 10,000/s, p99 ≤ 50 ms",
        format!("{many:.0}/s, {}, {each}", spread.text()),
        verdict,
    );
}

/// Holds are placed and lifted on devices in turn, `width` at a time: how many a second, how long each, and the CPU time.
async fn run(bed: &Bed, devices: u64, width: u64) -> (f64, Spread, String) {
    let (started, before) = (Instant::now(), bed.cpu());
    let lanes = (0..width).map(|lane| async move {
        let (mut samples, mut n) = (Vec::new(), 0u64);
        while started.elapsed() < FOR {
            let target = device((lane * 7919 + n / 2 * width) % devices);
            let name = format!("b{width}-{lane}");
            let ask = if n.is_multiple_of(2) { PlaceHold { name, expires_at: None }.into() } else { LiftHold { name }.into() };
            let command = command(target, ask);
            let asked = Instant::now();
            let answer = bed.journal.ask(&command, Duration::from_secs(30)).await.unwrap();
            assert_eq!(answer.decided.outcome.code, "", "{:?}", answer.decided.outcome);
            samples.push(asked.elapsed());
            n += 1;
        }
        samples
    });
    let samples: Vec<_> = futures::future::join_all(lanes).await.into_iter().flatten().collect();
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    let each = bed.each(before, samples.len() as u64);
    (rate, Spread::new(samples), each)
}
