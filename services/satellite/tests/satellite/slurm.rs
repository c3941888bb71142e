//! The SLURM agent against the simulator, in both releases.

use std::time::Duration;

use fleet_satellite::{ErrorClass, slurm};
use fleet_schemas::{Fact, LookFault, SchedulerSection};
use fleet_sim::{Sim, SlurmFault};

use crate::harness::{Looker, SecretFile, by_native, condition, fixtures, listed, quiet, secret_file, site};

/// The agent of a site (0 = sim1, 24.11.5; 1 = sim2, 22.05.8).
pub(crate) fn agent(sim: &Sim, at: usize, jwt: &SecretFile) -> slurm::Agent {
    let face = &sim.sites[at];
    slurm::Agent::new(slurm::Settings {
        site: site(&face.site),
        url: face.slurm_url.clone(),
        user: face.slurm_user.clone(),
        jwt_file: jwt.path.clone(),
        interval: Duration::from_secs(60),
        deadline: Duration::from_secs(30),
    })
    .unwrap()
}

/// An agent, and a plain node of its site that a device is linked to, beside one that does not exist.
async fn looker(sim: &Sim, at: usize) -> (Looker<slurm::Agent>, String, SecretFile) {
    let jwt = secret_file(&sim.sites[at].slurm_jwt);
    let mut looker = Looker::new(agent(sim, at, &jwt));
    let node = sim.world.slurm_nodes(&sim.sites[at].site).into_iter().find(|n| n.plain() && n.alloc_cpus == 0).unwrap().name;
    looker.devices.devices = vec![listed(1, &node), listed(2, "nosuch01")];
    (looker, node, jwt)
}

fn section(seen: &fleet_satellite::Seen) -> SchedulerSection {
    match &seen.fact {
        Fact::SlurmNodeSeen(s) => s.section.clone().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_look_is_two_calls_and_says_what_is_there() {
    let sim = quiet(60, 1.0).await;
    for at in [0, 1] {
        let (mut looker, node, _jwt) = looker(&sim, at).await;
        let name = sim.sites[at].site.clone();
        let sweep = looker.look().await.unwrap();
        let seen = by_native(&sweep);
        assert_eq!((seen.len(), condition(&seen[&node], "SlurmSchedulable").as_str()), (2, "True Idle"));
        assert_eq!(condition(&seen[&node], "SlurmDrained"), "False NotDraining");
        let real = sim.world.slurm_node(&name, &node).unwrap();
        let says = section(&seen[&node]);
        assert_eq!((says.cpus, says.alloc_cpus, says.state, says.gres.as_deref()), (128, 0, vec!["IDLE".to_owned()], Some("gpu:h200:8")));
        assert_eq!(says.slurmd_start_time.unwrap().0, real.slurmd_start_time * 1_000_000);
        assert_eq!(
            (says.partitions, says.features.len(), says.reason_since, says.reservation),
            (vec!["batch".into(), "burnin".into()], 2, None, None)
        );
        assert_eq!(sweep.complete[0].count, sim.world.slurm_nodes(&name).len() as i64);
        looker.look().await.unwrap();
        let paths: Vec<String> =
            sim.world.requests().into_iter().filter(|r| r.face == name).map(|r| format!("{} {}", r.method, r.path)).collect();
        let version = if at == 0 { "v0.0.42" } else { "v0.0.38" };
        let two = [format!("GET /slurm/{version}/nodes"), format!("GET /slurm/{version}/partitions")];
        assert_eq!(paths[..1], ["GET /openapi/v3"]);
        assert_eq!((&paths[1..3], &paths[3..5]), (&two[..], &two[..]));
        assert_eq!(paths[5..], [format!("GET /slurm/{version}/node/nosuch01")]);
    }
}

#[tokio::test]
async fn an_absence_is_unknown_once_then_confirmed_then_held() {
    let sim = quiet(60, 1.0).await;
    for at in [0, 1] {
        let (mut looker, node, _jwt) = looker(&sim, at).await;
        looker.look().await.unwrap();
        let name = sim.sites[at].site.clone();
        sim.world.remove_slurm_node(&name, &node);
        for expected in ["Unknown NoData", "False NotMember", "False NotMember"] {
            let sweep = looker.look().await.unwrap();
            let seen = &by_native(&sweep)[&node];
            for r#type in ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"] {
                assert_eq!(condition(seen, r#type), expected);
            }
        }
        let confirmed = sim.world.requests().into_iter().filter(|r| r.face == name && r.path.ends_with(&format!("/node/{node}"))).count();
        assert_eq!(confirmed, 1, "an absence that is confirmed is not asked for each minute");
        sim.world.add_slurm_node(&name, &node);
        assert_eq!(condition(&by_native(&looker.look().await.unwrap())[&node], "SlurmMember"), "True Listed");
        // A miss, a failed look, a miss: two consecutive misses all the same, a failure says nothing.
        sim.world.remove_slurm_node(&name, &node);
        looker.look().await.unwrap();
        sim.world.slurm_fault(&name, SlurmFault::Status(500));
        looker.look().await.unwrap_err();
        sim.world.slurm_fault(&name, SlurmFault::None);
        assert_eq!(condition(&by_native(&looker.look().await.unwrap())[&node], "SlurmMember"), "False NotMember");
    }
}

#[tokio::test]
async fn faults_are_failed_looks_and_never_a_condition() {
    let sim = quiet(60, 1000.0).await;
    use ErrorClass::{Malformed, Permanent, Transient};
    for (fault, v24, v22) in [
        (SlurmFault::ControllerDown, (Transient, LookFault::ControllerDown, "502 1800"), (Transient, LookFault::ControllerDown, "500 -1")),
        (SlurmFault::Hang, (Transient, LookFault::ControllerDown, "504 5004"), (Transient, LookFault::ControllerDown, "500 -1")),
        (SlurmFault::BadToken, (Permanent, LookFault::NoData, "511 1007"), (Transient, LookFault::ControllerDown, "or refuses the token")),
        (
            SlurmFault::TokenExpired,
            (Permanent, LookFault::NoData, "511 1007"),
            (Transient, LookFault::ControllerDown, "or refuses the token"),
        ),
        (SlurmFault::NoRights, (Permanent, LookFault::PermissionDenied, "2002"), (Transient, LookFault::ControllerDown, "500 -1")),
        (SlurmFault::EmptyList, (Permanent, LookFault::NoData, "no node"), (Permanent, LookFault::NoData, "no node")),
        (SlurmFault::Truncated, (Malformed, LookFault::NoData, "cannot be read"), (Malformed, LookFault::NoData, "cannot be read")),
        (SlurmFault::Status(503), (Transient, LookFault::NoData, "503 simulated"), (Transient, LookFault::NoData, "503 simulated")),
        (SlurmFault::Status(401), (Permanent, LookFault::NoData, "401 simulated"), (Permanent, LookFault::NoData, "401 simulated")),
        (SlurmFault::Status(404), (Permanent, LookFault::NoData, "404 simulated"), (Permanent, LookFault::NoData, "404 simulated")),
    ] {
        for (at, (class, look_fault, came)) in [(0, v24), (1, v22)] {
            let (mut looker, _, jwt) = looker(&sim, at).await;
            looker.look().await.unwrap();
            sim.world.slurm_fault(&sim.sites[at].site, fault);
            let error = looker.look().await.unwrap_err();
            assert_eq!((error.class, error.fault), (class, look_fault), "{fault:?} {error}");
            assert!(error.came.contains(came) && error.asked.starts_with("GET /slurm/v0.0."), "{fault:?} {error}");
            assert!(!format!("{error:?}").contains(&std::fs::read_to_string(&jwt.path).unwrap()[..40]));
            sim.world.slurm_fault(&sim.sites[at].site, SlurmFault::None);
            looker.look().await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_expired_token_asks_nobody_and_a_new_one_is_taken_up() {
    let sim = quiet(40, 1.0).await;
    let (mut looker, _, jwt) = looker(&sim, 1).await;
    std::fs::copy(fixtures("slurm/tokens/expired_2023.jwt"), &jwt.path).unwrap();
    let error = looker.look().await.unwrap_err();
    assert_eq!((error.fault, sim.world.requests().len()), (LookFault::TokenExpired, 0), "{error}");
    std::fs::copy(fixtures("slurm/tokens/foreign_key_2099.jwt"), &jwt.path).unwrap();
    assert_eq!(looker.look().await.unwrap_err().fault, LookFault::ControllerDown);
    std::fs::write(&jwt.path, &sim.sites[1].slurm_jwt).unwrap();
    looker.look().await.unwrap();
}

#[tokio::test]
async fn a_drain_is_ours_or_foreign_by_how_it_came() {
    let sim = quiet(60, 1.0).await;
    for at in [0, 1] {
        let (mut looker, node, _jwt) = looker(&sim, at).await;
        let name = sim.sites[at].site.clone();
        let look = async |looker: &mut Looker<slurm::Agent>| {
            let sweep = looker.look().await.unwrap();
            let seen = by_native(&sweep)[&node].clone();
            let since = section(&seen).drain_since.map(|t| (looker.now.since(t)) / 60_000_000);
            (condition(&seen, "SlurmDrainForeign"), condition(&seen, "SlurmDrained"), since)
        };
        let is = |foreign: &str, drained: &str, since| (foreign.to_owned(), drained.to_owned(), since);
        sim.world.drain(&name, &node, "fleet:42 psu swap", "root");
        assert_eq!(look(&mut looker).await, is("False OwnDrain", "True Drained", Some(0)));
        assert_eq!(look(&mut looker).await, is("False OwnDrain", "True Drained", Some(1)));
        sim.world.undrain(&name, &node);
        assert_eq!(look(&mut looker).await, is("False NotDraining", "False NotDraining", None));
        // A drain without a reason: 24.11 shows the old one, which is ours; 22.05 shows none.
        sim.world.drain(&name, &node, "", "alice");
        let reason = section(&by_native(&looker.look().await.unwrap())[&node]).reason;
        assert_eq!(reason.as_deref(), (at == 0).then_some("fleet:42 psu swap"));
        assert_eq!(look(&mut looker).await, is("True ForeignDrain", "True Drained", Some(1)));
        sim.world.drain(&name, &node, "fleet:43 again", "root");
        assert_eq!(look(&mut looker).await, is("False OwnDrain", "True Drained", Some(2)));
        sim.world.drain(&name, &node, "admin: memory test", "root");
        assert_eq!(look(&mut looker).await, is("True ForeignDrain", "True Drained", Some(3)));
        let says = by_native(&looker.look().await.unwrap())[&node].clone();
        let message = &crate::harness::conditions(&says)[1].message;
        assert!(message.starts_with("DRAIN+IDLE: \"admin: memory test\", by root, since 20"), "{message}");
    }
}

#[tokio::test]
async fn completing_holds_the_old_value_for_two_looks() {
    let sim = quiet(60, 1.0).await;
    let (mut looker, node, _jwt) = looker(&sim, 0).await;
    sim.world.set_tokens("sim1", &node, &["MIXED"]);
    assert_eq!(condition(&by_native(&looker.look().await.unwrap())[&node], "SlurmSchedulable"), "True Mixed");
    for (tokens, expected) in [
        (["IDLE", "COMPLETING"], "True Mixed"),
        (["IDLE", "COMPLETING"], "True Mixed"),
        (["IDLE", "COMPLETING"], "False Completing"),
        (["IDLE", "CLOUD"], "True Idle"),
        (["IDLE", "COMPLETING"], "True Idle"),
        (["DRAIN", "IDLE"], "False Drained"),
        (["IDLE", "WEIRD"], "Unknown UnrecognisedState"),
    ] {
        sim.world.set_tokens("sim1", &node, &tokens);
        assert_eq!(condition(&by_native(&looker.look().await.unwrap())[&node], "SlurmSchedulable"), expected, "{tokens:?}");
    }
}

#[tokio::test]
async fn partitions_count_reservations_are_named_and_bad_links_are_said() {
    let sim = quiet(60, 1.0).await;
    for at in [0, 1] {
        let (mut looker, node, _jwt) = looker(&sim, at).await;
        let name = sim.sites[at].site.clone();
        looker.devices.devices.push(listed(3, "../ping"));
        for (state, expected) in [("DOWN", "True Idle"), ("INACTIVE", "False PartitionDown")] {
            sim.world.partition_state(&name, if state == "DOWN" { "batch" } else { "burnin" }, state);
            assert_eq!(condition(&by_native(&looker.look().await.unwrap())[&node], "SlurmSchedulable"), expected);
        }
        sim.world.reserve(&name, &node, "fleet-gpu", true);
        let seen = by_native(&looker.look().await.unwrap());
        assert_eq!(condition(&seen[&node], "SlurmSchedulable"), "False MaintReservation");
        assert_eq!(section(&seen[&node]).reservation.as_deref(), (at == 0).then_some("fleet-gpu"), "22.05 does not name it");
        assert_eq!(condition(&seen["../ping"], "SlurmMember"), "Unknown BadName");
        assert!(sim.world.requests().iter().all(|r| !r.path.contains("ping")));
    }
}
