//! What is known of a device, folded from its events.

use super::Conditions;
use super::claims::Grant;
use crate::Reference;
use fleet_schemas::{
    DeviceId, Effect, ExclusiveKind, Inventory, OperationId, Owner, Phase, SchedulerSection, Severity, SiteId, Source, SourceSeq, Stage,
    Status, TaskId, TaskKind, Then, Timestamp, WaitKind,
};
use litemap::LiteMap;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The state of a device. What every device has a few of is a list in order: a tree takes the room of eleven for one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its id.
    pub id: DeviceId,
    /// Its NetBox record, as last seen.
    pub inventory: Option<Inventory>,
    /// Where it is.
    pub site: Option<SiteId>,
    /// Whose profile applies; another than `site` while a move is not accepted.
    pub profile_site: Option<SiteId>,
    /// Its phase; absent while its role has no profile.
    pub phase: Option<Phase>,
    /// Since when.
    pub phase_since: Timestamp,
    /// For Quarantined: what failed.
    pub stage: Option<Stage>,
    /// For Quarantined and Draining: the fault.
    pub cause: Option<String>,
    /// For Draining: where it leads.
    pub then: Option<Then>,
    /// For Draining: whether it was proven that no work runs.
    pub drain_proven: bool,
    /// Whether it ever was provisioned, by whomever.
    pub provisioned: bool,
    /// For Maintenance: the announced end.
    pub until: Option<Timestamp>,
    /// For Maintenance: the phase it came from.
    pub came_from: Option<Phase>,
    /// Whose it is.
    pub owner: Owner,
    /// Stages that were passed through without a test.
    pub untested: BTreeSet<Stage>,
    /// Conditions.
    pub conditions: Conditions,
    /// SLURM's own words.
    pub scheduler: Option<SchedulerSection>,
    /// Holds by name.
    pub holds: BTreeMap<String, Hold>,
    /// What runs.
    pub operation: Option<Operation>,
    /// Work orders and plans that count.
    pub tasks: BTreeMap<TaskId, Task>,
    /// Ids of tasks whose mark may still stand in SLURM, newest last.
    pub marks: Vec<TaskId>,
    /// What waits for a person.
    pub attention: BTreeMap<String, Attention>,
    /// What waits for a time.
    pub waits: BTreeMap<(WaitKind, String), WaitState>,
    /// Highest recorded place in each source's order.
    #[serde(with = "pairs")]
    pub seqs: LiteMap<(Source, SiteId), SourceSeq>,
    /// People's remarks.
    pub annotations: BTreeMap<String, String>,
    /// Last person's edit in NetBox that was judged.
    pub judged_edit: i64,
    /// A NetBox status that stands by a person's word although the table says otherwise.
    pub accepted_status: Option<String>,
    /// The names that it claims, by kind and value, and whose they are.
    #[serde(with = "pairs")]
    pub grants: LiteMap<(ExclusiveKind, String), Grant>,
}

/// A condition as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// Its type.
    pub r#type: String,
    /// What it is about.
    pub subject: String,
    /// Its status, as last said.
    pub status: Status,
    /// Its reason.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How bad.
    pub severity: Severity,
    /// What it forbids or demands while True.
    pub effects: Vec<Effect>,
    /// Who says so.
    pub source: String,
    /// Where that was.
    pub site: SiteId,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// When its status last changed.
    pub last_transition_at: Timestamp,
    /// Whether a live look said so.
    pub confirmed_live: bool,
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    /// Who placed it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it was placed.
    pub since: Timestamp,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its id.
    pub id: OperationId,
    /// The verb.
    pub verb: String,
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// When it must have ended.
    pub deadline: Option<Timestamp>,
}

/// A work order, or a plan for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What.
    pub kind: TaskKind,
    /// The thing to act on.
    pub target: String,
    /// The exact text to set there.
    pub mark: String,
    /// Why it is wanted.
    pub why: String,
    /// Since when.
    pub since: Timestamp,
    /// How far it is.
    pub state: TaskState,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskState {
    /// Wanted, effect not seen.
    Open,
    /// Effect seen.
    Done,
}

/// Something that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// In words.
    pub why: String,
    /// What would end it.
    pub ways_out: Vec<String>,
    /// Since when.
    pub since: Timestamp,
    /// Who has seen it, if anybody; a new reason asks anew.
    pub acknowledged: Option<Acknowledged>,
}

/// A person's word that something is known to wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Who.
    pub by: String,
    /// Why it may wait.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// A wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitState {
    /// From when its source must have been fresh.
    pub since: Timestamp,
    /// When it falls due.
    pub due: Timestamp,
    /// When it can be judged at the earliest.
    pub judge_at: Timestamp,
    /// It fell due while this source was not fresh; it waits for the source first.
    pub unobservable: Option<Source>,
}

impl Device {
    /// A device that nothing is known of.
    pub fn new(id: DeviceId) -> Self {
        Self {
            id,
            inventory: None,
            site: None,
            profile_site: None,
            phase: None,
            phase_since: Timestamp(0),
            stage: None,
            cause: None,
            then: None,
            drain_proven: false,
            provisioned: false,
            until: None,
            came_from: None,
            owner: Owner::Fleet,
            untested: BTreeSet::new(),
            conditions: Conditions::default(),
            scheduler: None,
            holds: BTreeMap::new(),
            operation: None,
            tasks: BTreeMap::new(),
            marks: Vec::new(),
            attention: BTreeMap::new(),
            waits: BTreeMap::new(),
            seqs: LiteMap::new(),
            annotations: BTreeMap::new(),
            judged_edit: 0,
            accepted_status: None,
            grants: LiteMap::new(),
        }
    }

    /// The site and role whose profile applies.
    pub fn profile_key(&self) -> Option<(&SiteId, &str)> {
        let inventory = self.inventory.as_ref()?;
        Some((self.profile_site.as_ref().or(self.site.as_ref())?, inventory.role.as_str()))
    }

    /// The sites whose reference can concern it.
    pub fn sites(&self) -> impl Iterator<Item = &SiteId> {
        self.site.iter().chain(self.profile_site.iter())
    }

    /// What people call it: its name, or NetBox's display text where it has none.
    pub fn name(&self) -> String {
        self.inventory.as_ref().map_or_else(|| self.id.to_string(), |i| i.name.clone().unwrap_or_else(|| i.display.clone()))
    }

    /// The condition of this type about the device itself.
    pub fn condition(&self, r#type: &str) -> Option<&Condition> {
        self.conditions.get(r#type, "device")
    }

    /// Its status as guards may believe it: Unknown where absent, seen by a stale source, by another site's agent, or not live.
    pub fn believed(&self, r#type: &str, reference: &Reference) -> Status {
        self.condition(r#type).map_or(Status::Unknown, |c| c.believed(self.site.as_ref(), reference))
    }

    /// The reason it stands with, or `absent`.
    pub fn reason_of(&self, r#type: &str) -> String {
        self.condition(r#type).map_or_else(|| "absent".into(), |c| c.reason.clone())
    }

    /// A problem condition that holds and has this effect. It counts until it is seen to have ended, also when its source is stale.
    pub fn effect(&self, effect: Effect) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.status == Status::True && c.effects.contains(&effect))
    }

    /// Whether an effect bears on what a tenant gets.
    pub fn impaired(&self) -> bool {
        [Effect::RequireDrain, Effect::Fatal, Effect::PreventAllocation].into_iter().any(|e| self.effect(e).is_some())
    }
}

impl Condition {
    /// See [`Device::believed`].
    pub fn believed(&self, site: Option<&SiteId>, reference: &Reference) -> Status {
        let by_source = |source: Source| reference.fresh(&self.site, source) && site == Some(&self.site) && self.confirmed_live;
        match self.source.parse::<Source>() {
            Ok(source) if !by_source(source) => Status::Unknown,
            Ok(_) | Err(_) => self.status,
        }
    }
}

/// A map as a list of pairs, which is the same in every format, and takes no room for more than there is.
mod pairs {
    use litemap::LiteMap;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(map: &LiteMap<K, V>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map.iter())
    }

    pub fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<LiteMap<K, V>, D::Error> {
        Ok(Vec::<(K, V)>::deserialize(from)?.into_iter().collect())
    }
}
