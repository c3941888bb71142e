//! The NetBox agent against the simulator: the traps of its feeds, its failures, what people do.

use std::time::Duration;

use fleet_satellite::{ErrorClass, Seen, SlurmLink, Sweep, netbox};
use fleet_schemas::{DeviceId, Fact, LookFault, NetboxDeviceGone, NetboxDeviceSeen, StreamId};
use fleet_sim::{NetboxFault, NewDevice, Sim};
use serde_json::json;

use crate::harness::{Looker, SecretFile, by_native, condition, quiet, secret_file, site};

/// An agent for these sites, sweeping every 15 minutes.
pub(crate) fn agent(sim: &Sim, sites: &[&str], token: &SecretFile) -> netbox::Agent {
    netbox::Agent::new(netbox::Settings {
        instance: "sim".into(),
        url: sim.netbox.url.clone(),
        token_file: token.path.clone(),
        sites: sites.iter().map(|s| site(s)).collect(),
        interval: Duration::from_secs(60),
        sweep_every: Duration::from_secs(900),
        window: Duration::from_secs(600),
        deadline: Duration::from_secs(30),
        slurm_link: SlurmLink::CustomField("slurm_node".into()),
    })
    .unwrap()
}

/// A quiet world of two sites, and an agent that has swept the named ones.
async fn swept(devices: u32, sites: &[&str]) -> (Sim, Looker<netbox::Agent>, SecretFile) {
    let sim = quiet(devices, 1.0).await;
    let token = secret_file(&sim.netbox.token);
    let mut looker = Looker::new(agent(&sim, sites, &token));
    let sweep = looker.look().await.unwrap();
    let expected = sim.world.devices().iter().filter(|d| sites.contains(&d.site.as_str())).count();
    assert_eq!((sweep.observations.len(), sweep.complete.len()), (expected, sites.len()));
    (sim, looker, token)
}

fn device(seen: &Seen) -> &NetboxDeviceSeen {
    match &seen.fact {
        Fact::NetboxDeviceSeen(seen) => seen,
        other => panic!("{other:?}"),
    }
}

fn gone(seen: &Seen) -> (i64, Option<&str>, &str) {
    match &seen.fact {
        Fact::NetboxDeviceGone(NetboxDeviceGone { netbox_id, deleted_by, noticed_by, .. }) => {
            (*netbox_id, deleted_by.as_deref(), noticed_by)
        }
        other => panic!("{other:?}"),
    }
}

/// `user field before→after`.
fn edits(seen: &Seen) -> Vec<String> {
    device(seen).edits.iter().map(|e| format!("{} {} {}→{}", e.user, e.field, e.before, e.after)).collect()
}

/// The next look that is a sweep, 15 minutes on.
async fn sweep(looker: &mut Looker<netbox::Agent>) -> Sweep {
    looker.now = looker.now.plus(900_000_000);
    looker.look().await.unwrap()
}

#[tokio::test]
async fn a_first_sweep_names_everything_and_the_next_look_nothing() {
    let (sim, mut looker, _token) = swept(100, &["sim1", "sim2"]).await;
    let first = sweep(&mut looker).await;
    let seen = by_native(&first);
    assert_eq!(seen.len(), 100);
    let real = sim.world.device(2).unwrap();
    let says = &device(&seen["2"]).inventory;
    assert_eq!(seen["2"].stream, StreamId::Device(DeviceId::from_netbox("sim", 2)));
    assert_eq!((says.name.as_deref(), says.serial.as_deref(), says.site.as_str()), (real.name.as_deref(), Some("SN0000001"), "sim2"));
    assert_eq!((says.role.as_str(), says.device_type.as_str(), says.tenant.as_deref()), ("gpu-node", "sys-821ge", Some("tenant-a")));
    assert_eq!((says.rack.as_deref(), says.position_tenths, says.face.as_deref()), (Some("sim2-r01"), Some(10), Some("front")));
    assert_eq!((says.slurm_node.as_deref(), says.slurm_node_from.as_deref()), (Some("gpu002"), Some("custom-field")));
    assert_eq!((says.tags.as_slice(), says.status.as_str()), (&["gpu".to_owned(), "managed".to_owned()][..], real.status.as_str()));
    assert_eq!(first.complete.iter().map(|c| (c.site.as_str(), c.count)).collect::<Vec<_>>(), [("sim1", 50), ("sim2", 50)]);
    // The oddities of a real inventory.
    let odd = |r#type: &str, value: &str| seen.values().filter(|s| condition(s, r#type) == value).count();
    assert_eq!((odd("InventoryMatched", "False NameMissing"), odd("InventoryMatched", "False SerialPlaceholder")), (2, 1));
    assert_eq!((odd("IdentityConflict", "True SerialShared"), odd("InventoryMatched", "True Complete")), (2, 97));
    let next = looker.look().await.unwrap();
    assert_eq!((next.observations.len(), next.complete.len(), next.failed), (0, 2, None));
    let last = sim.world.requests().last().unwrap().path.clone();
    assert!(last.starts_with("/api/core/object-changes/?changed_object_type=dcim.device&"), "a quiet look is one call: {last}");
    assert!(sim.world.requests().iter().all(|r| r.method == "GET" && !r.path.contains("config_context")));
}

#[tokio::test]
async fn what_people_do_is_seen_at_the_next_poll() {
    let (sim, mut looker, _token) = swept(60, &["sim1"]).await;
    sim.world.rename_device(3, Some("renamed"), "alice");
    sim.world.touch_device(5);
    sim.world.rename_device(2, Some("elsewhere"), "alice");
    let id = sim.world.add_device(NewDevice { name: Some("new01".into()), serial: "SN-NEW".into(), ..NewDevice::default() }, "bob");
    let seen = by_native(&looker.look().await.unwrap());
    assert_eq!(
        seen.keys().cloned().collect::<Vec<_>>(),
        ["3".to_owned(), id.to_string()],
        "an equal touch is nothing, other sites are not ours"
    );
    assert_eq!((device(&seen["3"]).inventory.name.as_deref(), edits(&seen["3"]).len()), (Some("renamed"), 0));
    assert!(looker.look().await.unwrap().observations.is_empty());
    sim.world.delete_device(3, "carol");
    sim.world.delete_device(4, "carol");
    let sweep = looker.look().await.unwrap();
    assert_eq!(sweep.observations.iter().map(gone).collect::<Vec<_>>(), [(3, Some("carol"), "change-feed")]);
    assert_eq!(sweep.complete[0].count, 30);
    // Made and deleted between two polls: never reported.
    let id = sim.world.add_device(NewDevice { name: Some("brief".into()), ..NewDevice::default() }, "bob");
    sim.world.delete_device(id, "bob");
    assert!(looker.look().await.unwrap().observations.is_empty());
}

#[tokio::test]
async fn edits_of_people_come_once_with_the_next_observation() {
    let (sim, mut looker, _token) = swept(40, &["sim1"]).await;
    sim.world.set_status(1, "failed", "alice");
    sim.world.set_status(1, "active", "bob");
    sim.world.set_custom_field(1, "fleet_phase", json!("Ready"), "carol");
    let sweep = looker.look().await.unwrap();
    let seen = by_native(&sweep);
    assert_eq!(edits(&seen["1"]), ["alice status active→failed", "bob status failed→active", "carol fleet_phase →Ready"]);
    assert_eq!(device(&seen["1"]).inventory.fleet_phase.as_deref(), Some("Ready"));
    assert!(device(&seen["1"]).edits.iter().all(|e| e.change_id > 0 && e.request_id.len() == 36 && e.at.0 > 0));
    let again = by_native(&self::sweep(&mut looker).await);
    assert!(again.values().all(|s| edits(s).is_empty()), "an edit is reported once");
    // Edits of before the first look are history, not news.
    let token = secret_file(&sim.netbox.token);
    let mut other = Looker::new(agent(&sim, &["sim1"], &token));
    assert!(by_native(&other.look().await.unwrap()).values().all(|s| edits(s).is_empty()));
    assert!(other.look().await.unwrap().observations.is_empty());
    // A select field is an object in the device and plain text in the change.
    sim.world.set_custom_field(3, "fleet_phase", json!({"value": "InService", "label": "In service"}), "alice");
    assert_eq!(device(&by_native(&looker.look().await.unwrap())["3"]).inventory.fleet_phase.as_deref(), Some("InService"));
}

#[tokio::test]
async fn a_long_transaction_loses_nothing() {
    let (sim, mut looker, _token) = swept(100, &["sim1", "sim2"]).await;
    let ids: Vec<u64> = (10..40).collect();
    let bulk = sim.world.begin_bulk(&ids, "inventory", "bob");
    sim.world.set_status(50, "failed", "alice");
    // The mark is past the ids and times that the bulk write was given.
    assert_eq!(by_native(&looker.look().await.unwrap()).into_keys().collect::<Vec<_>>(), ["50"]);
    assert!(looker.look().await.unwrap().observations.is_empty());
    bulk.commit();
    let seen = by_native(&looker.look().await.unwrap());
    assert_eq!(seen.len(), 30);
    let from = |s: &Seen| {
        edits(s).iter().all(|e| e.starts_with("bob status ") && e.ends_with("→inventory"))
            && edits(s).len() == 1
            && device(s).inventory.status == "inventory"
    };
    assert!(seen.values().all(from));
    assert!(looker.look().await.unwrap().observations.is_empty());
}

#[tokio::test]
async fn a_bulk_that_was_open_at_the_very_first_look_is_news_when_it_commits() {
    let sim = quiet(40, 1.0).await;
    let token = secret_file(&sim.netbox.token);
    let bulk = sim.world.begin_bulk(&[1, 3], "inventory", "bob");
    sim.world.rename_device(5, Some("later"), "alice");
    let mut looker = Looker::new(agent(&sim, &["sim1"], &token));
    looker.look().await.unwrap();
    bulk.commit();
    let seen = by_native(&looker.look().await.unwrap());
    assert_eq!(seen.keys().cloned().collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(edits(&seen["1"]).len(), 1);
}

#[tokio::test]
async fn so_many_dirty_devices_are_swept_and_a_mass_delete_is_confirmed_in_slices() {
    let (sim, mut looker, _token) = swept(1400, &["sim1"]).await;
    let before = sim.world.requests().len();
    sim.world.begin_bulk(&(0..600).map(|i| i * 2 + 1).collect::<Vec<_>>(), "inventory", "bob").commit();
    let sweep = looker.look().await.unwrap();
    assert_eq!((sweep.observations.len(), sweep.observations.iter().filter(|s| edits(s).len() == 1).count()), (700, 600));
    let lists = sim.world.requests()[before..].iter().filter(|r| r.path.starts_with("/api/dcim/devices/?site=")).count();
    assert_eq!(lists, 1);
    for id in 0..250 {
        sim.world.delete_device(id * 2 + 1, "carol");
    }
    let counts = [looker.look().await.unwrap(), looker.look().await.unwrap(), looker.look().await.unwrap()];
    let counts = counts.map(|s| (s.observations.len(), s.complete[0].count));
    assert_eq!(counts, [(200, 500), (50, 450), (0, 450)]);
}

#[tokio::test]
async fn a_move_is_reported_where_we_speak_and_passed_over_where_we_do_not() {
    let (sim, mut looker, _token) = swept(40, &["sim1", "sim2"]).await;
    sim.world.move_device(1, "sim2");
    let sweep = looker.look().await.unwrap();
    let seen = by_native(&sweep);
    assert_eq!((seen["1"].site.as_str(), device(&seen["1"]).inventory.site.as_str()), ("sim2", "sim2"));
    assert_eq!(sweep.complete.iter().map(|c| c.count).collect::<Vec<_>>(), [19, 21]);
    assert_eq!(seen["1"].stream, StreamId::Device(DeviceId::from_netbox("sim", 1)));
    // Out of an agent's sites, noticed by the feed or by a sweep: not gone, only not ours.
    let (sim, mut looker, _token) = swept(60, &["sim1"]).await;
    sim.world.move_device(1, "sim2");
    let sweep = looker.look().await.unwrap();
    assert_eq!((sweep.observations.len(), sweep.complete[0].count), (0, 29));
    sim.world.move_device(1, "sim1");
    assert_eq!(by_native(&looker.look().await.unwrap())["1"].site.as_str(), "sim1");
}

#[tokio::test]
async fn a_shared_serial_concerns_both_devices() {
    let (sim, mut looker, _token) = swept(40, &["sim1"]).await;
    let plain: Vec<u64> =
        sim.world.devices().iter().filter(|d| d.site == "sim1" && d.serial == format!("SN{:07}", d.id - 1)).map(|d| d.id).collect();
    let (a, b) = (plain[0], plain[1]);
    let other = sim.world.device(b).unwrap().serial;
    sim.world.edit_device(a, "alice", |d| d.serial = other);
    let seen = by_native(&looker.look().await.unwrap());
    for (one, another) in [(a, b), (b, a)] {
        assert_eq!(condition(&seen[&one.to_string()], "IdentityConflict"), "True SerialShared");
        assert!(crate::harness::conditions(&seen[&one.to_string()])[1].message.ends_with(&format!("device {another}")));
    }
    sim.world.delete_device(a, "alice");
    let sweep = looker.look().await.unwrap();
    let seen = by_native(&sweep);
    assert_eq!((seen.len(), condition(&seen[&b.to_string()], "IdentityConflict").as_str()), (2, "False SerialUnique"));
}

#[tokio::test]
async fn a_failed_look_says_nothing_and_the_next_one_catches_up() {
    use ErrorClass::{Malformed, Permanent, Transient};
    for (fault, class, look_fault, came) in [
        (NetboxFault::Forbidden, Permanent, LookFault::PermissionDenied, "403 You do not have permission"),
        (NetboxFault::Status(502), Transient, LookFault::NoData, "502 simulated fault"),
        (NetboxFault::TruncatedPage, Malformed, LookFault::NoData, "cannot be read"),
    ] {
        let (sim, mut looker, _token) = swept(60, &["sim1"]).await;
        sim.world.set_status(1, "failed", "alice");
        sim.world.netbox_fault(fault);
        let error = looker.look().await.unwrap_err();
        assert_eq!((error.class, error.fault), (class, look_fault), "{error}");
        assert!(error.came.contains(came) && error.asked.starts_with("GET /api/core/object-changes/?"), "{error}");
        sim.world.netbox_fault(NetboxFault::None);
        assert_eq!(edits(&by_native(&looker.look().await.unwrap())["1"]), ["alice status active→failed"]);
    }
    let (sim, mut looker, token) = swept(40, &["sim1"]).await;
    std::fs::write(&token.path, "nbt_WRONG.wrong").unwrap();
    let error = looker.look().await.unwrap_err();
    assert_eq!((error.fault, error.came.as_str()), (LookFault::PermissionDenied, "403 Invalid v2 token"));
    std::fs::write(&token.path, "0123456789abcdef0123456789abcdef01234567").unwrap();
    assert_eq!(looker.look().await.unwrap_err().came, "403 Invalid v1 token");
    sim.stop().await;
}

#[tokio::test]
async fn an_ignored_filter_is_noticed() {
    let (sim, mut looker, _token) = swept(60, &["sim1"]).await;
    sim.world.set_status(1, "failed", "alice");
    sim.world.netbox_fault(NetboxFault::IgnoreFilters);
    // Reading one device by id gives all of them; a sweep gives those of another site as well.
    for _ in 0..2 {
        let sweep = looker.look().await.unwrap();
        let failed = sweep.failed.unwrap();
        assert!(failed.class == ErrorClass::Malformed && failed.came.contains("outside the filter"), "{failed}");
        assert_eq!((sweep.observations.len(), sweep.complete.len()), (0, 0));
        looker.now = looker.now.plus(900_000_000);
    }
    sim.world.netbox_fault(NetboxFault::None);
    assert_eq!(edits(&by_native(&looker.look().await.unwrap())["1"]), ["alice status active→failed"]);
    let token = secret_file(&sim.netbox.token);
    sim.world.netbox_fault(NetboxFault::IgnoreFilters);
    Looker::new(agent(&sim, &["sim1"], &token)).look().await.unwrap_err();
}

#[tokio::test]
async fn an_empty_or_half_sweep_marks_nothing() {
    for fault in [NetboxFault::EmptyList, NetboxFault::HalfSweep] {
        let (sim, mut looker, _token) = swept(2200, &["sim1"]).await;
        sim.world.delete_device(1999, "carol");
        looker.now = looker.now.plus(900_000_000);
        sim.world.netbox_fault(fault);
        let sweep = looker.look().await.unwrap();
        let failed = sweep.failed.unwrap();
        let says = if fault == NetboxFault::EmptyList { "no device at all" } else { "500" };
        assert!(failed.came.contains(says) && failed.fault == LookFault::NoData, "{failed}");
        assert_eq!((sweep.observations.len(), sweep.complete.len()), (0, 0));
        sim.world.netbox_fault(NetboxFault::None);
        let sweep = looker.look().await.unwrap();
        assert_eq!((sweep.observations.len(), sweep.complete[0].count, sweep.failed), (1100, 1099, None));
        // The empty list hid the delete from the feed, too; it is in the window still.
        assert_eq!(
            sweep.observations.iter().filter(|s| matches!(s.fact, Fact::NetboxDeviceGone(_))).map(gone).collect::<Vec<_>>(),
            [(1999, Some("carol"), "change-feed")]
        );
    }
    // Nothing at all, the first time.
    let sim = quiet(60, 1.0).await;
    let token = secret_file(&sim.netbox.token);
    sim.world.netbox_fault(NetboxFault::EmptyList);
    let error = Looker::new(agent(&sim, &["sim1"], &token)).look().await.unwrap_err();
    assert!(error.came.contains("missing permission"), "{error}");
    // A few known ones, fewer than may be missing, hidden by an empty list: none is so much as asked for.
    let (sim, mut looker, _token) = swept(16, &["sim1"]).await;
    sim.world.netbox_fault(NetboxFault::EmptyList);
    looker.now = looker.now.plus(900_000_000);
    let looked = looker.look().await.unwrap();
    assert!(looked.failed.unwrap().came.contains("missing permission"));
    assert_eq!((looked.observations.len(), looked.complete.len()), (0, 0));
    sim.stop().await;
}

#[tokio::test]
async fn other_sites_bound_mean_a_sweep_and_nothing_gone() {
    let (sim, looker, token) = swept(60, &["sim1"]).await;
    let mut next = Looker { agent: agent(&sim, &["sim2"], &token), ..looker };
    let sweep = next.look().await.unwrap();
    assert_eq!((sweep.observations.iter().map(device).count(), sweep.complete[0].count), (30, 30));
    assert!(next.look().await.unwrap().observations.is_empty());
}

/// Neither a webhook nor the feed told of it: it lies further back than any poll reads.
#[tokio::test]
async fn a_delete_that_nobody_told_of_is_found_by_the_next_full_sweep() {
    let (sim, mut looker, _token) = swept(60, &["sim1"]).await;
    sim.world.delete_device(1, "carol");
    let mut missed = fleet_satellite::MemoryChanges::default();
    missed.put("sim/feed", &json!({"mark": looker.now.plus(3_600_000_000), "seen": []}));
    looker.memory.apply(&missed);
    assert!(looker.look().await.unwrap().observations.is_empty());
    let seen = by_native(&sweep(&mut looker).await);
    let all: Vec<_> = seen.values().filter(|s| matches!(s.fact, Fact::NetboxDeviceGone(_))).map(gone).collect();
    assert_eq!(all, [(1, None, "sweep")]);
}

#[tokio::test]
async fn a_restart_goes_on_from_memory() {
    let (sim, mut looker, token) = swept(60, &["sim1"]).await;
    sim.world.delete_device(1, "carol");
    sim.world.set_status(3, "failed", "alice");
    let mut next = Looker { memory: looker.memory.clone(), now: looker.now, ..Looker::new(agent(&sim, &["sim1"], &token)) };
    let seen = by_native(&next.look().await.unwrap());
    assert_eq!((seen.len(), gone(&seen["1"]), edits(&seen["3"]).len()), (2, (1, Some("carol"), "change-feed"), 1));
    // The other one never looked again until its window had passed by: only a sweep can tell, and it does not know by whom.
    let changes = "sim/feed";
    let mut old = fleet_satellite::MemoryChanges::default();
    old.put(changes, &json!({"mark": looker.now.plus(3_600_000_000), "seen": []}));
    looker.memory.apply(&old);
    assert!(looker.look().await.unwrap().observations.is_empty());
    let sweep = sweep(&mut looker).await;
    let seen = by_native(&sweep);
    assert_eq!((seen.len(), gone(&seen["1"])), (30, (1, None, "sweep")));
}

#[tokio::test]
async fn a_narrowed_right_marks_none_beyond_the_cap() {
    let (sim, mut looker, _token) = swept(200, &["sim1"]).await;
    let hidden: Vec<u64> = sim.world.devices().iter().filter(|d| d.site == "sim1" && d.id >= 100).map(|d| d.id).collect();
    // At once: the look fails, what is missing stays as it was, what can be read is reported, a delete is explained.
    sim.world.begin_bulk(&hidden, "inventory", "bob").commit();
    sim.world.set_status(1, "failed", "alice");
    sim.world.delete_device(3, "carol");
    sim.world.netbox_fault(NetboxFault::HiddenFrom(100));
    let sweep = looker.look().await.unwrap();
    let seen = by_native(&sweep);
    assert_eq!((seen.len(), edits(&seen["1"]).len(), gone(&seen["3"])), (2, 1, (3, Some("carol"), "change-feed")));
    let failed = sweep.failed.unwrap();
    assert!(failed.came.starts_with("50 of 100 known devices are missing, more than 10"), "{failed}");
    assert!(sweep.complete.is_empty());
    let again = looker.look().await.unwrap();
    assert_eq!((again.observations.len(), again.failed.is_some()), (0, true));
    // What they are when they can be seen again, with the edits that were due.
    sim.world.netbox_fault(NetboxFault::None);
    let sweep = looker.look().await.unwrap();
    assert!(sweep.observations.len() == 50 && sweep.observations.iter().all(|s| edits(s).len() == 1) && sweep.failed.is_none());
    // A few at each poll: all of them count until the next sweep, which counts for itself.
    sim.world.netbox_fault(NetboxFault::HiddenFrom(100));
    let mut marked = Vec::new();
    for few in hidden.chunks(4) {
        sim.world.begin_bulk(few, "active", "bob").commit();
        let sweep = looker.look().await.unwrap();
        marked.push(sweep.observations.iter().map(gone).count());
    }
    assert_eq!((marked[..3].to_vec(), marked[3..].iter().sum::<usize>()), (vec![4, 4, 0], 0));
    looker.now = looker.now.plus(900_000_000);
    let failed = looker.look().await.unwrap().failed.unwrap();
    assert!(failed.came.starts_with("42 of 91 known devices are missing, more than 10"), "{failed}");
}
