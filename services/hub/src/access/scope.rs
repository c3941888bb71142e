//! The scopes: one type each, so that a route carries its scope in its handler's type.

/// A right.
pub trait Scope: Send + Sync + 'static {
    /// Its name in tokens.
    const NAME: &'static str;
    /// Scopes that hold it too: who writes devices may look at them.
    const IMPLIED_BY: &'static [&'static str] = &[];
}

macro_rules! scopes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal $(<= [$($implied:literal),*])?;)*) => {
        $($(#[doc = $doc])+ #[derive(Clone, Copy, Debug)] pub struct $name;
        impl Scope for $name {
            const NAME: &'static str = $text;
            $(const IMPLIED_BY: &'static [&'static str] = &[$($implied),*];)?
        })*
        /// Scopes that hold this one too.
        pub fn implied_by(scope: &str) -> &'static [&'static str] {
            $(if scope == $text { return $name::IMPLIED_BY; })*
            &[]
        }
        /// Every scope there is.
        pub const SCOPES: &[&str] = &[$($text),*];
    };
}

scopes! {
    /// Read devices, sites, conditions, operations.
    DeviceRead = "device:read" <= ["device:update", "device-condition:create"];
    /// Change what is not the lifecycle.
    DeviceUpdate = "device:update";
    /// Give a lifecycle command.
    LifecycleCreate = "device-lifecycle:create";
    /// Read a site's settings.
    SiteRead = "site:read";
    /// Change a site's settings, and take over a fleet that already runs.
    SiteUpdate = "site:update";
    /// Report conditions of the types that are granted.
    ConditionCreate = "device-condition:create";
    /// Hand over what an agent saw.
    ObservationCreate = "observation:create";
    /// Take work orders and report on them.
    TaskExecute = "task:execute";
    /// Read what auditors read: denials, proofs.
    AuditRead = "audit:read";
    /// Read bootstrap configurations, user-data included.
    BootstrapRead = "slurm-bootstrap-config:read";
    /// Create them.
    BootstrapCreate = "slurm-bootstrap-config:create";
    /// Change and retire them.
    BootstrapUpdate = "slurm-bootstrap-config:update";
    /// Run the hub.
    Admin = "admin";
}
