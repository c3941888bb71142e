//! A site cut off for hours (field report 7), hub and satellite away for an hour, in virtual time: one clock for both, which the test
//! moves; between them the real wire, with tokens, in this process. Whatever happened meanwhile arrives, once, in its order, and nothing
//! is done because of it.

mod bed;

use bed::Bed;
use fleet_tests::{Api, until, until_within};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A backlog of hours is taken in its time, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(600);

/// The fleet comes up, and is taken over: every device that SLURM works on is in service.
async fn in_service(devices: u32) -> (Bed, Vec<(String, String)>) {
    let bed = Bed::new(devices).await;
    let api = bed.api().await;
    until("every device", || async {
        let found = api.all("/devices").await.map_err(|e| e.to_string())?.len();
        if found == devices as usize { Ok(()) } else { Err(format!("{found} devices")) }
    })
    .await;
    for _ in 0..3 {
        bed.minute().await;
    }
    until("the baseline", || async {
        api.baseline("sim1").await.map_err(|e| e.to_string())?;
        let there = api.all("/devices?filter=phase%20%3D%20InService").await.map_err(|e| e.to_string())?;
        if there.len() > devices as usize / 2 { Ok(()) } else { Err(format!("{} in service", there.len())) }
    })
    .await;
    let nodes: BTreeMap<_, _> = bed.sim.world.slurm_nodes("sim1").into_iter().map(|n| (n.name.clone(), n.plain())).collect();
    let serving = api.all("/devices?filter=phase%20%3D%20InService").await.unwrap();
    let pairs = serving.iter().filter_map(|d| Some((d["id"].as_str()?.to_owned(), d["slurm_node"].as_str()?.to_owned())));
    let plain = pairs.filter(|(_, node)| nodes.get(node) == Some(&true)).collect();
    (bed, plain)
}

/// The reasons that SLURM showed of a device, in the order of its history; each as often as it was told.
async fn reasons(api: &Api, device: &str) -> Vec<String> {
    let (mut told, mut seqs) = (Vec::new(), Vec::new());
    for decision in api.all(&format!("/devices/{device}/history")).await.unwrap().iter().rev() {
        for event in decision["events"].as_array().into_iter().flatten().filter(|e| e["type"] == "SchedulerChanged") {
            told.extend(event["section"]["reason"].as_str().filter(|r| r.starts_with("outage ")).map(str::to_owned));
            let seq = &event["source_seq"];
            seqs.push((seq["epoch"].as_u64().unwrap(), seq["counter"].as_u64().unwrap()));
        }
    }
    assert!(seqs.windows(2).all(|w| w[0] < w[1]), "each look counts once, in its order: {seqs:?}");
    // One drain may be seen in several states.
    told.dedup();
    told
}

async fn phases(api: &Api) -> BTreeMap<String, String> {
    let text = |v: &Value| v.as_str().unwrap_or("none").to_owned();
    api.all("/devices").await.unwrap().iter().map(|d| (text(&d["id"]), text(&d["phase"]))).collect()
}

/// Things happen at the site while nobody at the hub hears of them: per device some drains, each with words of its own.
async fn happenings(bed: &Bed, devices: &[(String, String)], minutes: i64) -> BTreeMap<String, Vec<String>> {
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for minute in 0..minutes {
        for (i, (device, node)) in devices.iter().enumerate() {
            if (minute + i as i64 * 7) % 60 == 0 {
                let reason = format!("outage {i} minute {minute}");
                bed.sim.world.drain("sim1", node, &reason, "root");
                expected.entry(device.clone()).or_default().push(reason);
            } else if (minute + i as i64 * 7) % 60 == 30 {
                bed.sim.world.undrain("sim1", node);
            }
        }
        bed.minute().await;
    }
    expected
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_was_cut_off_for_six_hours_loses_nothing_and_nothing_is_remedied_on_its_return() {
    let (bed, devices) = in_service(500).await;
    let api = bed.api().await;
    let before = phases(&api).await;
    bed.way.cut(true);
    let expected = happenings(&bed, &devices[..120], 360).await;
    let sites = api.get("/sites").await.unwrap();
    assert!(sites["items"][0]["sources"].as_array().unwrap().iter().all(|s| s["fresh"] == false), "six hours of silence: {sites}");
    let waited = bed.waiting();
    bed.way.cut(false);
    bed.minute().await;
    until_within(PATIENCE, "the backlog is taken", || async { if bed.waiting() == 0 { Ok(()) } else { Err(bed.waiting()) } }).await;
    // What was forwarded confirms nothing; the looks after it do.
    bed.minute().await;
    bed.settled().await;
    for (device, words) in &expected {
        assert_eq!(reasons(&bed.api().await, device).await, *words, "nothing lost, nothing doubled, in its order: {device}");
    }
    let api = bed.api().await;
    assert_eq!(phases(&api).await, before, "nothing was done because of what had happened");
    assert_eq!(api.all("/operations").await.unwrap(), Vec::<Value>::new());
    println!(
        "{waited} observations waited; {} drains of {} devices told in order",
        expected.values().map(Vec::len).sum::<usize>(),
        expected.len()
    );
    bed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_that_was_away_for_an_hour_hears_it_all_and_a_satellite_that_was_away_says_how_it_is() {
    let (mut bed, devices) = in_service(60).await;
    let before = phases(&bed.api().await).await;
    // The hub: its process ends, and begins again on what it has.
    bed.hub.take().unwrap().stop().await;
    let expected = happenings(&bed, &devices[..20], 60).await;
    bed.start_hub().await;
    bed.minute().await;
    until_within(PATIENCE, "the backlog is taken", || async { if bed.waiting() == 0 { Ok(()) } else { Err(bed.waiting()) } }).await;
    bed.minute().await;
    bed.settled().await;
    for (device, words) in &expected {
        assert_eq!(reasons(&bed.api().await, device).await, *words, "{device}");
    }
    // The satellite: nobody looks, and the hub says so of itself.
    bed.satellite.take().unwrap().stop().await;
    for (_, node) in &devices[..20] {
        bed.sim.world.drain("sim1", node, "outage unseen", "root");
    }
    for _ in 0..60 {
        bed.minute().await;
    }
    let api = bed.api().await;
    until("silence shows", || async {
        let sites = api.get("/sites").await.map_err(|e| e.to_string())?;
        let stale = sites["items"][0]["sources"].as_array().is_some_and(|s| s.iter().all(|s| s["fresh"] == false));
        if stale { Ok(()) } else { Err(sites.to_string()) }
    })
    .await;
    let one = api.get(&format!("/devices/{}", devices[0].0)).await.unwrap();
    assert!(one["conditions"].as_array().unwrap().iter().filter(|c| c["source"] == "slurm").all(|c| c["status"] == "Unknown"), "{one}");
    bed.start_satellite().await;
    bed.minute().await;
    bed.settled().await;
    assert_eq!(phases(&bed.api().await).await, before, "nothing was done because of an hour's silence");
    bed.stop().await;
}
