//! Events in words: one line each, times relative to the decision, ids left out.

use fleet_schemas::{
    BootstrapConfigEvent, ConditionChanged, DAY, DeviceEvent, DeviceId, Event, ExclusiveEvent, ExclusiveName, HOUR, MINUTE, Micros,
    PhaseChanged, SECOND, SchedulerSection, SiteEvent, TaskId, TaskKind, Timestamp, UnclaimedEvent,
};
use std::collections::BTreeMap;

/// What is needed to tell.
pub struct Teller {
    pub at: Timestamp,
    /// Kinds of the tasks that were ever planned.
    pub tasks: BTreeMap<TaskId, TaskKind>,
}

/// A span as people write it, with its sign.
pub fn span(span: Micros) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")];
    let (unit, name) = units.into_iter().find(|(unit, _)| span % unit == 0).unwrap_or((1, "us"));
    if span == 0 { "+0s".into() } else { format!("{:+}{name}", span / unit) }
}

fn also(word: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |v| format!(", {word} {}", v.to_string()))
}

impl Teller {
    pub fn tell(&self, event: &Event) -> String {
        match event {
            Event::Device(event) => self.device(event),
            Event::Site(event) => self.site(event),
            Event::BootstrapConfig(event) => config(event),
            Event::Exclusive(event) => exclusive(event),
            Event::Unclaimed(UnclaimedEvent::UnclaimedOpened(e)) => format!("unclaimed: {}", e.detail),
            Event::Unclaimed(UnclaimedEvent::UnclaimedClosed(_)) => "closed".into(),
        }
    }

    fn when(&self, at: Timestamp) -> String {
        span(at.since(self.at))
    }

    fn device(&self, event: &DeviceEvent) -> String {
        match event {
            DeviceEvent::InventoryChanged(e) if e.changed.is_empty() => "inventory".into(),
            DeviceEvent::InventoryChanged(e) => format!("inventory: {}", e.changed.join(", ")),
            DeviceEvent::DeviceMoved(e) => format!("moved {} -> {}", e.from, e.to),
            DeviceEvent::PhaseChanged(e) => self.phase(e),
            DeviceEvent::DrainRedirected(e) => format!("drain now leads to {}{}", e.then, also("cause", e.cause.as_ref())),
            DeviceEvent::DrainProven(_) => "drain proven".into(),
            DeviceEvent::DrainUnproven(_) => "drain proven no more".into(),
            DeviceEvent::StageSkipped(e) => format!("skipped {}: {}", e.stage, e.reason),
            DeviceEvent::ConditionChanged(e) => condition(e),
            DeviceEvent::SchedulerChanged(e) => format!("scheduler {}", e.section.as_ref().map_or("none".into(), section)),
            DeviceEvent::HoldPlaced(e) => format!("hold {} by {}{}", e.name, e.by, also("until", e.expires_at.map(|t| self.when(t)))),
            DeviceEvent::HoldLifted(e) => format!("hold {} lifted by {}", e.name, e.by),
            DeviceEvent::OperationStarted(e) => {
                format!("operation {} of {}{}", e.verb, e.by, also("until", e.deadline.map(|t| self.when(t))))
            }
            DeviceEvent::OperationEnded(e) => format!("operation {}: {}", e.state, e.message),
            DeviceEvent::TaskPlanned(e) => {
                let mark = e.mark.replace(&e.task.to_string(), "<task>");
                let mark = self.tasks.keys().fold(mark, |m, id| m.replace(&id.to_string(), "<drain>"));
                format!("planned {} of {} \"{mark}\" for {}", e.kind, e.target, e.why)
            }
            DeviceEvent::TaskDone(e) => format!("done {}: {}", self.kind(e.task), e.seen),
            DeviceEvent::TaskWithdrawn(e) => format!("withdrawn {}: {}", self.kind(e.task), e.why),
            DeviceEvent::AttentionRaised(e) => format!("attention {}: {} ({})", e.name, e.why, e.ways_out.join(", ")),
            DeviceEvent::AttentionCleared(e) => format!("attention {} cleared", e.name),
            DeviceEvent::WaitArmed(e) if e.name.is_empty() => format!("wait {} {}", e.wait, self.when(e.due)),
            DeviceEvent::WaitArmed(e) => format!("wait {} {} {}", e.wait, e.name, self.when(e.due)),
            DeviceEvent::DeadlineUnobservable(e) => format!("unobservable {}: {}", e.wait, e.source),
            DeviceEvent::DriftAccepted(e) => format!("drift accepted by {}: {}", e.by, e.status),
            DeviceEvent::AnnotationsChanged(e) => {
                let words = e.annotations.iter().map(|a| format!("{}={}", a.key, a.value.as_deref().unwrap_or("-")));
                format!("annotated {}", words.collect::<Vec<_>>().join(" "))
            }
            DeviceEvent::AttentionAcknowledged(e) => format!("{} acknowledged by {}", e.name, e.by),
            DeviceEvent::ClaimsChanged(e) => {
                let names = |sign: char, list: &[ExclusiveName]| list.iter().map(|n| format!(" {sign}{n}")).collect::<String>();
                format!("claims{}{}", names('-', &e.give_back), names('+', &e.take))
            }
            DeviceEvent::GrantChanged(e) => {
                let held = if e.held { "held" } else { "not held" };
                format!("{} {held}{}", e.name, also("contested by", e.other.map(nick)))
            }
            DeviceEvent::EditJudged(e) => format!("edit by {}: {}: {} {}", e.user, e.edit, e.verb, e.result).replace("  ", " "),
        }
    }

    fn kind(&self, task: TaskId) -> &'static str {
        self.tasks.get(&task).map_or("a task that was never planned", |k| k.as_str())
    }

    fn phase(&self, e: &PhaseChanged) -> String {
        let from = e.from.map_or("none".into(), |p| p.to_string());
        let told =
            [also("then", e.then), also("stage", e.stage), also("cause", e.cause.as_ref()), also("until", e.until.map(|t| self.when(t)))];
        format!("{from} -> {} by {}{}", e.to, e.edge, told.concat())
    }

    fn site(&self, event: &SiteEvent) -> String {
        match event {
            SiteEvent::SiteRegistered(e) => {
                let sources: Vec<_> = e.sources.iter().map(|s| format!("{} every {} s", s.source, s.interval_seconds)).collect();
                format!("registered: {}", sources.join(", "))
            }
            SiteEvent::RoleProfileSet(e) => format!("profile of {}", e.role),
            SiteEvent::EpochGranted(e) => format!("epoch {} of {}", e.epoch, e.source),
            SiteEvent::FreshnessChanged(e) => {
                let (word, fault) = (if e.fresh { "fresh" } else { "stale" }, also("fault", e.fault.map(|f| f.as_str())));
                format!("{} {word}, looked {}{fault}", e.source, e.last_look_at.map_or("never".into(), |t| self.when(t)))
            }
            SiteEvent::TeamsSet(e) => {
                let sources = e.sources.iter().map(|t| format!("{}={}", t.source, t.team.as_deref().unwrap_or("nobody")));
                let roles = e.roles.iter().map(|t| format!("{}={}", t.role, t.team.as_deref().unwrap_or("nobody")));
                format!("teams: {}", sources.chain(roles).collect::<Vec<_>>().join(", "))
            }
            SiteEvent::FreezePlaced(e) => format!("freeze {} by {}{}", e.name, e.by, also("until", e.until.map(|t| self.when(t)))),
            SiteEvent::FreezeLifted(e) => format!("unfrozen {} by {}", e.name, e.by),
            SiteEvent::TypeRegistered(e) => format!("type {}", e.definition.name),
            SiteEvent::LooksFailing(e) => format!("looks at {} fail: {}", e.source, e.fault.map_or("no more", |f| f.as_str())),
        }
    }
}

/// Devices that contend, by their last digits.
fn nick(device: DeviceId) -> String {
    device.to_string().trim_start_matches(['0', '-']).to_owned()
}

fn exclusive(event: &ExclusiveEvent) -> String {
    match event {
        ExclusiveEvent::Granted(e) => format!("granted to {}", nick(e.to)),
        ExclusiveEvent::Contested(e) => format!("{} waits for {} at {}", nick(e.by), nick(e.holder), e.place),
        ExclusiveEvent::GivenBack(e) => format!("given back by {}", nick(e.device)),
    }
}

fn config(event: &BootstrapConfigEvent) -> String {
    match event {
        BootstrapConfigEvent::BootstrapConfigCreated(e) => format!("created version {} by {}", e.version, e.by),
        BootstrapConfigEvent::BootstrapConfigChanged(e) => format!("version {} by {}: {}", e.version, e.by, e.changed.join(", ")),
        BootstrapConfigEvent::BootstrapConfigRetired(e) => format!("retired version {} by {}", e.version, e.by),
    }
}

fn condition(e: &ConditionChanged) -> String {
    let subject = if e.report.subject == "device" { String::new() } else { format!("[{}]", e.report.subject) };
    let live = if e.confirmed_live { "" } else { " (backfill)" };
    format!("{}{subject}={} {}{live}", e.report.r#type, e.report.status, e.report.reason)
}

fn section(s: &SchedulerSection) -> String {
    format!("{} {}/{}{}", s.state.join("+"), s.alloc_cpus, s.cpus, also("reserved for", s.reservation.as_ref()))
}
