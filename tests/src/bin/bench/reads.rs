//! Reading over HTTP at full size, a rebuild beside it, and deep pages.

use crate::bed::{Bed, device, name};
use crate::table::{Ground, Spread, Table, at_least, at_most, short};
use fleet_schemas::StreamId;
use fleet_tests::{Api, encoded};
use std::time::{Duration, Instant};

const SAMPLES: u64 = 2000;
/// Fewer where they take longer than this.
const LONG: Duration = Duration::from_secs(10);

pub async fn measure(bed: &Bed, api: &Api, devices: u64, table: &mut Table) {
    let list = sample(api, |_| "/devices?limit=50".into()).await;
    let (p50, p99) = bed.ground.pick((1000, 10_000), (1500, 15_000));
    let verdict = format!("p50 {}; p99 {}", most(&list, 0.5, p50), most(&list, 0.99, p99));
    table.row("list 50 devices over HTTP", &format!("p50 ≤ {} ms, p99 ≤ {} ms", millis(p50), millis(p99)), list.text(), verdict);
    filters(api, devices, p50, table).await;
    let id = |i: u64| match device(i) {
        StreamId::Device(id) => id,
        other => unreachable!("{other} is no device"),
    };
    let one = sample(api, |i| format!("/devices/{}", id(i * 37 % devices))).await;
    table.row(
        "one device with conditions and what it waits for, over HTTP",
        &format!("p50 ≤ {} ms", millis(bed.ground.pick(1000, 2000))),
        one.text(),
        most(&one, 0.5, bed.ground.pick(1000, 2000)),
    );
    let history = sample(api, |i| format!("/devices/{}/history?limit={}", id(7), 100 + i % 2)).await;
    table.row("100 of one device's 1,000 decisions over HTTP", "p50 ≤ 20 ms (all 1,000)", history.text(), most(&history, 0.5, 20_000));
    if bed.ground == Ground::Embedded {
        deep(bed, devices, table).await;
    }
    rebuild(bed, api, table).await;
}

/// A goal in µs, in ms.
fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

fn most(spread: &Spread, share: f64, micros: u64) -> String {
    at_most(spread.at(share), Duration::from_micros(micros))
}

/// Filters: by what an index orders, by several things, by a condition, by a part of a text, and one that finds nothing.
async fn filters(api: &Api, devices: u64, p50: u64, table: &mut Table) {
    let some = |i: u64| i * 7919 % devices;
    let part = |i: u64| format!("{:04}", some(i) / 10);
    type Filter<'a> = Box<dyn Fn(u64) -> String + 'a>;
    let rows: [(&str, Filter<'_>); 6] = [
        ("site = dc3", Box::new(|i| format!("site = dc{}", i % 20))),
        ("name = …", Box::new(|i| format!("name = {}", name(some(i))))),
        (
            "site = dc3 AND (phase = Discovered OR phase = InService) AND condition.SlurmMember = True",
            Box::new(|i| format!("site = dc{} AND (phase = Discovered OR phase = InService) AND condition.SlurmMember = True", i % 20)),
        ),
        ("conditions_bad:SlurmSchedulable (none)", Box::new(|_| "conditions_bad:SlurmSchedulable".into())),
        ("name:1234 (part of a text)", Box::new(|i| format!("name:{}", part(i)))),
        ("rack = r17 AND NOT role = cpu", Box::new(|i| format!("rack = r{} AND NOT role = cpu", some(i) / 40))),
    ];
    for (what, filter) in rows {
        let spread = sample(api, |i| format!("/devices?limit=50&filter={}", encoded(&filter(i)))).await;
        let goal = format!("p50 ≤ {} ms", millis(p50));
        table.row(&format!("list 50 with `{what}` over HTTP"), &goal, spread.text(), most(&spread, 0.5, p50));
    }
}

/// A page in the middle of the list, by key and by OFFSET.
async fn deep(bed: &Bed, devices: u64, table: &mut Table) {
    let file = rusqlite::Connection::open(bed.folder.path().join("read/read-1.sqlite")).unwrap();
    let middle = devices / 2;
    let name: String =
        file.query_row("SELECT name FROM device ORDER BY name, id LIMIT 1 OFFSET ?1", [middle as i64], |r| r.get(0)).unwrap();
    let keyset = format!("SELECT id, name FROM device WHERE (name, id) > ('{name}', x'00') ORDER BY name, id LIMIT 50");
    let offset = format!("SELECT id, name FROM device ORDER BY name, id LIMIT 50 OFFSET {middle}");
    let run = |sql: &str| {
        let samples = (0..200).map(|_| {
            let started = Instant::now();
            let rows: Vec<String> = file.prepare_cached(sql).unwrap().query_map([], |r| r.get(1)).unwrap().map(Result::unwrap).collect();
            assert_eq!(rows.len(), 50);
            started.elapsed()
        });
        Spread::new(samples.collect()).at(0.5)
    };
    let (ours, floor) = (run(&keyset), run(&offset));
    let ratio = floor.as_secs_f64() / ours.as_secs_f64();
    table.row(
        "a page in the middle of the list, SQL alone",
        "by key, not OFFSET",
        format!("{} by key, {} by OFFSET", short(ours), short(floor)),
        format!("{ratio:.0} times faster"),
    );
}

/// A rebuild beside live reads, row for row the same.
async fn rebuild(bed: &Bed, api: &Api, table: &mut Table) {
    let generations = bed.generations.clone();
    let building = tokio::spawn(async move { generations.rebuild(false).await.unwrap() });
    let mut samples = Vec::new();
    while !building.is_finished() {
        let started = Instant::now();
        api.get("/devices?limit=50").await.unwrap();
        samples.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let built = building.await.unwrap();
    assert!(built.flipped && built.differences.is_empty(), "{:?}", built.differences);
    let (seconds, all) = (built.took.as_secs_f64(), built.decisions + built.devices + built.conditions);
    let (rate, decisions) = (all as f64 / seconds, built.decisions as f64 / seconds);
    let ours = format!(
        "{decisions:.0} decisions/s, {rate:.0} rows/s: {} devices, {} conditions, {} decisions in {}; equal",
        built.devices,
        built.conditions,
        built.decisions,
        short(built.took)
    );
    let (goal, least) = bed.ground.pick(("≥ 12,000 decisions/s", 12_000.0), ("≥ 15,000 decisions/s", 15_000.0));
    table.row("rebuild of the read model from every decision", goal, ours, at_least(decisions, least));
    let spread = Spread::new(samples);
    table.row("list 50 devices over HTTP while rebuilding", "answers", spread.text(), "answers");
    turn(bed, table).await;
}

/// Back to the generation before, and to the new one again.
async fn turn(bed: &Bed, table: &mut Table) {
    let started = Instant::now();
    bed.generations.roll_back().await.unwrap();
    let back = started.elapsed();
    bed.generations.flip().await.unwrap();
    let ours = format!("rolled back in {}, flipped in {}", short(back), short(started.elapsed() - back));
    table.row("the generation before serves again, and the new one again", "–", ours, "stated");
}

async fn sample(api: &Api, path: impl Fn(u64) -> String) -> Spread {
    let (began, mut samples) = (Instant::now(), Vec::new());
    for i in (0..SAMPLES).take_while(|_| began.elapsed() < LONG) {
        let started = Instant::now();
        api.get(&path(i)).await.unwrap();
        samples.push(started.elapsed());
    }
    Spread::new(samples)
}
