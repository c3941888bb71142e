//! Running agents: superseded, late, poked; and the whole way from the simulator to the hub.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fleet_satellite::{Agent, ClientError, DeviceList, ListedDevice, Look, Outbox, RunError, SendError, Settings, Sweep, SystemClock};
use fleet_schemas::{Fact, LookFault, SiteId, Source, StreamId};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::harness::{Hub, KEEP, Stage, boot, eventually, lanes, listed, quiet, secret_file, site, sweep};
use crate::{netbox, slurm};

#[tokio::test]
async fn a_superseded_agent_stops_and_what_it_queued_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::new(&folder.path().join("outbox"), Arc::default(), &["s1"]);
    stage.say(Ok(sweep(&[("s1/n1", "A"), ("s1/n2", "A")]))).await;
    *stage.hub.refuse.lock().unwrap() = Some(SendError::Superseded("epoch 7 is newer".into()));
    let drain = stage.drain();
    let stopped = (&mut stage.agent).await.unwrap().unwrap_err();
    assert!(matches!(&stopped, RunError::Superseded(why) if why == "epoch 7 is newer"), "{stopped}");
    assert_eq!(stage.outbox.waiting(Source::Slurm).unwrap(), 0);
    assert!(!drain.is_finished(), "other agents' lanes go on");
}

#[tokio::test]
async fn what_a_superseded_run_left_does_not_stop_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("outbox");
    let hub = Arc::<Hub>::default();
    let mut stage = Stage::new(&file, hub.clone(), &["s1"]);
    stage.say(Ok(sweep(&[("s1/n1", "A")]))).await;
    stage.stop().await;
    // Another satellite was at work in between: the hub refuses the old epoch once.
    *hub.refuse.lock().unwrap() = Some(SendError::Superseded("epoch 2 is newer".into()));
    let mut stage = Stage::new(&file, hub.clone(), &["s1"]);
    stage.drain();
    eventually("the old one is refused", || hub.refused.load(Ordering::SeqCst) == 1).await;
    *hub.refuse.lock().unwrap() = None;
    stage.say(Ok(sweep(&[("s1/n1", "B")]))).await;
    stage.sent().await;
    assert_eq!(hub.said(), ["n1 B"]);
    stage.stop().await;
}

/// Takes its time for the first look; counts looks.
struct Slow {
    sites: [SiteId; 1],
    looks: Arc<AtomicU64>,
}

impl Agent for Slow {
    const SOURCE: Source = Source::Netbox;
    fn sites(&self) -> &[SiteId] {
        &self.sites
    }
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
    async fn look(&mut self, _: Look<'_>) -> Result<Sweep, ClientError> {
        match self.looks.fetch_add(1, Ordering::SeqCst) {
            0 => std::future::pending().await,
            _ => Ok(Sweep::default()),
        }
    }
}

#[tokio::test]
async fn a_look_has_a_deadline_and_a_poke_brings_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = Arc::new(Outbox::open(&folder.path().join("outbox"), Duration::from_secs(900), KEEP).unwrap());
    let (hub, looks, poke, cancel) =
        (Arc::<Hub>::default(), Arc::<AtomicU64>::default(), Arc::new(Notify::new()), CancellationToken::new());
    let settings = Settings { look_deadline: Some(Duration::from_millis(20)), ..Settings::new(boot()) };
    let agent = Slow { sites: [site("s1")], looks: looks.clone() };
    tokio::spawn(fleet_satellite::run(agent, outbox.clone(), hub.clone(), Arc::new(SystemClock), settings, poke.clone(), cancel.clone()));
    tokio::spawn(fleet_satellite::drain(outbox, lanes(&hub), Arc::new(SystemClock), cancel.clone()));
    eventually("the failure", || hub.taken.lock().unwrap().len() == 1).await;
    let Fact::LookFailed(failed) = Fact::decode(&hub.taken.lock().unwrap()[0].fact).unwrap() else { panic!() };
    assert_eq!((failed.fault, failed.message.as_str()), (LookFault::NoData, "look at netbox: not complete within 0.02 s"));
    for n in 2..4 {
        poke.notify_one();
        eventually("a look", || looks.load(Ordering::SeqCst) == n).await;
    }
    cancel.cancel();
}

/// Keeps what each look was given.
struct Listing {
    sites: [SiteId; 1],
    looks: Arc<Mutex<Vec<DeviceList>>>,
}

impl Agent for Listing {
    const SOURCE: Source = Source::Slurm;
    const LINK: Option<fn(&ListedDevice) -> Option<&str>> = Some(|device| device.slurm_node.as_deref());
    fn sites(&self) -> &[SiteId] {
        &self.sites
    }
    fn interval(&self) -> Duration {
        Duration::from_secs(3600)
    }
    async fn look(&mut self, look: Look<'_>) -> Result<Sweep, ClientError> {
        self.looks.lock().unwrap().push(look.devices.clone());
        Ok(Sweep::default())
    }
}

#[tokio::test]
async fn devices_that_are_linked_after_a_look_are_looked_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let outbox = Arc::new(Outbox::open(&folder.path().join("outbox"), Duration::from_secs(900), KEEP).unwrap());
    let (hub, looks, cancel) = (Arc::<Hub>::default(), Arc::<Mutex<Vec<DeviceList>>>::default(), CancellationToken::new());
    let unlinked = ListedDevice { slurm_node: None, ..listed(1, "") };
    hub.devices.lock().unwrap().devices.push(unlinked.clone());
    let settings = Settings::new(boot());
    let agent = Listing { sites: [site("s1")], looks: looks.clone() };
    tokio::spawn(fleet_satellite::run(
        agent,
        outbox,
        hub.clone(),
        Arc::new(SystemClock),
        settings,
        Arc::new(Notify::new()),
        cancel.clone(),
    ));
    let given = || looks.lock().unwrap().iter().map(|list| list.devices.len()).collect::<Vec<_>>();
    // Read anew, and no reason to look: a device that is linked to nothing.
    hub.changed.notify_one();
    eventually("the list is read again", || hub.listed.load(Ordering::SeqCst) == 2).await;
    // An hour before the next look: a link, and another one.
    for (devices, expected) in [(vec![unlinked, listed(2, "gpu002")], vec![1, 2]), (vec![listed(2, "gpu007")], vec![1, 2, 1])] {
        *hub.devices.lock().unwrap() = DeviceList { devices };
        hub.changed.notify_one();
        eventually("a look", || given().len() == expected.len()).await;
        assert_eq!(given(), expected);
    }
    cancel.cancel();
}

#[tokio::test]
async fn from_the_simulator_to_the_hub() {
    let sim = quiet(60, 1.0).await;
    let folder = tempfile::tempdir().unwrap();
    let outbox = Arc::new(Outbox::open(&folder.path().join("outbox"), Duration::from_secs(900), KEEP).unwrap());
    let (hub, cancel) = (Arc::<Hub>::default(), CancellationToken::new());
    let linked = sim.world.devices().into_iter().filter(|d| d.site == "sim1");
    let linked = linked.filter_map(|d| Some(listed(d.id as i64, d.custom_fields.get("slurm_node")?.as_str()?)));
    let linked = linked.filter(|d| sim.world.slurm_node("sim1", d.slurm_node.as_deref().unwrap()).is_some());
    *hub.devices.lock().unwrap() = DeviceList { devices: linked.collect() };
    let linked = hub.devices.lock().unwrap().devices.len();
    let (jwt, token) = (secret_file(&sim.sites[0].slurm_jwt), secret_file(&sim.netbox.token));
    let poke = Arc::new(Notify::new());
    let run = |poke: Arc<Notify>| (outbox.clone(), hub.clone(), Arc::new(SystemClock), Settings::new(boot()), poke);
    let (o, h, c, s, p) = run(poke.clone());
    tokio::spawn(fleet_satellite::run(slurm::agent(&sim, 0, &jwt), o, h, c, s, p, cancel.clone()));
    let (o, h, c, s, p) = run(Arc::new(Notify::new()));
    tokio::spawn(fleet_satellite::run(netbox::agent(&sim, &["sim1", "sim2"], &token), o, h, c, s, p, cancel.clone()));
    tokio::spawn(fleet_satellite::drain(outbox.clone(), lanes(&hub), Arc::new(SystemClock), cancel.clone()));
    let ends = || hub.said().iter().filter(|s| *s == "SweepCompleted").count();
    eventually("three sweeps end", || ends() == 3).await;
    let said = hub.said();
    assert_eq!(said.iter().filter(|s| *s == "NetboxDeviceSeen").count(), 60);
    assert_eq!(said.iter().filter(|s| s.ends_with(" Listed")).count(), linked);
    let on_sites = hub.taken.lock().unwrap().iter().filter(|o| matches!(o.stream, StreamId::Site(_))).count();
    assert_eq!(said.len(), 60 + linked + on_sites);
    // A drain is one record more, of that node alone.
    let node = sim.world.slurm_nodes("sim1").into_iter().find(|n| n.plain()).unwrap().name;
    sim.world.drain("sim1", &node, "admin: memory test", "root");
    poke.notify_one();
    eventually("one more sweep", || ends() == 4).await;
    assert_eq!(hub.said()[said.len()..], [format!("{node} Listed"), "SweepCompleted".into()]);
    assert!(sim.world.requests().iter().all(|r| r.method == "GET"));
    cancel.cancel();
    sim.stop().await;
}
