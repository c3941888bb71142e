//! Names that only one device may have: at their own stream, and at the devices that claim them.

use crate::dsl::*;
use fleet_lifecycle::{Decider, Fleet, Reaction};
use fleet_schemas::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn device(n: u128) -> DeviceId {
    DeviceId(uuid::Uuid::from_u128(n))
}

fn take(n: u128) -> Ask {
    Take { device: device(n) }.into()
}

fn give_back(n: u128) -> Ask {
    GiveBack { device: device(n) }.into()
}

fn serial() -> ExclusiveName {
    ExclusiveName::serial("SN0000007").unwrap()
}

fn node() -> ExclusiveName {
    ExclusiveName::slurm(&at("lhr1"), "gpu01").unwrap()
}

fn granted(name: ExclusiveName) -> Notice {
    ExclusiveGranted { name }.into()
}

fn contested(name: ExclusiveName, other: u128, held: bool) -> Notice {
    ExclusiveContested { name, other: device(other), held }.into()
}

#[test]
fn the_first_who_takes_it_holds_it_and_the_others_wait_in_order() {
    given_serial([]).when(take(1)).then(["granted to 1"]);
    given_serial([asked(take(1))]).when(take(2)).then(["2 waits for 1 at 1"]);
    given_serial([asked(take(1)), asked(take(2))]).when(take(3)).then(["3 waits for 1 at 2"]);
}

#[test]
fn a_repeat_changes_nothing() {
    given_serial([asked(take(1))]).when(take(1)).then_nothing();
    given_serial([asked(take(1)), asked(take(2))]).when(take(2)).then_nothing();
    given_serial([]).when(give_back(1)).then_nothing();
    given_serial([asked(take(1)), asked(give_back(1))]).when(give_back(1)).then_nothing();
}

#[test]
fn given_back_it_goes_to_who_waits_longest_and_the_others_are_told_whom_they_wait_for() {
    given_serial([asked(take(1))]).when(give_back(1)).then(["given back by 1"]);
    given_serial([asked(take(1)), asked(take(2))]).when(give_back(1)).then(["given back by 1", "granted to 2"]);
    given_serial([asked(take(1)), asked(take(2)), asked(take(3)), asked(take(4))]).when(give_back(1)).then([
        "given back by 1",
        "granted to 2",
        "3 waits for 2 at 1",
        "4 waits for 2 at 2",
    ]);
}

/// A vendor's one serial in many machines: everybody who waits knows for whom, up to the limit.
#[test]
fn however_many_wait_they_are_told_of_a_new_holder_up_to_a_limit() {
    let most = fleet_lifecycle::exclusive::TOLD;
    let asks: Vec<Ask> = (0..most as u128 + 10).map(take).chain([give_back(0)]).collect();
    let (holder, waiting, told) = told(&asks);
    assert_eq!((holder, waiting.len()), (Some(device(1)), most + 8));
    let knows = waiting.iter().filter(|id| told[id] == (false, holder)).count();
    assert_eq!(knows, most);
    assert!(knows > 100, "a rack of them is told at once");
}

#[test]
fn who_waits_may_give_it_back_as_well() {
    let two = || [asked(take(1)), asked(take(2))];
    given_serial(two()).when(give_back(2)).then(["given back by 2", "granted to 1"]);
    let three = || [asked(take(1)), asked(take(2)), asked(take(3))];
    given_serial(three()).when(give_back(2)).then(["given back by 2", "3 waits for 1 at 1"]);
    given_serial(three()).when(give_back(3)).then(["given back by 3"]);
}

#[test]
fn nothing_else_is_asked_of_a_name_and_nobody_asks_a_device_for_it() {
    given_serial([]).when(drain()).then_refused("wrong-stream");
    given([discovered()]).when(take(1)).then_refused("wrong-stream");
    given_site([]).when(take(1)).then_refused("wrong-stream");
}

/// What each device was told last: whether it holds the name, and who else claims it.
type Told = BTreeMap<DeviceId, (bool, Option<DeviceId>)>;

/// Holder and who waits at the end of a history, and what its reactions told.
fn told(asks: &[Ask]) -> (Option<DeviceId>, Vec<DeviceId>, Told) {
    let mut story = given_serial([]);
    for ask in asks {
        story = story.when(ask.clone());
    }
    let mut told = BTreeMap::new();
    for event in story.run.log.iter().flat_map(|(_, events)| events) {
        for reaction in Fleet::react(&story.run.stream, event) {
            let Reaction::Tell(StreamId::Device(id), notice) = reaction else { panic!("{reaction:?}") };
            let says = match notice {
                Notice::ExclusiveGranted(_) => (true, None),
                Notice::ExclusiveContested(n) => (n.held, Some(n.other)),
            };
            told.insert(id, says);
        }
    }
    let name = story.run.entity.exclusive().unwrap();
    (name.holder, name.waiting.clone(), told)
}

proptest! {
    /// In whatever order it comes, and repeated: one holder, and each who claims it was told last how things stand.
    #[test]
    fn one_holds_it_and_everybody_knows(steps in prop::collection::vec((0..5u128, any::<bool>(), any::<bool>()), 0..40)) {
        let asks: Vec<Ask> = steps.iter().flat_map(|(n, takes, twice)| {
            let ask = if *takes { take(*n) } else { give_back(*n) };
            std::iter::repeat_n(ask, 1 + usize::from(*twice))
        }).collect();
        let (holder, waiting, told) = told(&asks);
        let mut claims = std::collections::BTreeSet::new();
        for (n, takes, _) in &steps {
            if *takes { claims.insert(device(*n)); } else { claims.remove(&device(*n)); }
        }
        let held: std::collections::BTreeSet<_> = holder.into_iter().chain(waiting.iter().copied()).collect();
        prop_assert_eq!(&held, &claims, "who claims it holds it or waits");
        prop_assert_eq!(holder.is_some(), !claims.is_empty());
        for id in waiting.iter() {
            prop_assert_eq!(told[id], (false, holder), "who waits knows for whom");
        }
        if let Some(holder) = holder {
            prop_assert_eq!(told[&holder], (true, waiting.first().copied()), "the holder knows the first who waits");
        }
    }
}

#[test]
fn a_device_takes_its_serial_and_its_node_and_gives_back_what_it_has_no_more() {
    let first = given_contended([]).seen(netbox());
    assert!(first.in_words().contains(&"claims +serial/sn0000007 +slurm-name/lhr1/gpu01".to_owned()), "{:?}", first.in_words());
    given_contended([seen(netbox())])
        .seen(netbox().with(|i| i.serial = Some("SN8".into())))
        .then(["inventory: serial"])
        .and_plans(["claims -serial/sn0000007 +serial/sn8"]);
    given_contended([seen(netbox())])
        .seen(netbox().with(|i| i.serial = Some("n/a".into())))
        .then(["inventory: serial"])
        .and_plans(["claims -serial/sn0000007"]);
    given_contended([seen(netbox())]).seen(netbox().with(|i| i.serial = Some(" sn0000007".into()))).and_plans([]);
    given_contended([seen(netbox())]).seen(netbox().node("gpu02")).and_plans(["claims -slurm-name/lhr1/gpu01 +slurm-name/lhr1/gpu02"]);
    given_contended([seen(netbox())]).seen(netbox().site("ams1").by("ams1")).stands_claiming(["serial/sn0000007", "slurm-name/ams1/gpu01"]);
    given_contended([seen(netbox())]).seen(gone()).and_plans(["claims -serial/sn0000007 -slurm-name/lhr1/gpu01"]);
    given_contended([seen(netbox()), seen(gone())]).seen(netbox()).stands_claiming(["serial/sn0000007", "slurm-name/lhr1/gpu01"]);
}

#[test]
fn what_a_device_claims_is_asked_at_the_streams_of_the_names() {
    let event = Event::Device(ClaimsChanged { take: vec![serial()], give_back: vec![node()] }.into());
    let drawn = Fleet::react(&StreamId::Device(device(1)), &event);
    let (given, taken) = (Reaction::Ask(node().stream(), give_back(1)), Reaction::Ask(serial().stream(), take(1)));
    assert_eq!(drawn, [given, taken]);
}

#[test]
fn a_contested_name_is_a_conflict_on_both_sides_and_heals() {
    let holder = given_contended([seen(netbox())]).hears(granted(serial())).then(["serial/sn0000007 held"]).and_plans([]);
    let holder = holder
        .hears(contested(serial(), 9, true))
        .then(["serial/sn0000007 held, contested by 9"])
        .and_plans(["IdentityConflict[serial/sn0000007]=True Contested"]);
    holder
        .hears(contested(serial(), 9, true))
        .then_nothing()
        .hears(granted(serial()))
        .then(["serial/sn0000007 held"])
        .and_plans(["IdentityConflict[serial/sn0000007]=False Unique"]);
    let waits = given_contended([seen(netbox())])
        .hears(contested(node(), 9, false))
        .then(["slurm-name/lhr1/gpu01 not held, contested by 9"])
        .and_plans(["IdentityConflict[slurm-name/lhr1/gpu01]=True HeldByAnother"]);
    waits
        .says_of_itself("IdentityConflict", "False SerialUnique")
        .seen(netbox().node("gpu02"))
        .and_plans(["claims -slurm-name/lhr1/gpu01 +slurm-name/lhr1/gpu02", "IdentityConflict[slurm-name/lhr1/gpu01]=False GivenBack"]);
}

#[test]
fn a_notice_of_a_name_that_was_given_back_has_no_effect() {
    given_contended([seen(netbox()), seen(netbox().node("gpu02"))]).hears(granted(node())).then_noted("not-claimed");
}

#[test]
fn into_service_needs_every_name_it_claims() {
    let ready = || given_contended([discovered(), put(Phase::Ready, None), seen(slurm("IDLE"))]);
    ready().when(Activate {}).then_refused("no-grant").because(
        "serial sn0000007 for itself alone",
        "it was asked for, and not granted yet",
        "try again in some seconds",
    );
    let one = || ready().hears(granted(serial()));
    one().when(Activate {}).then_refused("no-grant");
    one().hears(granted(node())).when(Activate {}).then_accepted().stands_in(Phase::InService);
    // Who waits shows the conflict, whose effect forbids the edge before the grant is asked for.
    one().hears(contested(node(), 9, false)).when(Activate {}).then_refused("effect-forbids");
    one().hears(contested(node(), 9, false)).when(drain()).then_refused("phase-forbids");
}

#[test]
fn netbox_does_not_speak_for_a_name() {
    for subject in ["serial/sn0000007", "slurm-name/lhr1/gpu01"] {
        let report = ConditionReport { subject: subject.into(), ..says("IdentityConflict", "True", "SerialShared") };
        given([seen(netbox())]).seen(netbox().says(report)).then_nothing();
    }
}
