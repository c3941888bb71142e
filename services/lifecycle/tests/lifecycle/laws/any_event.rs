//! The fold takes whatever stands in a journal: any events, in any order, also such as no decision of this build writes. Nothing that
//! looks at the state that comes of it panics either.

use super::config;
use crate::dsl::*;
use fleet_lifecycle::{Decider, Device, Entity, Fleet, Request, Wait, baseline, why};
use fleet_schemas::*;
use proptest::prelude::*;

fn word<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
    prop::sample::select(all)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![word(&["", "a", "moved", "drain", "unobservable-drain", "\u{0}\"$", "fleet:"]).prop_map(str::to_owned), "\\PC{0,12}"]
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![word(&[i64::MIN, -1, 0, 1, START.0, i64::MAX]).prop_map(Timestamp), (0..30 * DAY).prop_map(|span| START.plus(span))]
}

fn task() -> impl Strategy<Value = TaskId> {
    (0..3u128).prop_map(|id| TaskId(uuid::Uuid::from_u128(id)))
}

fn operation() -> impl Strategy<Value = OperationId> {
    (0..3u128).prop_map(|id| OperationId(uuid::Uuid::from_u128(id)))
}

fn seq() -> impl Strategy<Value = SourceSeq> {
    (0..3u64, prop_oneof![0..5u64, Just(u64::MAX >> 1)]).prop_map(|(epoch, counter)| SourceSeq { epoch, counter })
}

fn site() -> impl Strategy<Value = SiteId> {
    word(&["lhr1", "ams1", "fra1"]).prop_map(at)
}

fn phases() -> impl Strategy<Value = DeviceEvent> {
    let whereto = (prop::option::of(word(Phase::ALL)), word(Phase::ALL), text(), prop::option::of(word(Stage::ALL)));
    let why = (prop::option::of(text()), prop::option::of(word(Then::ALL)), prop::option::of(time()));
    prop_oneof![
        6 => (whereto, why).prop_map(|((from, to, edge, stage), (cause, then, until))| {
            PhaseChanged { from, to, edge, stage, cause, then, until, guards: vec![], reason: String::new() }.into()
        }),
        1 => (word(Then::ALL), prop::option::of(text())).prop_map(|(then, cause)| DrainRedirected { then, cause }.into()),
        1 => Just(DrainProven { guards: vec![] }.into()),
        1 => Just(DrainUnproven { seen: "IDLE".into() }.into()),
        1 => word(Stage::ALL).prop_map(|stage| StageSkipped { stage, reason: String::new() }.into()),
    ]
}

fn seen() -> impl Strategy<Value = DeviceEvent> {
    let types = prop_oneof![
        word(&["SlurmDrained", "SlurmDrainForeign", "SlurmMember", "Moved", "NetboxLifecycleDrift"]).prop_map(str::to_owned),
        text()
    ];
    let source = word(&["slurm", "netbox", "hub", "", "ironic"]).prop_map(str::to_owned);
    let report = (types, text(), word(Status::ALL), prop::collection::vec(word(Effect::ALL), 0..3));
    let node = (word(&["", "IDLE", "DRAIN", "IDLE+DRAIN"]), prop::option::of(text()), -1..3i64);
    prop_oneof![
        (site(), text(), word(&["gpu", "cpu", "storage", ""]), prop::option::of(text()), seq()).prop_map(
            |(site, status, role, node, source_seq)| {
                let inventory = Inventory { site, status, role: role.into(), slurm_node: node, ..inventory() };
                InventoryChanged { inventory, changed: vec![], source_seq }.into()
            }
        ),
        (site(), site()).prop_map(|(from, to)| DeviceMoved { from, to }.into()),
        (report, source, site(), prop::option::of(seq()), time(), any::<bool>()).prop_map(
            |(report, source, site, source_seq, at, live)| {
                let (r#type, subject, status, effects) = report;
                let report = ConditionReport { r#type, subject, status, reason: String::new(), message: String::new() };
                let (severity, confirmed_live) = (Severity::Info, live);
                let (observed_at, last_transition_at) = (at, at);
                ConditionChanged { report, severity, effects, source, site, source_seq, observed_at, last_transition_at, confirmed_live }
                    .into()
            }
        ),
        (prop::option::of(node), seq()).prop_map(|(node, source_seq)| {
            let section = node.map(|(state, reason, alloc_cpus)| section(state, reason, alloc_cpus));
            SchedulerChanged { section, source_seq }.into()
        }),
        (any::<i64>(), text(), text()).prop_map(|(change_id, verb, result)| {
            EditJudged { change_id, user: String::new(), edit: String::new(), verb, result }.into()
        }),
        text().prop_map(|status| DriftAccepted { by: String::new(), status }.into()),
    ]
}

fn section(state: &str, reason: Option<String>, alloc_cpus: i64) -> SchedulerSection {
    SchedulerSection {
        slurm_node: String::new(),
        state: state.split('+').map(str::to_owned).collect(),
        reservation: reason.clone(),
        slurmd_start_time: None,
        cpus: i64::MIN,
        alloc_cpus,
        partitions: vec![],
        features: vec![],
        gres: None,
        reason,
        reason_user: None,
        reason_since: Some(Timestamp(i64::MIN)),
        drain_since: None,
    }
}

fn name() -> impl Strategy<Value = ExclusiveName> {
    (word(ExclusiveKind::ALL), word(&["sn0000007", "lhr1/gpu01", ""])).prop_map(|(kind, v)| ExclusiveName { kind, value: v.into() })
}

fn names() -> impl Strategy<Value = Vec<ExclusiveName>> {
    prop::collection::vec(name(), 0..3)
}

fn other() -> impl Strategy<Value = DeviceId> {
    (0..3u128).prop_map(|id| DeviceId(uuid::Uuid::from_u128(id)))
}

fn running() -> impl Strategy<Value = DeviceEvent> {
    let wait = (word(WaitKind::ALL), text(), time(), time(), time());
    prop_oneof![
        (text(), prop::option::of(time())).prop_map(|(name, expires_at)| HoldPlaced {
            name,
            by: String::new(),
            reason: String::new(),
            expires_at
        }
        .into()),
        text().prop_map(|name| HoldLifted { name, by: String::new() }.into()),
        (operation(), text(), prop::option::of(time())).prop_map(|(operation, verb, deadline)| {
            OperationStarted { operation, verb, by: String::new(), reason: String::new(), deadline }.into()
        }),
        (operation(), word(OperationState::ALL))
            .prop_map(|(operation, state)| OperationEnded { operation, state, message: String::new() }.into()),
        (task(), word(TaskKind::ALL), text()).prop_map(|(task, kind, mark)| TaskPlanned {
            task,
            kind,
            target: mark.clone(),
            mark,
            why: String::new()
        }
        .into()),
        task().prop_map(|task| TaskDone { task, seen: String::new() }.into()),
        task().prop_map(|task| TaskWithdrawn { task, why: String::new() }.into()),
        text().prop_map(|name| AttentionRaised { name, why: String::new(), ways_out: vec![] }.into()),
        text().prop_map(|name| AttentionCleared { name }.into()),
        text().prop_map(|name| AttentionAcknowledged { name, by: String::new(), reason: String::new() }.into()),
        wait.prop_map(|(wait, name, since, due, judge_at)| WaitArmed { wait, name, since, due, judge_at }.into()),
        (names(), names()).prop_map(|(take, give_back)| ClaimsChanged { take, give_back }.into()),
        (name(), any::<bool>(), prop::option::of(other())).prop_map(|(name, held, other)| GrantChanged { name, held, other }.into()),
        (word(WaitKind::ALL), word(Source::ALL)).prop_map(|(wait, source)| DeadlineUnobservable { wait, source }.into()),
    ]
}

fn event() -> impl Strategy<Value = DeviceEvent> {
    prop_oneof![phases(), seen(), running()]
}

/// Everything that looks at a state.
fn look_at(entity: &Entity, now: Timestamp) {
    let mut run = Run::new(StreamId::Device(device_id()), reference(), now);
    run.entity = entity.clone();
    let device = entity.device().unwrap();
    for verb in verbs::TABLE {
        let request = Request { ask: verbs::plain(verb.name).unwrap(), expected_version: None };
        run.looking("alice", |ctx| Fleet::decide(entity, &request, ctx).is_ok());
    }
    for (kind, name) in device.waits.keys() {
        run.looking("system:decider", |ctx| Fleet::expire(entity, &Wait { kind: *kind, name: name.clone() }, ctx).is_empty());
    }
    for look in [netbox(), gone(), slurm("IDLE+DRAIN").own(), unreadable()] {
        let sighting = look.sighting(&mut run);
        run.looking("agent", |ctx| Fleet::observe(entity, &sighting, ctx).events.is_empty());
    }
    run.looking("system:decider", |ctx| Fleet::plan(entity, ctx).is_empty());
    let told = (Fleet::next_wait(entity), why::waits(device, &run.reference), baseline::propose(device, &run.reference), device.name());
    assert!(!format!("{told:?}").is_empty());
    assert_eq!(why::verdicts(device, 1, &run.reference, now).len(), verbs::TABLE.iter().filter(|v| v.built).count());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_that_stands_in_a_journal_breaks_a_device(events in prop::collection::vec((event(), time()), 0..25), now in time()) {
        let mut entity = Fleet::new(&StreamId::Device(device_id()));
        for (event, at) in events {
            let event = Event::Device(event);
            prop_assert_eq!(&Event::decode(&StreamId::Device(device_id()), &event.encode()).unwrap(), &event);
            Fleet::evolve(&mut entity, &event, at);
        }
        look_at(&entity, now);
        let stored = postcard::to_stdvec(entity.device().unwrap().as_ref()).unwrap();
        prop_assert_eq!(&Entity::Device(postcard::from_bytes::<Device>(&stored).unwrap().into()), &entity);
        Fleet::evolve(&mut entity, &Event::Site(SiteRegistered { sources: vec![] }.into()), now);
    }
}
