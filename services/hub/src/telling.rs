//! Decisions in words: people's reading of the history.

use fleet_schemas::{
    BootstrapConfigEvent, Decision, DeviceEvent, Event, ExclusiveEvent, ExclusiveName, OutcomeKind, SiteEvent, UnclaimedEvent,
};

/// What a decision says, one line per thing, in order.
pub(crate) fn tell(decision: &Decision) -> Vec<String> {
    let mut lines: Vec<String> = decision
        .events
        .iter()
        .map(|payload| match Event::decode(&decision.stream, payload) {
            Ok(Event::Device(event)) => device(&event),
            Ok(Event::Site(event)) => site(&event),
            Ok(Event::BootstrapConfig(event)) => config(&event),
            Ok(Event::Exclusive(event)) => exclusive(&event),
            Ok(Event::Unclaimed(UnclaimedEvent::UnclaimedOpened(e))) => format!("no device claims it: {}", e.detail),
            Ok(Event::Unclaimed(UnclaimedEvent::UnclaimedClosed(_))) => "claimed, or gone".into(),
            Err(e) => format!("{} ({e})", payload.r#type),
        })
        .collect();
    let o = &decision.outcome;
    match o.kind {
        OutcomeKind::Rejected => lines.push(format!("refused: {} ({}: expected {}, seen {})", o.code, o.guard, o.expected, o.seen)),
        OutcomeKind::Noted if !o.code.is_empty() => lines.push(format!("noted: {} {}", o.code, o.seen).trim_end().to_owned()),
        OutcomeKind::Noted | OutcomeKind::Accepted => {}
    }
    lines
}

fn device(event: &DeviceEvent) -> String {
    match event {
        DeviceEvent::InventoryChanged(e) if e.changed.is_empty() => format!("first seen in NetBox as {}", e.inventory.display),
        DeviceEvent::InventoryChanged(e) => format!("NetBox record changed: {}", e.changed.join(", ")),
        DeviceEvent::DeviceMoved(e) => format!("moved from {} to {}", e.from, e.to),
        DeviceEvent::PhaseChanged(e) => {
            let because = if e.reason.is_empty() { String::new() } else { format!(": {}", e.reason) };
            let cause = e.cause.as_ref().map_or_else(String::new, |c| format!(" ({c})"));
            let then = e.then.map_or_else(String::new, |t| format!(", then {t}"));
            format!("{} -> {}{then}{cause}{because}", e.from.map_or("no phase", |p| p.as_str()), e.to)
        }
        DeviceEvent::DrainRedirected(e) => format!("the drain leads to {} now", e.then),
        DeviceEvent::DrainProven(_) => "no work runs: the drain is proven".into(),
        DeviceEvent::DrainUnproven(e) => format!("the drain is proven no more: {}", e.seen),
        DeviceEvent::StageSkipped(e) => format!("{} passed through untested: {}", e.stage, e.reason),
        DeviceEvent::ConditionChanged(e) => {
            let message = if e.report.message.is_empty() { String::new() } else { format!(": {}", e.report.message) };
            format!("{} {} ({}){message}", e.report.r#type, e.report.status, e.report.reason)
        }
        DeviceEvent::SchedulerChanged(e) => match &e.section {
            Some(s) => format!("SLURM: {}, {} of {} CPUs allocated", s.state.join("+"), s.alloc_cpus, s.cpus),
            None => "SLURM has no such node".into(),
        },
        DeviceEvent::HoldPlaced(e) => format!("hold `{}` by {}: {}", e.name, e.by, e.reason),
        DeviceEvent::HoldLifted(e) => format!("hold `{}` lifted by {}", e.name, e.by),
        DeviceEvent::OperationStarted(e) => format!("{} began, asked for by {}: {}", e.verb, e.by, e.reason),
        DeviceEvent::OperationEnded(e) => format!("operation {}: {}", e.state, e.message),
        DeviceEvent::TaskPlanned(e) => format!("planned: {} of {} with \"{}\"", e.kind, e.target, e.mark),
        DeviceEvent::TaskDone(e) => format!("plan seen done: {}", e.seen),
        DeviceEvent::TaskWithdrawn(e) => format!("plan withdrawn: {}", e.why),
        DeviceEvent::AttentionRaised(e) => format!("needs attention: {}", e.why),
        DeviceEvent::AttentionCleared(e) => format!("attention cleared: {}", e.name),
        DeviceEvent::AttentionAcknowledged(e) => format!("attention acknowledged by {}: {}: {}", e.by, e.name, e.reason),
        DeviceEvent::WaitArmed(e) => format!("waits ({}) until {}", e.wait, e.due),
        DeviceEvent::DeadlineUnobservable(e) => format!("the deadline of {} cannot be judged: {} is not fresh", e.wait, e.source),
        DeviceEvent::DriftAccepted(e) => format!("NetBox status {} accepted by {}", e.status, e.by),
        DeviceEvent::AnnotationsChanged(e) => {
            format!("annotated: {}", e.annotations.iter().map(|a| a.key.as_str()).collect::<Vec<_>>().join(", "))
        }
        DeviceEvent::ClaimsChanged(e) => {
            let names = |list: &[ExclusiveName]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            match (names(&e.take), names(&e.give_back)) {
                (take, back) if back.is_empty() => format!("claims {take}"),
                (take, back) if take.is_empty() => format!("gives back {back}"),
                (take, back) => format!("claims {take}, gives back {back}"),
            }
        }
        DeviceEvent::GrantChanged(e) => match (e.held, e.other) {
            (true, None) => format!("{} is its own", e.name),
            (true, Some(other)) => format!("{} is its own, and device {other} claims it as well", e.name),
            (false, Some(other)) => format!("{} is held by device {other}", e.name),
            (false, None) => format!("{} is not granted", e.name),
        },
        DeviceEvent::EditJudged(e) => format!("{} set {} in NetBox: {}", e.user, e.edit, e.result),
    }
}

fn exclusive(event: &ExclusiveEvent) -> String {
    match event {
        ExclusiveEvent::Granted(e) => format!("granted to device {}", e.to),
        ExclusiveEvent::Contested(e) => format!("device {} waits for it, device {} holds it", e.by, e.holder),
        ExclusiveEvent::GivenBack(e) => format!("given back by device {}", e.device),
    }
}

fn site(event: &SiteEvent) -> String {
    match event {
        SiteEvent::SiteRegistered(e) => format!("registered with {} sources", e.sources.len()),
        SiteEvent::RoleProfileSet(e) => format!("role {} got a profile", e.role),
        SiteEvent::EpochGranted(e) => format!("{} got epoch {}", e.source, e.epoch),
        SiteEvent::FreshnessChanged(e) if e.fresh => format!("{} is fresh", e.source),
        SiteEvent::FreshnessChanged(e) => format!("{} is stale: {}", e.source, e.message),
        SiteEvent::TeamsSet(e) => {
            let team = |t: &Option<String>| t.clone().unwrap_or_else(|| "nobody".into());
            let sources = e.sources.iter().map(|t| format!("{} by {}", t.source, team(&t.team)));
            let all: Vec<_> = sources.chain(e.roles.iter().map(|t| format!("role {} by {}", t.role, team(&t.team)))).collect();
            format!("answered for: {}", all.join(", "))
        }
        SiteEvent::FreezePlaced(e) => format!("freeze `{}` by {}: {}", e.name, e.by, e.reason),
        SiteEvent::FreezeLifted(e) => format!("freeze `{}` lifted by {}", e.name, e.by),
        SiteEvent::TypeRegistered(e) => format!("type {} registered: {}", e.definition.name, e.definition.about),
        SiteEvent::LooksFailing(e) => match e.fault {
            Some(fault) => format!("looks at {} fail ({fault}): {}", e.source, e.message),
            None => format!("looks at {} work again", e.source),
        },
    }
}

fn config(event: &BootstrapConfigEvent) -> String {
    match event {
        BootstrapConfigEvent::BootstrapConfigCreated(e) => format!("created as version {} by {}", e.version, e.by),
        BootstrapConfigEvent::BootstrapConfigChanged(e) => format!("version {} by {}: {} changed", e.version, e.by, e.changed.join(", ")),
        BootstrapConfigEvent::BootstrapConfigRetired(e) => format!("retired as version {} by {}", e.version, e.by),
    }
}
