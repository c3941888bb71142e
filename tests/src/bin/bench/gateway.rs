//! What agents hand over, from the request to the row that shows it.

use crate::bed::{Bed, SITES, device, name, site};
use crate::served::Served;
use crate::table::{Spread, Table, at_least};
use fleet_schemas::{StreamId, wire::MOST_ITEMS};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Devices that are looked at; fewer where there are fewer.
const LOOKS: u64 = 50_000;
/// Requests under way at once; each site has at most one, as its agent sends in order.
const WIDTH: u64 = 4;
/// Conditions that an agent of SLURM states of one device.
const STATED: usize = 4;
/// Devices in a batch.
const EACH: u64 = (MOST_ITEMS / STATED) as u64;
/// After which an agent sends again, as it is told.
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);

pub async fn measure(bed: &Bed, served: &Served, devices: u64, table: &mut Table) {
    for what in ["one of four changes", "all of it known: a full send"] {
        let (rate, spread, each) = run(bed, served, devices).await;
        let text = format!("{rate:.0}/s, {each}; a request {}", spread.text());
        let what = format!("conditions handed over in 500s over HTTP, decided, shown; {what}");
        table.row(&what, "2,000 items/s", text, at_least(rate, 2000.0));
    }
}

/// Says the same of every device once, the sites in turn: items a second until all is decided and shown, requests, CPU time of an item.
async fn run(bed: &Bed, served: &Served, devices: u64) -> (f64, Spread, String) {
    let (started, before) = (Instant::now(), bed.cpu());
    let batches = devices.min(LOOKS) / SITES / EACH;
    let lanes = (0..WIDTH).map(|lane| async move {
        let mut samples = Vec::new();
        for (batch, s) in (0..batches).flat_map(|b| (lane..SITES).step_by(WIDTH as usize).map(move |s| (b, s))) {
            let conditions: Vec<_> = (batch * EACH..(batch + 1) * EACH).flat_map(|i| stated(s + SITES * i)).collect();
            let body = json!({"run": {}, "conditions": conditions}).to_string();
            let sent = Instant::now();
            let path = format!("/api/v1/sites/{}/conditions:batch", site(s));
            // As an agent does: what is answered with "later" is sent again.
            let answer = loop {
                let answer = served.agent.send(Method::POST, &path, Some(body.as_bytes()), &[]).await.unwrap();
                if answer.status != StatusCode::SERVICE_UNAVAILABLE || sent.elapsed() > PATIENCE {
                    break answer;
                }
                println!("{}: sent again in {AGAIN:?}", answer.body["code"]);
                tokio::time::sleep(AGAIN).await;
            };
            samples.push(sent.elapsed());
            let stored = |r: &Value| r["result"] == "stored";
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
            assert!(answer.body["results"].as_array().unwrap().iter().all(stored), "{}", answer.body);
        }
        samples
    });
    let samples: Vec<_> = futures::future::join_all(lanes).await.into_iter().flatten().collect();
    bed.caught_up().await;
    let items = samples.len() * MOST_ITEMS;
    (items as f64 / started.elapsed().as_secs_f64(), Spread::new(samples), bed.each(before, items as u64))
}

/// What an agent says of a device.
fn stated(i: u64) -> [Value; STATED] {
    let StreamId::Device(id) = device(i) else { unreachable!("a device") };
    [
        ("SlurmMember", "True", "Listed"),
        ("SlurmSchedulable", "True", "Planned"),
        ("SlurmDrained", "False", "NotDraining"),
        ("SlurmDrainForeign", "False", "NotDraining"),
    ]
    .map(|(r#type, status, reason)| json!({"device": id.to_string(), "native_id": name(i), "type": r#type, "status": status, "reason": reason}))
}
