//! Reading over HTTP at full size, a rebuild beside it, and deep pages.

use crate::bed::{Bed, device};
use crate::table::{Spread, Table, at_least, at_most, short};
use fleet_hub::Hub;
use fleet_hub::access::{Clients, Denials, Issuer, Limits, generate_key};
use fleet_hub::vault::{MasterKey, Vault};
use fleet_schemas::StreamId;
use fleet_tests::Api;
use std::{sync::Arc, time::Duration, time::Instant};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

const SAMPLES: u64 = 2000;

pub async fn measure(bed: &Bed, devices: u64, table: &mut Table) {
    let (api, stop, server) = serve(bed).await;
    let list = sample(&api, |_| "/devices?limit=50".into()).await;
    let verdict =
        format!("p50 {}; p99 {}", at_most(list.at(0.5), Duration::from_millis(1)), at_most(list.at(0.99), Duration::from_millis(10)));
    table.row("list 50 devices over HTTP", "p50 ≤ 1 ms, p99 ≤ 10 ms", list.text(), verdict);
    let filtered = sample(&api, |i| format!("/devices?limit=50&filter=site%20%3D%20dc{}", i % 20)).await;
    table.row("list 50 of one site over HTTP", "p50 ≤ 1 ms", filtered.text(), at_most(filtered.at(0.5), Duration::from_millis(1)));
    let id = |i: u64| match device(i) {
        StreamId::Device(id) => id,
        other => unreachable!("{other} is no device"),
    };
    let one = sample(&api, |i| format!("/devices/{}", id(i * 37 % devices))).await;
    table.row(
        "one device with conditions and what it waits for, over HTTP",
        "p50 ≤ 1 ms",
        one.text(),
        at_most(one.at(0.5), Duration::from_millis(1)),
    );
    let history = sample(&api, |i| format!("/devices/{}/history?limit={}", id(7), 100 + i % 2)).await;
    table.row(
        "100 of one device's 1,000 decisions over HTTP",
        "p50 ≤ 20 ms (all 1,000)",
        history.text(),
        at_most(history.at(0.5), Duration::from_millis(20)),
    );
    deep(bed, devices, table).await;
    rebuild(bed, &api, devices, table).await;
    // With its last connection goes the last hold on the folder.
    drop((api, stop));
    server.await.unwrap();
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
async fn rebuild(bed: &Bed, api: &Api, devices: u64, table: &mut Table) {
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
    let (rate, seconds) = (devices as f64 / built.took.as_secs_f64(), built.took.as_secs_f64());
    let rows = built.decisions as f64 / seconds;
    let ours = format!("{rate:.0} devices/s, {rows:.0} decisions/s, {} in all; equal", short(built.took));
    let small = devices as f64 / built.decisions as f64;
    table.row(
        "rebuild of the read model from every decision",
        "≥ 12,000 device rows/s",
        ours,
        format!("{} (a device row a {:.0} decisions)", at_least(rows, 12_000.0), 1.0 / small),
    );
    let spread = Spread::new(samples);
    table.row("list 50 devices over HTTP while rebuilding", "answers", spread.text(), "answers");
}

async fn sample(api: &Api, path: impl Fn(u64) -> String) -> Spread {
    let mut samples = Vec::new();
    for i in 0..SAMPLES {
        let started = Instant::now();
        api.get(&path(i)).await.unwrap();
        samples.push(started.elapsed());
    }
    Spread::new(samples)
}

/// Serves until the sender is gone, and the client.
async fn serve(bed: &Bed) -> (Api, oneshot::Sender<()>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let key = generate_key().unwrap();
    let issuer = Issuer::new(&url, &[key.private_pem]).unwrap();
    let token = issuer.issue("bench", "device:read", &["*".into()]).unwrap();
    let (journal, generations) = (bed.journal.clone(), bed.generations.clone());
    let (key, file) = (bed.folder.path().join("bench.key"), bed.folder.path().join("bench-vault.sqlite"));
    let vault = Vault::open_file(&file, MasterKey::read_or_make(&key, &file).unwrap()).await.unwrap();
    let (denials, limits) = (Denials::new(generations.control().clone()), Limits::default());
    let (clients, patience) = (Clients::default(), Duration::from_secs(10));
    let hub = Hub { journal, generations, issuer, clients, outside: vec![], denials, limits, vault, url: url.clone(), patience };
    let router = fleet_hub::router(Arc::new(hub));
    let (stop, stopped) = oneshot::channel();
    let server = tokio::spawn(async move {
        let listener = axum::serve::ListenerExt::tap_io(listener, |tcp| tcp.set_nodelay(true).unwrap());
        let stopped = async move {
            // Ends when the sender is dropped.
            let _ = stopped.await;
        };
        axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
    });
    (Api::with_token(&url, &token).unwrap(), stop, server)
}
