//! Each fault answers as documented (knowledge/slurm.md section 4).

use fleet_sim::{NetboxFault, SlurmFault};
use serde_json::{Value, json};

use crate::harness::{fixture, netbox, plain_nodes, post, quiet, slurm, world};

#[tokio::test]
async fn slurm_faults() {
    // Fast: a hang lasts 10 s / pace.
    let sim = world(40, 100.0).await;
    let number = "/errors/0/error_number";
    for (fault, site, call, status, pointer, value) in [
        (SlurmFault::ControllerDown, 1, "nodes", 502, number, json!(1800)),
        (SlurmFault::ControllerDown, 1, "partitions", 502, number, json!(1800)),
        (SlurmFault::ControllerDown, 1, "ping", 200, "/pings/0/pinged", json!("DOWN")),
        (SlurmFault::ControllerDown, 2, "nodes", 500, "/errors/0/errno", json!(-1)),
        (SlurmFault::ControllerDown, 2, "ping", 500, number, json!(-1)),
        (SlurmFault::BadToken, 1, "nodes", 511, number, json!(1007)),
        (SlurmFault::BadToken, 1, "ping", 200, "/pings/0/responding", json!(false)),
        (SlurmFault::TokenExpired, 1, "node/gpu001", 511, number, json!(1007)),
        (SlurmFault::TokenExpired, 2, "nodes", 500, "/nodes", json!([])),
        (SlurmFault::Hang, 1, "nodes", 504, number, json!(5004)),
        (SlurmFault::Hang, 2, "partitions", 500, "/errors/0/errno", json!(-1)),
        (SlurmFault::EmptyList, 1, "nodes", 200, "/nodes", json!([])),
        (SlurmFault::EmptyList, 2, "nodes", 200, "/nodes", json!([])),
        (SlurmFault::NoRights, 1, "nodes", 500, number, json!(2002)),
        (SlurmFault::NoRights, 1, "partitions", 200, "/partitions", json!([])),
        (SlurmFault::NoRights, 2, "nodes", 500, "/errors/0/errno", json!(-1)),
        (SlurmFault::None, 1, "nodes", 200, "/errors", json!([])),
    ] {
        sim.world.slurm_fault(&format!("sim{site}"), fault);
        let got = slurm(&sim, site, &format!("/slurm/v0.0.{}/{call}", 46 - 4 * site)).await;
        let value_there = got.json().pointer(pointer).cloned();
        assert_eq!((got.status, value_there), (status, Some(value)), "{fault:?} {site} {call}");
        sim.world.slurm_fault(&format!("sim{site}"), SlurmFault::None);
    }
    sim.world.slurm_fault("sim1", SlurmFault::Status(503));
    assert_eq!(slurm(&sim, 1, "/slurm/v0.0.42/nodes").await.status, 503);
    sim.world.slurm_fault("sim1", SlurmFault::Truncated);
    let cut = slurm(&sim, 1, "/slurm/v0.0.42/nodes").await;
    assert!(cut.status == 200 && serde_json::from_str::<Value>(&cut.text).is_err());
    sim.world.slurm_fault("sim1", SlurmFault::NoRights);
    let name = &plain_nodes(&sim, "sim1")[0];
    let refused = post(&sim, 1, &format!("/slurm/v0.0.42/node/{name}"), r#"{"state":["DRAIN"],"reason":"x"}"#).await;
    assert_eq!((refused.status, refused.json().pointer(number)), (500, Some(&json!(2010))));
}

#[tokio::test]
async fn slurm_refusals_word_for_word() {
    let sim = quiet(40).await;
    for (fault, call, file) in [
        (SlurmFault::ControllerDown, "nodes", "err_slurmctld_down_nodes"),
        (SlurmFault::ControllerDown, "node/gpu05", "err_slurmctld_down_node"),
        (SlurmFault::TokenExpired, "nodes", "err_expired_token_nodes"),
    ] {
        sim.world.slurm_fault("sim1", fault);
        let mut recorded = fixture(&format!("slurm/24.11.5/v0.0.42/{file}.json"));
        recorded["meta"]["slurm"]["cluster"] = json!("sim");
        assert_eq!(slurm(&sim, 1, &format!("/slurm/v0.0.42/{call}")).await.json(), recorded, "{file}");
    }
    for (version, call, file) in [
        (38, "nodes", "v0.0.38/err_slurmctld_down_nodes"),
        (38, "ping", "v0.0.38/err_slurmctld_down_ping"),
        (36, "ping", "v0.0.36/err_expired_token_ping"),
    ] {
        sim.world.slurm_fault("sim2", SlurmFault::ControllerDown);
        let recorded = fixture(&format!("slurm/22.05.8/{file}.json"));
        assert_eq!(slurm(&sim, 2, &format!("/slurm/v0.0.{version}/{call}")).await.json()["errors"], recorded["errors"], "{file}");
    }
    sim.world.slurm_fault("sim2", SlurmFault::TokenExpired);
    let old = slurm(&sim, 2, "/slurm/v0.0.36/nodes").await.json();
    assert_eq!(old["errors"], fixture("slurm/22.05.8/v0.0.38/err_unknown_node.json")["errors"]);
}

#[tokio::test]
async fn netbox_faults() {
    let sim = world(120, 600.0).await;
    let list = "/api/dcim/devices/?start=0&limit=50&site=sim1&fields=id,site";
    let with = async |fault: NetboxFault, path: &str| {
        sim.world.netbox_fault(fault);
        netbox(&sim, path).await
    };
    let forbidden = with(NetboxFault::Forbidden, list).await;
    assert_eq!((forbidden.status, forbidden.json()), (403, json!({ "detail": "You do not have permission to perform this action." })));
    assert_eq!(with(NetboxFault::Status(503), list).await.status, 503);
    assert_eq!(with(NetboxFault::Hang, list).await.status, 504);
    let empty = with(NetboxFault::EmptyList, list).await;
    assert_eq!((empty.status, empty.json()), (200, json!({ "count": null, "next": null, "previous": null, "results": [] })));
    let cut = with(NetboxFault::TruncatedPage, list).await;
    assert!(cut.status == 200 && serde_json::from_str::<Value>(&cut.text).is_err());
    let ignored = with(NetboxFault::IgnoreFilters, list).await.json();
    assert_eq!(ignored["results"].as_array().unwrap().len(), 50);
    assert_eq!(ignored["results"][1]["site"]["slug"], json!("sim2"));
    let first = with(NetboxFault::HalfSweep, list).await;
    let next = first.json()["next"].as_str().unwrap().to_owned();
    assert_eq!((first.status, netbox(&sim, &next).await.status), (200, 500));
    assert_eq!(with(NetboxFault::None, &next).await.status, 200);
}
