//! What is asked of a site beyond its registration, and what came of it: teams, freezes, types of conditions.

use crate::{Effect, Mode, RoleProfile, Sense, Severity, Source, Timestamp};

record! {
    /// What we may do to one source.
    pub struct SourceMode {
        /// The source.
        source: Source,
        /// What we may do to it.
        mode: Mode,
    }
}
record! {
    /// Who answers for a source at a site.
    pub struct SourceTeam {
        /// The source.
        source: Source,
        /// The team; absent = nobody any more.
        team: Option<String>,
    }
}
record! {
    /// Who answers for a role's devices at a site.
    pub struct RoleTeam {
        /// Slug of the role.
        role: String,
        /// The team; absent = nobody any more.
        team: Option<String>,
    }
}
record! {
    /// Changes what a site is set to; what is not named stays.
    pub struct ChangeSite in "command" {
        /// What we may do to these sources.
        modes: Vec<SourceMode>,
        /// Who answers for these sources.
        source_teams: Vec<SourceTeam>,
        /// Who answers for the devices of these roles.
        role_teams: Vec<RoleTeam>,
    }
}
record! {
    /// Nothing at the site advances or is destroyed while a freeze stands.
    pub struct PlaceFreeze in "command" {
        /// Its name, unique at the site.
        name: String,
        /// When it ends by itself; absent = when lifted.
        until: Option<Timestamp>,
    }
}
record! {
    /// Lift a freeze.
    pub struct LiftFreeze in "command" {
        /// Its name.
        name: String,
    }
}
record! {
    /// A type of condition that programs outside may state at this site.
    pub struct RegisterType in "command" {
        /// The type.
        definition: TypeDefinition,
    }
}
record! {
    /// What a type of condition means. Never taken from a report.
    pub struct TypeDefinition {
        /// Its name: CamelCase, of no built-in type.
        name: String,
        /// Which status is the good one.
        sense: Sense,
        /// What it forbids or demands while True; problems only.
        effects: Vec<Effect>,
        /// How bad it is when it stands the wrong way.
        severity: Severity,
        /// Seconds after which a statement that was not repeated reads Unknown; absent = never.
        ttl_seconds: Option<i64>,
        /// Clients that may state it.
        writers: Vec<String>,
        /// For people.
        about: String,
    }
}
record! {
    /// A role got a profile.
    pub struct RoleProfileSet in "event" {
        /// Slug of the role.
        role: String,
        /// The profile.
        profile: RoleProfile,
    }
}
record! {
    /// Who answers for what at a site changed; what is not named stays.
    pub struct TeamsSet in "event" {
        /// Sources.
        sources: Vec<SourceTeam>,
        /// Roles.
        roles: Vec<RoleTeam>,
    }
}
record! {
    /// A freeze was placed.
    pub struct FreezePlaced in "event" {
        /// Its name.
        name: String,
        /// Who placed it.
        by: String,
        /// Why.
        reason: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
    }
}
record! {
    /// A freeze ended.
    pub struct FreezeLifted in "event" {
        /// Its name.
        name: String,
        /// Who lifted it; `expiry` when its time was up.
        by: String,
    }
}
record! {
    /// A type of condition was registered, or means something else now.
    pub struct TypeRegistered in "event" {
        /// The type.
        definition: TypeDefinition,
    }
}
