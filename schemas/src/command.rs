//! What is asked. A command is accepted or rejected, with a stable code.

use crate::{
    BootId, ChangeSite, CommandId, CreateBootstrapConfig, DecisionId, Dhcp, GiveBack, LiftFreeze, Mode, Payload, Phase, PlaceFreeze,
    Provisioner, ReadUserData, RegisterType, RetireBootstrapConfig, Scheduler, SetAnnotations, SiteId, Source, StreamId, Take, Then,
    Timestamp, UpdateBootstrapConfig,
};

record! {
    /// Who asks, and how far that person's or program's right reaches.
    pub struct Actor {
        /// Opaque subject id.
        subject: String,
        /// Client that spoke for it.
        client: String,
        /// Whom it acts for, where that is somebody else.
        on_behalf_of: Option<String>,
        /// Sites it may touch; empty = none, `*` = all.
        reach: Vec<String>,
    }
}

impl Actor {
    /// The control plane itself.
    pub fn system(client: &str) -> Self {
        Self { subject: format!("system:{client}"), client: client.into(), on_behalf_of: None, reach: vec!["*".into()] }
    }
    /// Whether its right reaches `site`.
    pub fn reaches(&self, site: &SiteId) -> bool {
        self.reach.iter().any(|r| r == "*" || r == site.as_str())
    }
}

record! {
    /// One request on `fm.commands.v1`, keyed by its stream.
    pub struct Command in "command" {
        /// Its id; a repeat carries the same.
        id: CommandId,
        /// What it is about.
        stream: StreamId,
        /// What is asked, or told by another stream: a record of kind `command`.
        ask: Payload,
        /// Who asks.
        actor: Actor,
        /// Why, in the asker's words.
        reason: String,
        /// Version the stream must have; absent = any.
        expected_version: Option<u64>,
        /// Decide, say what would happen, change nothing.
        dry_run: bool,
        /// When it was asked.
        issued_at: Timestamp,
        /// After this instant it is rejected `expired`.
        not_after: Timestamp,
        /// W3C trace id, or empty.
        trace_id: String,
        /// Which decision of another stream it follows from; absent = somebody asked. One that follows never expires.
        reaction: Option<ReactionTo> = default,
    }
}

record! {
    /// The decision that a reaction follows from.
    pub struct ReactionTo {
        /// The stream of the decision.
        stream: StreamId,
        /// The stream's version after it.
        version: u64,
        /// The decision.
        decision: DecisionId,
        /// Which of its reactions, from 0.
        index: u32,
    }
}

record! {
    /// A device that already runs gets its phase, from evidence that a person confirmed (edge 1b).
    pub struct Baseline in "command" {
        /// The phase that the preview proposed and the person confirmed.
        phase: Phase,
    }
}
record! {
    /// Into service (edge 9).
    pub struct Activate in "command" {}
}
record! {
    /// Out of service, letting jobs end (edge 10).
    pub struct Drain in "command" {
        /// `pending`: running jobs end by themselves. `immediate` is refused until it is built.
        mode: String,
        /// Where it leads.
        then: Then,
    }
}
record! {
    /// Back into service from a drain (edge 10b).
    pub struct Resume in "command" {}
}
record! {
    /// Out of service for a fault (edge 12).
    pub struct Quarantine in "command" {
        /// CamelCase name of the fault.
        cause: String,
    }
}
record! {
    /// Out of Quarantined through validation (a way out by stage).
    pub struct Validate in "command" {}
}
record! {
    /// People will work on it (edge 17).
    pub struct Maintain in "command" {
        /// Announced end; over-run becomes an attention item.
        until: Option<Timestamp>,
    }
}
record! {
    /// People are done with it (edge 17).
    pub struct EndMaintenance in "command" {}
}
record! {
    /// No advance while this hold stands.
    pub struct PlaceHold in "command" {
        /// Name of the hold, unique on the device.
        name: String,
        /// When it ends by itself; absent = when lifted.
        expires_at: Option<Timestamp>,
    }
}
record! {
    /// Lift a hold.
    pub struct LiftHold in "command" {
        /// Name of the hold.
        name: String,
    }
}
record! {
    /// A remark that changes how the device is read.
    pub struct Annotate in "command" {
        /// `accept-drift`: the person's NetBox edit stands, and is no drift any more.
        kind: String,
    }
}
record! {
    /// A person has seen what waits for one, and says why it may wait.
    pub struct AcknowledgeAttention in "command" {
        /// Name of the item.
        name: String,
    }
}
record! {
    /// A verb of the lifecycle that this build does not have yet. Always refused `not-available`.
    pub struct NotBuilt in "command" {
        /// The verb.
        verb: String,
    }
}

record! {
    /// One source that a site has.
    pub struct SourceConfig {
        /// The source.
        source: Source,
        /// Seconds between looks.
        interval_seconds: i64,
        /// What we may do to it.
        mode: Mode,
    }
}

record! {
    /// How much of the lifecycle applies to a role's devices at a site.
    pub struct RoleProfile {
        /// What installs them.
        provisioner: Provisioner,
        /// What gives them work.
        scheduler: Scheduler,
        /// What hands out their addresses.
        dhcp: Dhcp,
        /// Proofs that no work runs; all that are named must hold.
        workload_proofs: Vec<String>,
        /// Bill of materials, `sku@version`.
        bom: Option<String>,
        /// Firmware baseline, `baseline@version`.
        firmware: Option<String>,
        /// Validation suite.
        validation: Option<String>,
        /// Burn-in suite.
        burn_in: Option<String>,
    }
}

record! {
    /// A site exists, with these sources. Repeating it with the same content changes nothing.
    pub struct RegisterSite in "command" {
        /// Every source of the site.
        sources: Vec<SourceConfig>,
    }
}
record! {
    /// A role's profile at a site.
    pub struct SetRoleProfile in "command" {
        /// Slug of the role.
        role: String,
        /// The profile.
        profile: RoleProfile,
    }
}
record! {
    /// A role's profile at a site that has none for it yet: what a configuration says at start. A profile that there is stays.
    pub struct FirstRoleProfile in "command" {
        /// Slug of the role.
        role: String,
        /// The profile.
        profile: RoleProfile,
    }
}
record! {
    /// A merge-patch of a role's profile: the fields that are named get these values, absent ones included; the others stay.
    pub struct ChangeRoleProfile in "command" {
        /// Slug of the role.
        role: String,
        /// Names of the fields to set, as `RoleProfile` has them.
        set: Vec<String>,
        /// Their values.
        profile: RoleProfile,
    }
}
record! {
    /// An agent started: the site hands out the epoch of its observations.
    pub struct ClaimEpoch in "command" {
        /// The source it looks at.
        source: Source,
        /// This start of the agent.
        boot: BootId,
    }
}

payloads! {
    /// Any request.
    pub enum Ask {
        Baseline, Activate, Drain, Resume, Quarantine, Validate, Maintain, EndMaintenance, PlaceHold, LiftHold, Annotate, SetAnnotations,
        AcknowledgeAttention, NotBuilt, RegisterSite, SetRoleProfile, FirstRoleProfile, ChangeRoleProfile, ClaimEpoch, ChangeSite, PlaceFreeze, LiftFreeze, RegisterType,
        CreateBootstrapConfig, UpdateBootstrapConfig, RetireBootstrapConfig, ReadUserData, Take, GiveBack,
    }
}
