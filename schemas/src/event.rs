//! What changed. Past tense; the only thing a state is folded from.

use crate::{
    AnnotationsChanged, BootId, BootstrapConfigEvent, ClaimsChanged, ConditionReport, Effect, ExclusiveEvent, FreezeLifted, FreezePlaced,
    GrantChanged, Inventory, LookFault, OperationId, OperationState, Phase, RoleProfileSet, SchedulerSection, Severity, SiteId, Source,
    SourceConfig, SourceSeq, Stage, TaskId, TaskKind, TeamsSet, Then, Timestamp, TypeRegistered, UnclaimedEvent, WaitKind,
};

record! {
    /// The NetBox record of a device changed, or was seen first.
    pub struct InventoryChanged in "event" {
        /// The record as it now stands.
        inventory: Inventory,
        /// Names of the fields that differ from before; empty the first time.
        changed: Vec<String>,
        /// Order of the observation.
        source_seq: SourceSeq,
    }
}
record! {
    /// NetBox has the device at another site now.
    pub struct DeviceMoved in "event" {
        /// Site before.
        from: SiteId,
        /// Site now.
        to: SiteId,
    }
}
record! {
    /// A guard, and what it saw when an edge was taken.
    pub struct GuardSeen {
        /// Name of the guard.
        guard: String,
        /// What it saw.
        seen: String,
    }
}
record! {
    /// The phase of a device changed.
    pub struct PhaseChanged in "event" {
        /// Phase before; absent = the device had none.
        from: Option<Phase>,
        /// Phase now.
        to: Phase,
        /// The edge, by its number in the lifecycle table.
        edge: String,
        /// For Quarantined: the stage that failed.
        stage: Option<Stage>,
        /// For Quarantined and Draining: CamelCase cause.
        cause: Option<String>,
        /// For Draining: where it leads.
        then: Option<Then>,
        /// For Maintenance: the announced end.
        until: Option<Timestamp>,
        /// The guards that were evaluated.
        guards: Vec<GuardSeen>,
        /// Why, in the asker's words, or empty.
        reason: String,
    }
}
record! {
    /// A drain leads somewhere else now.
    pub struct DrainRedirected in "event" {
        /// Where it leads.
        then: Then,
        /// CamelCase cause.
        cause: Option<String>,
    }
}
record! {
    /// A drain is proven: no work runs.
    pub struct DrainProven in "event" {
        /// The guards that were evaluated.
        guards: Vec<GuardSeen>,
    }
}
record! {
    /// A proven drain is proven no more: SLURM could start work on the node, or did.
    pub struct DrainUnproven in "event" {
        /// What SLURM shows.
        seen: String,
    }
}
record! {
    /// A quality stage was passed through, since the role's profile has none.
    pub struct StageSkipped in "event" {
        /// The stage: validate or burn-in.
        stage: Stage,
        /// Why.
        reason: String,
    }
}
record! {
    /// A condition changed.
    pub struct ConditionChanged in "event" {
        /// The statement as it now stands.
        report: ConditionReport,
        /// Severity, from the type registry.
        severity: Severity,
        /// Effects, from the type registry.
        effects: Vec<Effect>,
        /// Who says so: a source, or `hub`.
        source: String,
        /// Site whose agent said so.
        site: SiteId,
        /// Order of the observation; absent for `hub`.
        source_seq: Option<SourceSeq>,
        /// When it was seen.
        observed_at: Timestamp,
        /// When the status last changed.
        last_transition_at: Timestamp,
        /// False while it rests on an old, forwarded look only; nothing is planned on such a one.
        confirmed_live: bool,
    }
}
record! {
    /// SLURM's own words about the device changed.
    pub struct SchedulerChanged in "event" {
        /// The words now; absent = SLURM has no such node.
        section: Option<SchedulerSection>,
        /// Order of the observation.
        source_seq: SourceSeq,
    }
}
record! {
    /// A hold was placed.
    pub struct HoldPlaced in "event" {
        /// Its name.
        name: String,
        /// Who placed it.
        by: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        expires_at: Option<Timestamp>,
    }
}
record! {
    /// A hold ended.
    pub struct HoldLifted in "event" {
        /// Its name.
        name: String,
        /// Who lifted it; `expiry` when its time was up.
        by: String,
    }
}
record! {
    /// An operation began.
    pub struct OperationStarted in "event" {
        /// Its id.
        operation: OperationId,
        /// The verb.
        verb: String,
        /// Who asked.
        by: String,
        /// Why.
        reason: String,
        /// When it must have ended.
        deadline: Option<Timestamp>,
    }
}
record! {
    /// An operation ended.
    pub struct OperationEnded in "event" {
        /// Its id.
        operation: OperationId,
        /// How.
        state: OperationState,
        /// In words.
        message: String,
    }
}
record! {
    /// Something should be done at an outside system. In mode `observe` a plan for a person.
    pub struct TaskPlanned in "event" {
        /// Its id; our mark in other systems names it.
        task: TaskId,
        /// What.
        kind: TaskKind,
        /// The thing to act on: a SLURM NodeName.
        target: String,
        /// The exact reason text to set there, or empty.
        mark: String,
        /// Why it is wanted.
        why: String,
    }
}
record! {
    /// A task's effect was seen.
    pub struct TaskDone in "event" {
        /// Its id.
        task: TaskId,
        /// What was seen.
        seen: String,
    }
}
record! {
    /// A task is not wanted any more.
    pub struct TaskWithdrawn in "event" {
        /// Its id.
        task: TaskId,
        /// Why.
        why: String,
    }
}
record! {
    /// Something waits for a person.
    pub struct AttentionRaised in "event" {
        /// What: one item per name on a device.
        name: String,
        /// In words.
        why: String,
        /// What would end it.
        ways_out: Vec<String>,
    }
}
record! {
    /// It waits no longer.
    pub struct AttentionCleared in "event" {
        /// What.
        name: String,
    }
}
record! {
    /// A person has seen it; it still waits.
    pub struct AttentionAcknowledged in "event" {
        /// What.
        name: String,
        /// Who.
        by: String,
        /// Why it may wait, in that person's words.
        reason: String,
    }
}
record! {
    /// A wait got a (new) deadline.
    pub struct WaitArmed in "event" {
        /// What waits.
        wait: WaitKind,
        /// For a hold: its name; else empty.
        name: String,
        /// From when the source must have been fresh for the deadline to count.
        since: Timestamp,
        /// When it falls due.
        due: Timestamp,
        /// When it can be judged at the earliest: by then, a source that fell silent before it was due is known to be stale.
        judge_at: Timestamp,
    }
}
record! {
    /// A deadline fell due while its source was not fresh throughout: it cannot be judged until the source is.
    pub struct DeadlineUnobservable in "event" {
        /// What waits.
        wait: WaitKind,
        /// The source.
        source: Source,
    }
}
record! {
    /// A person's NetBox edit stands, and is no drift.
    pub struct DriftAccepted in "event" {
        /// Who accepted it.
        by: String,
        /// The NetBox status that stands.
        status: String,
    }
}
record! {
    /// A person's NetBox edit has been judged; later looks do not judge it again.
    pub struct EditJudged in "event" {
        /// Id of the object change.
        change_id: i64,
        /// Who.
        user: String,
        /// Field, value before, value after.
        edit: String,
        /// The verb it became, or empty.
        verb: String,
        /// `accepted`, or the rejection's code, or `unmapped`.
        result: String,
    }
}

payloads! {
    /// What can happen to a device.
    pub enum DeviceEvent {
        InventoryChanged, DeviceMoved, PhaseChanged, DrainRedirected, DrainProven, DrainUnproven, StageSkipped, ConditionChanged,
        SchedulerChanged, HoldPlaced, HoldLifted, OperationStarted, OperationEnded, TaskPlanned, TaskDone, TaskWithdrawn, AttentionRaised,
        AttentionCleared, AttentionAcknowledged, WaitArmed, DeadlineUnobservable, DriftAccepted, EditJudged,
        AnnotationsChanged, ClaimsChanged, GrantChanged,
    }
}

record! {
    /// A site was registered, or its sources changed.
    pub struct SiteRegistered in "event" {
        /// Every source of the site.
        sources: Vec<SourceConfig>,
    }
}
record! {
    /// An agent's run got its epoch.
    pub struct EpochGranted in "event" {
        /// The source.
        source: Source,
        /// The run.
        boot: BootId,
        /// Its epoch.
        epoch: u64,
    }
}
record! {
    /// A source turned fresh, or stale. Conditions from a stale source read Unknown.
    pub struct FreshnessChanged in "event" {
        /// The source.
        source: Source,
        /// Fresh now?
        fresh: bool,
        /// When the last complete look was; absent = never.
        last_look_at: Option<Timestamp>,
        /// Why it is not fresh; absent when it is, or when nothing was heard at all.
        fault: Option<LookFault>,
        /// In words.
        message: String,
    }
}
record! {
    /// Looks at a source began to fail, fail otherwise than before, or work again; freshness may not have changed yet.
    pub struct LooksFailing in "event" {
        /// The source.
        source: Source,
        /// What kind of failure; absent = looks work again.
        fault: Option<LookFault>,
        /// In words.
        message: String,
    }
}

payloads! {
    /// What can happen to a site.
    pub enum SiteEvent {
        SiteRegistered, RoleProfileSet, EpochGranted, FreshnessChanged, LooksFailing, TeamsSet, FreezePlaced, FreezeLifted, TypeRegistered,
    }
}

/// Any event.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "events live for one step; a box each would cost more than the moves")]
pub enum Event {
    /// Of a device's stream.
    Device(DeviceEvent),
    /// Of a site's stream.
    Site(SiteEvent),
    /// Of a bootstrap configuration's stream.
    BootstrapConfig(BootstrapConfigEvent),
    /// Of a stream that makes a name unique.
    Exclusive(ExclusiveEvent),
    /// Of a thing that no device claims.
    Unclaimed(UnclaimedEvent),
}

impl Event {
    /// Decodes an event of `stream`.
    pub fn decode(stream: &crate::StreamId, payload: &crate::Payload) -> Result<Self, crate::DecodeError> {
        match stream {
            crate::StreamId::Device(_) => DeviceEvent::decode(payload).map(Self::Device),
            crate::StreamId::Site(_) => SiteEvent::decode(payload).map(Self::Site),
            crate::StreamId::BootstrapConfig(..) => BootstrapConfigEvent::decode(payload).map(Self::BootstrapConfig),
            crate::StreamId::Exclusive { .. } => ExclusiveEvent::decode(payload).map(Self::Exclusive),
            crate::StreamId::Unclaimed { .. } => UnclaimedEvent::decode(payload).map(Self::Unclaimed),
        }
    }
    /// The event as a payload.
    pub fn encode(&self) -> crate::Payload {
        match self {
            Self::Device(e) => e.encode(),
            Self::Site(e) => e.encode(),
            Self::BootstrapConfig(e) => e.encode(),
            Self::Exclusive(e) => e.encode(),
            Self::Unclaimed(e) => e.encode(),
        }
    }
    /// The record's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Device(e) => e.name(),
            Self::Site(e) => e.name(),
            Self::BootstrapConfig(e) => e.name(),
            Self::Exclusive(e) => e.name(),
            Self::Unclaimed(e) => e.name(),
        }
    }
}
