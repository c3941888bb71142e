//! The commands of the README, as typed, against the simulated world.

use fleet_tests::{Running, crypto, until};
use std::process::Output;
use tempfile::TempDir;

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn devices_seen(hub: &Running) {
    until("the first devices", || async {
        let listed = hub.fmctl(&["get", "sites", "--no-headers"]).await.unwrap();
        let listed = text(&listed);
        if listed.lines().count() >= 4 && !listed.contains("not fresh") { Ok(()) } else { Err(listed) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_readmes_path_from_baseline_to_a_finished_drain() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=2,devices=20,people=false,pace=10"]).await.unwrap();
    devices_seen(&hub).await;
    until("every proposal", || async {
        let preview = hub.fmctl(&["site", "baseline", "sim1", "--preview"]).await.unwrap();
        if text(&preview).contains("InService") && !text(&preview).contains("not seen freshly") { Ok(()) } else { Err(text(&preview)) }
    })
    .await;
    let baseline = hub.fmctl(&["site", "baseline", "sim1", "--yes"]).await.unwrap();
    assert_eq!(baseline.status.code(), Some(0), "{}", text(&baseline));
    let name = {
        let listed = hub.fmctl(&["get", "devices", "--filter", "phase = InService", "-o", "name"]).await.unwrap();
        text(&listed).lines().next().unwrap().to_owned()
    };
    let forbidden = hub.fmctl(&["activate", &name, "--reason", "no"]).await.unwrap();
    assert_eq!(forbidden.status.code(), Some(4));
    assert!(text(&forbidden).contains("guard     phase"), "{}", text(&forbidden));
    let drain = hub.fmctl(&["drain", &name, "--reason", "psu swap", "--then", "maintenance"]).await.unwrap();
    assert_eq!(drain.status.code(), Some(0), "{}", text(&drain));
    let why = hub.fmctl(&["why", &name]).await.unwrap();
    assert!(text(&why).contains("state=drain reason=\"fleet:"), "{}", text(&why));
    let wait = hub.fmctl(&["wait", &format!("device/{name}"), "--for", "phase=Maintenance", "--timeout", "60s"]).await.unwrap();
    assert_eq!(wait.status.code(), Some(0), "{}", text(&wait));
    let timeline = hub.fmctl(&["timeline", &name]).await.unwrap();
    assert!(text(&timeline).contains("no work runs: the drain is proven"), "{}", text(&timeline));
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}
