//! Drains: somebody else's, and our own, planned by the product and typed by a person.

use crate::story::{Cluster, Device, PATIENCE, Story, is_list};
use crate::truth;
use fleet_tests::recorder::{Answered, Call};
use fleet_tests::until_within;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Devices that somebody else drains, one of each cluster.
const FOREIGN: [&str; 2] = ["gpu05", "gpu06"];
/// Devices that we drain, with what an operator says of it. The second holds what a shell would read as its own.
const OWN: [(&str, &str); 2] = [("gpu01", "psu swap, rack 1"), ("gpu02", "fan 3 isn't \"well\" `$HOME`!")];
/// What the admin of a cluster says.
const ADMIN: &str = "admin: memory test";

/// Whether an answer shows a node with these tokens.
pub fn shows<'a>(node: &'a str, tokens: &'a [&'a str]) -> impl Fn(&Call, &Answered) -> bool + 'a {
    move |call, answer| {
        let told = is_list(call).then(|| truth::told(&answer.body, node)).flatten();
        told.is_some_and(|(found, _)| tokens.iter().all(|t| found.contains(*t)))
    }
}

/// Somebody else's drain is shown with its owner, `resume` is refused while it stands, and nobody touches it.
pub async fn a_foreign_drain_is_its_owners_to_lift(story: &Story) {
    story.step("foreign drains");
    let [old, new] = &story.clusters;
    tokio::join!(foreign_drain(story, old, FOREIGN[0]), foreign_drain(story, new, FOREIGN[1]));
    truth::equals(story, "while others drain").await;
    tokio::join!(refused_and_lifted(story, old, FOREIGN[0]), refused_and_lifted(story, new, FOREIGN[1]));
}

async fn foreign_drain(story: &Story, cluster: &Cluster, device: &str) {
    let typed = Instant::now();
    cluster.lab.typed(&format!("scontrol update nodename={device} state=drain reason='{ADMIN}'")).await.unwrap();
    let drained = |d: &Device| {
        d.has("SlurmSchedulable", "False", "Drained")?;
        d.has("SlurmDrainForeign", "True", "ForeignDrain")?;
        d.has("SlurmDrained", "True", "Drained")?;
        d.at("/scheduler/reason", &ADMIN.into())?;
        d.at("/scheduler/user", &"root".into())
    };
    let what = format!("{device}: a drain by scontrol");
    let found = story.appears(&what, (&cluster.recorder, typed), shows(device, &["DRAIN"]), device, drained).await;
    for r#type in ["SlurmSchedulable", "SlurmDrainForeign"] {
        let message = found.condition(r#type)["message"].as_str().unwrap_or_default();
        assert!(message.contains(ADMIN) && message.contains("by root"), "{type}: {message}");
    }
    found.phase("InService").unwrap();
}

async fn refused_and_lifted(story: &Story, cluster: &Cluster, device: &str) {
    let before = truth::nodes(cluster).await.unwrap().remove(device);
    story.give(&["drain", device, "--reason", "wanted as well", "--then", "stay"]).await;
    let why = why(story, device).await;
    assert!(why["waiting_for"].to_string().contains("its owner lifts it in SLURM; ours is set after that"), "{why}");
    assert_eq!(why["plans"], json!([]), "nobody is asked to type over a foreign drain");
    let (code, text) = story.fmctl(&["resume", device, "--reason", "labs"]).await;
    assert!(code == 4 && text.contains("foreign-drain") && text.contains(ADMIN), "{code} {text}");
    story.device(device).await.unwrap().phase("Draining").unwrap();
    let after = truth::nodes(cluster).await.unwrap().remove(device);
    assert_eq!(after, before, "SLURM's own words of {device} changed");

    let typed = Instant::now();
    cluster.lab.typed(&format!("scontrol update nodename={device} state=undrain")).await.unwrap();
    let lifted = |d: &Device| d.has("SlurmDrainForeign", "False", "NotDraining");
    let without =
        |call: &Call, answer: &Answered| is_list(call) && truth::told(&answer.body, device).is_some_and(|(t, _)| !t.contains("DRAIN"));
    story.appears(&format!("{device}: the foreign drain lifted"), (&cluster.recorder, typed), without, device, lifted).await;
    story.give(&["resume", device, "--reason", "labs"]).await;
    in_service(story, device).await;
}

/// Back in service, schedulable, and with nothing left to do.
async fn in_service(story: &Story, device: &str) {
    let back = |d: &Device| {
        d.phase("InService")?;
        d.has("SlurmSchedulable", "True", "Idle")?;
        d.at("/operation", &Value::Null)?;
        let open: Vec<_> = d.0["plans"].as_array().into_iter().flatten().filter(|p| p["state"] == "open").collect();
        if open.is_empty() { Ok(()) } else { Err(format!("still planned: {open:?}")) }
    };
    story.until("back in service", device, back).await;
}

/// Our own drain waits for the SLURM job that runs, and leads where it was to lead; a person types what is planned.
pub async fn a_drain_is_followed_to_its_end(story: &Story) {
    story.step("our own drains");
    let [old, new] = &story.clusters;
    tokio::join!(own_drain(story, old, OWN[0]), own_drain(story, new, OWN[1]));
    truth::equals(story, "in maintenance").await;
    tokio::join!(end_of_maintenance(story, old, OWN[0].0), end_of_maintenance(story, new, OWN[1].0));
}

async fn own_drain(story: &Story, cluster: &Cluster, (device, reason): (&str, &str)) {
    let slurm_job = cluster.lab.script.run(&["job", "sleep", "20", device]).await.unwrap();
    let works = |d: &Device| {
        d.has("SlurmSchedulable", "True", "Mixed")?;
        d.at("/scheduler/alloc_cpus", &1.into())
    };
    story.until("the job runs", device, works).await;
    story.give(&["drain", device, "--reason", reason, "--then", "maintenance"]).await;
    let line = instruction(story, device, "slurm-drain").await;
    let typed = Instant::now();
    cluster.lab.typed(&line).await.unwrap();
    let draining = |d: &Device| {
        d.phase("Draining")?;
        d.has("SlurmSchedulable", "False", "Draining")?;
        d.has("SlurmDrained", "False", "Draining")?;
        d.has("SlurmDrainForeign", "False", "OwnDrain")
    };
    let what = format!("{device}: our own drain, with a job");
    story.appears(&what, (&cluster.recorder, typed), shows(device, &["DRAIN"]), device, draining).await;
    let thing = format!("device/{device}");
    let follow = ["wait", &thing, "--for", "phase=Maintenance", "--timeout", "60s"];
    let ((code, text), ()) = tokio::join!(story.fmctl(&follow), until_maintenance(story, cluster, device, typed));
    assert_eq!(code, 0, "{text}");
    let ended = cluster.lab.typed(&format!("scontrol show job {slurm_job}")).await.unwrap();
    assert!(ended.contains("JobState=COMPLETED"), "the drain killed the job: {ended}");
}

/// Draining until SLURM shows the node idle, then Maintenance, with the proof in the history.
async fn until_maintenance(story: &Story, cluster: &Cluster, device: &str, typed: Instant) {
    let arrived = loop {
        let d = story.device(device).await.unwrap();
        match d.0["lifecycle"]["phase"].as_str() {
            Some("Maintenance") => break d,
            Some("Draining") if typed.elapsed() < PATIENCE => tokio::time::sleep(Duration::from_millis(20)).await,
            other => panic!("{device} is {other:?} after {:?}", typed.elapsed()),
        }
    };
    // Fails if there was no such answer yet: then the phase came before its proof.
    let idle = |call: &Call, answer: &Answered| {
        let told = is_list(call).then(|| truth::told(&answer.body, device)).flatten();
        told.is_some_and(|(t, cpus)| cpus == 0 && t.contains("DRAIN") && t.contains("IDLE") && !t.contains("COMPLETING"))
    };
    story.within_bound(&format!("{device}: drained, and in maintenance"), (&cluster.recorder, typed), idle);
    for (r#type, status, reason) in [("SlurmDrained", "True", "Drained"), ("MaintenanceInProgress", "True", "Maintenance")] {
        arrived.has(r#type, status, reason).unwrap();
    }
    // NetBox still says active: shown, but nobody edited anything, so it is no drift.
    assert_ne!(arrived.condition("NetboxLifecycleDrift")["status"], "True");
    let proof = event(story, device, "DrainProven").await.expect("no DrainProven in the history");
    assert!(proof.to_string().contains("slurm-idle: IDLE+DRAIN, 0 CPUs allocated"), "{proof}");
}

async fn end_of_maintenance(story: &Story, cluster: &Cluster, device: &str) {
    story.give(&["end-maintenance", device, "--reason", "labs"]).await;
    story.until("validated", device, |d| d.phase("Ready")).await;
    activate(story, cluster, device).await;
}

/// From Ready back into service; a person lifts our own drain, as planned.
pub async fn activate(story: &Story, cluster: &Cluster, device: &str) {
    story.give(&["activate", device, "--reason", "labs"]).await;
    let line = instruction(story, device, "slurm-undrain").await;
    assert_eq!(line, format!("scontrol update nodename={device} state=undrain"));
    cluster.lab.typed(&line).await.unwrap();
    in_service(story, device).await;
}

/// What a person is to type, as `why` shows it.
pub async fn instruction(story: &Story, device: &str, kind: &str) -> String {
    until_within(PATIENCE, "the plan", || async {
        let why = why(story, device).await;
        let plan = why["plans"].as_array().into_iter().flatten().find(|p| p["kind"] == kind && p["state"] == "open");
        plan.and_then(|p| p["instruction"].as_str().map(str::to_owned)).ok_or_else(|| why.to_string())
    })
    .await
}

async fn why(story: &Story, device: &str) -> Value {
    let output = story.output(&["why", device, "-o", "json"]).await;
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

/// The newest event of a type in a device's history.
pub async fn event(story: &Story, device: &str, r#type: &str) -> Option<Value> {
    let history = story.api().await.get(&format!("/devices/{device}/history?limit=100")).await.unwrap();
    let mut events = history["items"].as_array()?.iter().flat_map(|d| d["events"].as_array().into_iter().flatten());
    events.find(|e| e["type"] == r#type).cloned()
}
