//! SLURM's face: versions, tokens, states, writes, speed.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{ask, fixture, plain_nodes, post, quiet, slurm, world};

/// The tokens of a node as an agent reads them, from the list.
async fn tokens(sim: &fleet_sim::Sim, site: usize, name: &str) -> Vec<String> {
    let version = if site == 1 { 42 } else { 38 };
    let list = slurm(sim, site, &format!("/slurm/v0.0.{version}/nodes")).await.json();
    let node = list["nodes"].as_array().unwrap().iter().find(|n| n["name"] == json!(name)).unwrap().clone();
    let words = |v: &Value| v.as_array().unwrap().iter().map(|t| t.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    match &node["state"] {
        Value::String(base) => [vec![base.to_uppercase()], words(&node["state_flags"])].concat(),
        state => words(state),
    }
}

#[tokio::test]
async fn versions_are_found_through_openapi() {
    let sim = quiet(40).await;
    for (site, versions, path) in [(1, ["v0.0.40", "v0.0.41", "v0.0.42"], "nodes/"), (2, ["v0.0.36", "v0.0.37", "v0.0.38"], "nodes")] {
        let paths = slurm(&sim, site, "/openapi/v3").await.json()["paths"].clone();
        for version in versions {
            assert!(paths.get(format!("/slurm/{version}/{path}")).is_some(), "{version}");
            assert_eq!(slurm(&sim, site, &format!("/slurm/{version}/nodes/")).await.status, 200);
        }
        let other = slurm(&sim, site, "/slurm/v0.0.43/nodes").await;
        assert_eq!((other.status, other.text.as_str()), (404, "Unable find requested URL. Please view /openapi/v3 for API reference."));
    }
}

#[tokio::test]
async fn what_the_world_does_is_what_the_lists_say() {
    let sim = quiet(60).await;
    for (site, name) in [(1, "sim1"), (2, "sim2")] {
        let nodes = plain_nodes(&sim, name);
        let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
        sim.world.allocate(name, a, 64);
        sim.world.drain(name, a, "fleet:1 psu", "root");
        assert_eq!(tokens(&sim, site, a).await, ["MIXED", "DRAIN"]);
        sim.world.allocate(name, a, 0);
        assert_eq!(tokens(&sim, site, a).await, ["IDLE", "DRAIN"]);
        sim.world.undrain(name, a);
        // 24.11 keeps the reason, 22.05 forgets it.
        assert_eq!(sim.world.slurm_node(name, a).unwrap().reason, if site == 1 { "fleet:1 psu" } else { "" });
        sim.world.reserve(name, b, "maint", true);
        assert_eq!(tokens(&sim, site, b).await[1..], ["RESERVED", "MAINTENANCE"]);
        sim.world.unreserve(name, b, "maint");
        assert_eq!(tokens(&sim, site, b).await.len(), 1);
        sim.world.set_tokens(name, c, &["UNKNOWN", "DRAIN", "INVALID_REG"]);
        assert_eq!(tokens(&sim, site, c).await, ["UNKNOWN", "DRAIN", "INVALID_REG"]);
        sim.world.remove_slurm_node(name, c);
        let list = slurm(&sim, site, &format!("/slurm/v0.0.{}/nodes", 46 - 4 * site)).await.json();
        assert_eq!(list["nodes"].as_array().unwrap().len(), sim.world.slurm_nodes(name).len());
        assert!(sim.world.slurm_node(name, c).is_none());
        sim.world.partition_state(name, "batch", "DOWN");
    }
    let v24 = slurm(&sim, 1, "/slurm/v0.0.42/partitions").await.json();
    assert_eq!((&v24["partitions"][0]["name"], &v24["partitions"][0]["partition"]["state"]), (&json!("batch"), &json!(["DOWN"])));
    let v22 = slurm(&sim, 2, "/slurm/v0.0.38/partition/batch").await.json();
    assert_eq!(v22["partitions"][0]["state"], json!("DOWN"));
}

#[tokio::test]
async fn single_calls_and_unknown_names() {
    let sim = quiet(40).await;
    let unknown = slurm(&sim, 1, "/slurm/v0.0.42/node/nosuch01").await;
    let mut recorded = fixture("slurm/24.11.5/v0.0.42/err_unknown_node.json");
    recorded["meta"]["slurm"]["cluster"] = json!("sim");
    assert_eq!((unknown.status, unknown.json()), (200, recorded));
    let unknown = slurm(&sim, 2, "/slurm/v0.0.38/node/nosuch01").await;
    assert_eq!((unknown.status, unknown.json()), (500, fixture("slurm/22.05.8/v0.0.38/err_unknown_node.json")));
    let unknown = slurm(&sim, 2, "/slurm/v0.0.38/partition/nosuch").await;
    assert_eq!((unknown.status, unknown.json()), (500, fixture("slurm/22.05.8/v0.0.38/err_unknown_partition.json")));
    let later = chrono::Utc::now().timestamp() + 10;
    let same = slurm(&sim, 1, &format!("/slurm/v0.0.42/nodes?update_time={later}")).await;
    assert_eq!((same.status, same.text.as_str()), (304, ""));
    assert_eq!(slurm(&sim, 1, "/slurm/v0.0.42/nodes?update_time=1").await.status, 200);
}

#[tokio::test]
async fn tokens_are_checked_as_the_releases_do() {
    let sim = quiet(40).await;
    let call = async |site: usize, path: &str, headers: &[(&str, &str)]| {
        ask(Method::GET, format!("{}{path}", sim.sites[site - 1].slurm_url), headers, None).await
    };
    let (jwt1, jwt2) = (sim.sites[0].slurm_jwt.as_str(), sim.sites[1].slurm_jwt.as_str());
    let (nodes1, nodes2) = ("/slurm/v0.0.42/nodes", "/slurm/v0.0.38/nodes");
    assert_eq!(call(1, nodes1, &[("X-SLURM-USER-TOKEN", jwt1)]).await.status, 200);
    assert_eq!(call(1, nodes1, &[("Authorization", &format!("Bearer {jwt1}"))]).await.status, 200);
    for (site, path, headers) in [(1, nodes1, &[][..]), (2, nodes2, &[]), (2, nodes2, &[("X-SLURM-USER-TOKEN", jwt2)])] {
        let none = call(site, path, headers).await;
        assert_eq!((none.status, none.text.as_str()), (401, "Authentication failure"));
    }
    let foreign = call(1, nodes1, &[("X-SLURM-USER-TOKEN", jwt2)]).await;
    assert_eq!((foreign.status, &foreign.json()["errors"][0]["error_number"]), (511, &json!(1007)));
    let foreign = call(2, nodes2, &[("X-SLURM-USER-TOKEN", jwt1), ("X-SLURM-USER-NAME", "slurm")]).await;
    assert_eq!((foreign.status, foreign.json()), (500, fixture("slurm/22.05.8/v0.0.38/err_expired_token_nodes.json")));
    assert_eq!(jwt1.split('.').count(), 3);
}

#[tokio::test]
async fn posts_drain_and_resume_on_24_11_only() {
    let sim = world(60, 50.0).await;
    let name = plain_nodes(&sim, "sim1")[0].clone();
    let path = format!("/slurm/v0.0.42/node/{name}");
    let node = || sim.world.slurm_node("sim1", &name).unwrap();
    sim.world.allocate("sim1", &name, 0);
    let done = post(&sim, 1, &path, r#"{"state":["DRAIN"],"reason":"fleet: burn-in 42"}"#).await;
    let mut recorded = fixture("slurm/24.11.5/v0.0.42/node_update_ok_drain.json");
    recorded["meta"]["slurm"]["cluster"] = json!("sim");
    assert_eq!((done.status, done.json()), (200, recorded));
    assert_eq!(
        (node().tokens, node().reason.as_str(), node().reason_user.as_str()),
        (vec!["IDLE".into(), "DRAIN".into()], "fleet: burn-in 42", "root")
    );
    assert_eq!(post(&sim, 1, &path, r#"{"state":"undrain"}"#).await.status, 200);
    crate::harness::eventually("the node settles", || node().plain()).await;
    let refused = post(&sim, 1, &path, r#"{"state":["RESUME"],"reason":"half"}"#).await;
    assert_eq!((refused.status, &refused.json()["errors"][0]["error_number"], node().reason.as_str()), (500, &json!(2028), "half"));
    let unknown = post(&sim, 1, "/slurm/v0.0.42/node/nosuch01", r#"{"state":["DRAIN"]}"#).await;
    assert_eq!((unknown.status, &unknown.json()["errors"][0]["error_number"]), (500, &json!(2018)));
    assert_eq!(post(&sim, 1, &path, "{").await.status, 400);
    let old = post(&sim, 2, "/slurm/v0.0.38/node/gpu002", r#"{"state":["DRAIN"]}"#).await;
    assert_eq!(
        (old.status, old.text.as_str()),
        (405, "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference.")
    );
}

/// CPU time of this thread in ms: the other tests and the machine's other users do not count.
fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse::<u64>().unwrap() / 1_000_000
}

/// Client and simulator share this test's one thread.
#[tokio::test]
async fn two_thousand_nodes_are_quick() {
    let sim = fleet_sim::start(fleet_sim::Options { sites: 1, devices: 2150, people: false, ..Default::default() }).await.unwrap();
    assert!(sim.world.slurm_nodes("sim1").len() > 1950);
    let mut best = u64::MAX;
    for _ in 0..5 {
        let begin = cpu_ms();
        let got = slurm(&sim, 1, "/slurm/v0.0.42/nodes/").await;
        best = best.min(cpu_ms() - begin);
        assert!(got.text.len() > 2_000_000);
    }
    println!("2,000 nodes: {best} ms of CPU");
    assert!(best < 100, "{best} ms");
}
