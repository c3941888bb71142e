//! Done when: two devices with one serial at two sites at once, or with one SLURM name: one grant, both show the conflict, and it heals
//! when one gives back. As whole processes, in a simulated world that the test changes.

use fleet_schemas::DeviceId;
use fleet_sim::{Options, Sim};
use fleet_tests::{Api, Running, configure, crypto, until};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

struct Bed {
    sim: Sim,
    hub: Running,
    api: Api,
    _folder: TempDir,
}

async fn bed() -> Bed {
    crypto();
    let folder = TempDir::new().unwrap();
    let sim = fleet_sim::start(Options { sites: 2, devices: 12, seed: 1, people: false, pace: 10.0 }).await.unwrap();
    let config = configure(&sim, folder.path());
    let hub = Running::start(&folder.path().join("data"), &["--config", config.to_str().unwrap()]).await.unwrap();
    let api = hub.api().await.unwrap();
    Bed { sim, hub, api, _folder: folder }
}

fn id(netbox: u64) -> String {
    DeviceId::from_netbox("sim", netbox as i64).to_string()
}

/// The conflict that a device shows of a name: `status reason`, or `none`.
async fn shows(api: &Api, device: u64, subject: &str) -> Result<String, String> {
    let body = api.get(&format!("/devices/{}/conditions", id(device))).await.map_err(|e| e.to_string())?;
    let own = |c: &&Value| c["type"] == "IdentityConflict" && c["subject"] == subject;
    let found = body["items"].as_array().into_iter().flatten().find(own);
    Ok(found.map_or("none".into(), |c| {
        assert_eq!(c["source"], "hub", "{c}");
        format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap())
    }))
}

/// Waits until one of the two holds the name and the other does not, and both show it; gives (holder, the other).
async fn contested(api: &Api, a: u64, b: u64, subject: &str) -> (u64, u64) {
    until("one holds it, both show it", || async {
        let (first, second) = (shows(api, a, subject).await?, shows(api, b, subject).await?);
        match (first.as_str(), second.as_str()) {
            ("True Contested", "True HeldByAnother") => Ok((a, b)),
            ("True HeldByAnother", "True Contested") => Ok((b, a)),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

async fn heals(api: &Api, device: u64, subject: &str, expected: &str) {
    until("it heals", || async {
        let found = shows(api, device, subject).await?;
        if found == expected { Ok(()) } else { Err(format!("{device}: {found}")) }
    })
    .await;
}

/// Devices of a site that NetBox links to SLURM, once the hub has them all.
async fn linked(bed: &Bed, site: &str) -> Vec<(u64, String)> {
    let devices: Vec<_> = bed.sim.world.devices().into_iter().filter(|d| d.site == site).collect();
    let named = devices.iter().filter_map(|d| Some((d.id, d.custom_fields.get("slurm_node")?.as_str()?.to_owned())));
    let named: Vec<_> = named.collect();
    for (device, _) in &named {
        until("the hub has it", || async {
            bed.api.get(&format!("/devices/{}", id(*device))).await.map(|_| ()).map_err(|e| e.to_string())
        })
        .await;
    }
    named
}

#[tokio::test(flavor = "multi_thread")]
async fn one_serial_at_two_sites_at_once() {
    let bed = bed().await;
    let (a, b) = (linked(&bed, "sim1").await[0].0, linked(&bed, "sim2").await[0].0);
    let fresh = |serial: &'static str| move |d: &mut fleet_sim::Device| d.serial = serial.into();
    // Both at once: each gets the serial that neither had.
    bed.sim.world.edit_device(a, "alice", fresh("SN-DOUBLE"));
    bed.sim.world.edit_device(b, "alice", fresh("sn-double "));
    let subject = "serial/sn-double";
    let (holder, other) = contested(&bed.api, a, b, subject).await;
    // What touches the thing is refused on both sides, and says why.
    for device in [holder, other] {
        let why = bed.api.get(&format!("/devices/{}/why", id(device))).await.unwrap();
        let waits =
            why["waiting_for"].as_array().unwrap().iter().any(|w| w["what"].as_str().unwrap().contains("sn-double for itself alone"));
        assert!(waits, "{why}");
    }
    for (device, held, another) in [(holder, true, other), (other, false, holder)] {
        let shown = bed.api.get(&format!("/devices/{}", id(device))).await.unwrap();
        let names = shown["identity"]["names"].as_array().unwrap();
        let expected = json!({"kind": "serial", "value": "sn-double", "held": held, "other": id(another)});
        assert!(names.contains(&expected), "{names:?}");
    }
    // A restart forgets nothing of it.
    let data = bed.hub.data.clone();
    assert_eq!(bed.hub.stop().await.unwrap(), Some(0));
    let config = data.parent().unwrap().join("config.toml");
    let hub = Running::start(&data, &["--config", config.to_str().unwrap()]).await.unwrap();
    let api = hub.api().await.unwrap();
    assert_eq!(contested(&api, a, b, subject).await, (holder, other));
    // The holder was mistyped: it gives back, and both heal.
    bed.sim.world.edit_device(holder, "alice", fresh("SN-MENDED"));
    heals(&api, holder, subject, "False GivenBack").await;
    heals(&api, other, subject, "False Unique").await;
    let told = api.get(&format!("/devices/{}/timeline?limit=500", id(other))).await.unwrap().to_string();
    assert!(told.contains("serial/sn-double is held by device") && told.contains("serial/sn-double is its own"), "{told}");
    assert_eq!(hub.stop().await.unwrap(), Some(0));
    let replay = std::process::Command::new(fleet_tests::binary("fleet-manager"));
    verified(replay, &data);
}

fn verified(mut replay: std::process::Command, data: &std::path::Path) {
    let done = replay.args(["replay", "--verify", "--data"]).arg(data).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && text.contains("every chain verifies"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_slurm_name_at_a_site_and_the_same_name_at_another() {
    let bed = bed().await;
    let (here, there) = (linked(&bed, "sim1").await, linked(&bed, "sim2").await);
    let (a, name) = here[0].clone();
    let b = here[1].0;
    let link = |device: u64, node: &str| bed.sim.world.set_custom_field(device, "slurm_node", json!(node), "alice");
    link(b, &name);
    // A name is a site's own: at another site it is another.
    link(there[0].0, &name);
    let subject = format!("slurm-name/sim1/{name}");
    let (holder, other) = contested(&bed.api, a, b, &subject).await;
    assert_eq!(holder, a, "who had it keeps it");
    let refused = bed.api.command(&id(other), "hold", json!({"name": "x"})).await.unwrap();
    assert_eq!(refused.status, StatusCode::OK, "what touches nothing is not refused: {}", refused.body);
    link(b, &here[1].1);
    heals(&bed.api, other, &subject, "False GivenBack").await;
    heals(&bed.api, holder, &subject, "False Unique").await;
    assert_eq!(shows(&bed.api, there[0].0, &format!("slurm-name/sim2/{name}")).await.unwrap(), "none");
    assert_eq!(bed.hub.stop().await.unwrap(), Some(0));
}
