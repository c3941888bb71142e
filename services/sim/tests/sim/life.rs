//! What happens by itself: people, work, slurmd, staff; and that the seed decides how it all begins.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet_sim::{Options, Plan, PlanAction, PlanSource, Sim};

use crate::harness::{ask, eventually, netbox, plain_nodes, slurm, world};

async fn busy(seed: u64, pace: f64) -> Sim {
    fleet_sim::start(Options { seed, pace, ..Options::default() }).await.unwrap()
}

/// The world at the start without its times.
async fn beginning(seed: u64) -> Vec<String> {
    let sim = fleet_sim::start(Options { seed, people: false, ..Options::default() }).await.unwrap();
    let nodes = sim.sites.iter().flat_map(|s| sim.world.slurm_nodes(&s.site));
    let nodes = nodes.map(|n| format!("{} {} {:?} {} {}", n.site, n.name, n.tokens, n.alloc_cpus, n.reason));
    let devices = sim
        .world
        .devices()
        .into_iter()
        .map(|d| format!("{} {:?} {} {} {} {:?} {:?} {:?}", d.id, d.name, d.serial, d.status, d.site, d.rack, d.tags, d.custom_fields));
    devices.chain(nodes).collect()
}

#[tokio::test]
async fn the_seed_decides_the_beginning() {
    assert_eq!(beginning(7).await, beginning(7).await);
    assert_ne!(beginning(7).await, beginning(8).await);
}

#[tokio::test]
async fn a_beginning_is_mostly_healthy_with_some_oddities() {
    let sim = world(200, 1.0).await;
    let devices = sim.world.devices();
    let count = |keeps: &dyn Fn(&fleet_sim::Device) -> bool| devices.iter().filter(|d| keeps(d)).count();
    assert_eq!((count(&|d| d.name.is_none()), count(&|d| d.name.as_deref() == Some(""))), (1, 1));
    assert_eq!(count(&|d| d.serial == "To be filled by O.E.M."), 1);
    let shared = devices.iter().filter(|d| devices.iter().any(|o| o.id != d.id && o.serial == d.serial)).count();
    assert_eq!(shared, 2);
    assert_eq!((count(&|d| d.role == "storage"), count(&|d| d.site == "sim1")), (8, 100));
    let members = |status: &str| {
        let of_status = devices.iter().filter(move |d| d.status == status && d.role == "gpu-node");
        of_status.map(|d| sim.world.slurm_node(&d.site, d.custom_fields["slurm_node"].as_str().unwrap())).collect::<Vec<_>>()
    };
    for status in ["planned", "staged"] {
        assert!(!members(status).is_empty() && members(status).iter().all(Option::is_none), "{status}");
    }
    for status in ["failed", "offline"] {
        let nodes = members(status);
        assert!(!nodes.is_empty(), "{status}");
        assert!(nodes.iter().all(|n| n.as_ref().is_some_and(|n| n.has("DRAIN") && n.reason.starts_with("admin:"))), "{status}");
    }
    assert!(members("active").iter().all(|n| n.as_ref().is_some_and(|n| n.plain())));
}

#[tokio::test]
async fn people_act_and_never_break_too_much() {
    let sim = busy(1, 200.0).await;
    let seen = Mutex::new(std::collections::BTreeSet::new());
    eventually("an admin's drain, a dead slurmd, a status edit, another edit, work that ends", || {
        let broken = sim.world.broken();
        assert!(broken.len() <= 10, "{broken:?}");
        let mut seen = seen.lock().unwrap();
        for node in sim.sites.iter().flat_map(|s| sim.world.slurm_nodes(&s.site)) {
            let note = |seen: &mut std::collections::BTreeSet<&str>, holds: bool, what| _ = holds.then(|| seen.insert(what));
            note(&mut seen, node.reason == "admin: memory test" && node.has("DRAIN"), "drain");
            note(&mut seen, node.reason == "admin: memory test" && !node.has("DRAIN"), "resumed");
            note(&mut seen, node.has("DOWN") && node.has("NOT_RESPONDING"), "dead");
            note(&mut seen, node.has("COMPLETING"), "completing");
        }
        for device in sim.world.devices() {
            if device.last_updated > device.created + chrono::TimeDelta::seconds(1) {
                seen.insert(if matches!(device.status.as_str(), "failed" | "offline") { "status" } else { "edit" });
            }
        }
        seen.len() == 6
    })
    .await;
    let changes = netbox(&sim, "/api/core/object-changes/?changed_object_type=dcim.device").await.json();
    assert!(changes["count"].as_u64().unwrap() > 0);
    sim.stop().await;
}

#[tokio::test]
async fn a_drain_reaches_idle_and_a_dead_slurmd_is_noticed() {
    let sim = world(60, 50.0).await;
    for site in ["sim1", "sim2"] {
        let names = plain_nodes(&sim, site);
        let node = |at: usize| sim.world.slurm_node(site, &names[at]).unwrap();
        sim.world.allocate(site, &names[0], 128);
        sim.world.drain(site, &names[0], "fleet:a", "root");
        assert_eq!(node(0).tokens, ["ALLOCATED", "DRAIN"]);
        eventually("IDLE+DRAIN", || node(0).tokens == ["IDLE", "DRAIN"]).await;
        sim.world.kill_slurmd(site, &names[1]);
        sim.world.kill_slurmd(site, &names[0]);
        eventually("silent", || node(1).has("NOT_RESPONDING")).await;
        eventually("down", || node(1).has("DOWN") && node(0).has("DOWN")).await;
        assert_eq!(node(0).reason, if site == "sim1" { "fleet:a : Not responding" } else { "fleet:a" });
        sim.world.start_slurmd(site, &names[1]);
        sim.world.start_slurmd(site, &names[0]);
        assert_eq!(
            (node(1).tokens.as_slice(), node(0).tokens.as_slice()),
            (&["IDLE".to_owned()][..], &["DOWN".to_owned(), "DRAIN".to_owned()][..])
        );
        assert!(sim.world.resume(site, &names[0]) && node(0).plain() && !sim.world.resume(site, &names[0]));
    }
}

struct Board(Mutex<Vec<Plan>>);

impl PlanSource for Board {
    fn open_plans(&self) -> Pin<Box<dyn Future<Output = Vec<Plan>> + Send + '_>> {
        Box::pin(async { self.0.lock().unwrap().clone() })
    }
}

#[tokio::test]
async fn staff_type_plans_and_leave_foreign_drains_alone() {
    let sim = world(60, 100.0).await;
    let names = plain_nodes(&sim, "sim2");
    let node = |at: usize| sim.world.slurm_node("sim2", &names[at]).unwrap();
    let plan = |at: usize, action, mark: &str| Plan { site: "sim2".into(), slurm_node: names[at].clone(), action, mark: mark.into() };
    sim.world.drain("sim2", &names[1], "admin: mine", "carol");
    let board = Arc::new(Board(Mutex::new(vec![
        plan(1, PlanAction::Drain, "fleet:t1 psu"),
        plan(1, PlanAction::Undrain, ""),
        plan(0, PlanAction::Drain, "fleet:t2 psu"),
    ])));
    sim.follow_plans(board.clone());
    eventually("typed", || node(0).has("DRAIN")).await;
    let first = node(0);
    assert_eq!((first.reason.as_str(), first.reason_user.as_str()), ("fleet:t2 psu", "root"));
    *board.0.lock().unwrap() = vec![plan(1, PlanAction::Undrain, ""), plan(0, PlanAction::Undrain, "")];
    eventually("lifted and settled", || node(0).plain()).await;
    assert_eq!((node(1).reason.as_str(), node(1).has("DRAIN")), ("admin: mine", true));
}

#[tokio::test]
async fn requests_are_counted_and_a_stopped_sim_is_gone() {
    let sim = world(40, 1.0).await;
    netbox(&sim, "/api/dcim/devices/?limit=1").await;
    slurm(&sim, 2, "/slurm/v0.0.38/nodes").await;
    let seen: Vec<String> = sim.world.requests().into_iter().map(|r| format!("{} {} {}", r.face, r.method, r.path)).collect();
    assert_eq!(seen, ["netbox GET /api/dcim/devices/?limit=1", "sim2 GET /slurm/v0.0.38/nodes"]);
    sim.world.slurm_fault("sim1", fleet_sim::SlurmFault::Hang);
    let (url, world) = (sim.sites[0].slurm_url.clone(), sim.world.clone());
    let hanging = tokio::spawn(ask(reqwest::Method::GET, format!("{url}/slurm/v0.0.42/nodes"), &[("X-SLURM-USER-TOKEN", "x")], None));
    eventually("the request is in", || world.requests().len() == 3).await;
    let begin = Instant::now();
    sim.stop().await;
    hanging.await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(5), "a hanging answer does not hold up the end");
    assert!(reqwest::get(format!("{url}/openapi/v3")).await.is_err());
}
