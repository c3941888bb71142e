//! Closed vocabularies. On the wire each is a documented string (never an Avro enum: adding a word must not break a reader).

use crate::{AvroType, SchemaBuilder};
use serde_json::{Value, json};

/// Why a text is no word of a vocabulary.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`{text}` is no {vocabulary}; one of: {words}")]
pub struct UnknownWord {
    /// What was given.
    pub text: String,
    /// Name of the vocabulary.
    pub vocabulary: &'static str,
    /// The words it has.
    pub words: String,
}

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident { $($(#[doc = $vdoc:literal])+ $variant:ident = $text:literal,)+ })*) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[doc = $vdoc])+ $variant,)+ }
        impl $name {
            /// Every word, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The word on the wire.
            pub fn as_str(self) -> &'static str { match self { $(Self::$variant => $text,)+ } }
        }
        impl std::fmt::Display for $name { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.pad(self.as_str()) } }
        impl std::str::FromStr for $name {
            type Err = UnknownWord;
            fn from_str(s: &str) -> Result<Self, UnknownWord> {
                match s {
                    $($text => Ok(Self::$variant),)+
                    _ => Err(UnknownWord { text: s.chars().take(64).collect(), vocabulary: stringify!($name), words: [$($text),+].join(", ") }),
                }
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> { s.serialize_str(self.as_str()) }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                std::borrow::Cow::<'de, str>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
        impl AvroType for $name {
            fn schema(_: &mut SchemaBuilder) -> Value { json!("string") }
            fn words() -> Option<String> { Some([$($text),+].join(", ")) }
        }
    )* };
}

words! {
    /// Place of a device in the lifecycle.
    Phase {
        /// Seen in NetBox, nothing decided yet.
        Discovered = "Discovered",
        /// Being made known to the provisioner.
        Enrolling = "Enrolling",
        /// Known to the provisioner, free.
        Enrolled = "Enrolled",
        /// Being given its image.
        Provisioning = "Provisioning",
        /// Has its image, proven nothing yet.
        Provisioned = "Provisioned",
        /// Its validation suite runs.
        Validating = "Validating",
        /// Its burn-in suite runs.
        BurningIn = "BurningIn",
        /// Fit for service, not in it.
        Ready = "Ready",
        /// Users' jobs may run.
        InService = "InService",
        /// Leaving service; running jobs end by themselves.
        Draining = "Draining",
        /// Out of service for a fault or a failed stage.
        Quarantined = "Quarantined",
        /// A repair action runs.
        Remediating = "Remediating",
        /// With the vendor.
        OutForRepair = "OutForRepair",
        /// People work on it.
        Maintenance = "Maintenance",
        /// Being taken out for good.
        Decommissioning = "Decommissioning",
        /// Gone for good.
        Decommissioned = "Decommissioned",
    }
    /// What failed, for a quarantined device: it names the ways out.
    Stage {
        /// Enrolment.
        Enrol = "enrol",
        /// Provisioning.
        Provision = "provision",
        /// Adoption into SLURM.
        Adopt = "adopt",
        /// Validation.
        Validate = "validate",
        /// Burn-in.
        BurnIn = "burn-in",
        /// Activation.
        Activate = "activate",
        /// No stage: a fault, or a person's quarantine.
        Fault = "fault",
        /// Decommissioning.
        Decommission = "decommission",
    }
    /// Where a drain leads.
    Then {
        /// Stay drained, still Draining.
        Stay = "stay",
        /// To Quarantined.
        Quarantine = "quarantine",
        /// To Maintenance.
        Maintenance = "maintenance",
        /// To Provisioning, in place.
        Reprovision = "reprovision",
        /// Out of SLURM and cleaned, to Enrolled.
        Release = "release",
    }
    /// Status of a condition, as Kubernetes has it.
    Status {
        /// It holds.
        True = "True",
        /// It does not hold.
        False = "False",
        /// Not known: never seen, or not seen freshly.
        Unknown = "Unknown",
    }
    /// How bad it is when a problem condition holds.
    Severity {
        /// Worth knowing.
        Info = "info",
        /// Somebody should look.
        Warning = "warning",
        /// Work suffers.
        Critical = "critical",
    }
    /// What a problem condition forbids or demands while it holds.
    Effect {
        /// No activation.
        PreventAllocation = "PreventAllocation",
        /// No advance edge.
        PreventStateChange = "PreventStateChange",
        /// No automatic act.
        PreventAutoAction = "PreventAutoAction",
        /// The device must leave service.
        RequireDrain = "RequireDrain",
        /// The device must be quarantined.
        Fatal = "Fatal",
        /// Alerts about it are noise now.
        SuppressAlert = "SuppressAlert",
        /// The time does not count against the service level.
        ExcludeFromSla = "ExcludeFromSla",
    }
    /// An outside system that agents look at.
    Source {
        /// NetBox: inventory.
        Netbox = "netbox",
        /// SLURM: the scheduler.
        Slurm = "slurm",
    }
    /// Whose the device is at the moment.
    Owner {
        /// The control plane.
        Fleet = "fleet",
        /// A person holds it.
        Operator = "operator",
        /// A vendor has it.
        Vendor = "vendor",
    }
    /// State of an operation.
    OperationState {
        /// Accepted, under way.
        Running = "running",
        /// Reached its end.
        Succeeded = "succeeded",
        /// Did not.
        Failed = "failed",
        /// Ended by a later request.
        Cancelled = "cancelled",
    }
    /// What became of a parked input.
    Closing {
        /// Its bytes were put back on their topic.
        Replayed = "replayed",
        /// A person let it be.
        Discarded = "discarded",
    }
    /// Kind of a decision's outcome.
    OutcomeKind {
        /// A request was granted.
        Accepted = "accepted",
        /// A request was refused; the code says why.
        Rejected = "rejected",
        /// A fact, a deadline or a rehearsal was taken note of.
        Noted = "noted",
    }
    /// What caused a decision.
    CauseKind {
        /// A command.
        Command = "command",
        /// An observation.
        Observation = "observation",
        /// A deadline that fell due.
        Deadline = "deadline",
        /// An event of another stream.
        Reaction = "reaction",
        /// A change of the reference streams.
        Reference = "reference",
    }
    /// A kind of name that only one device may have.
    ExclusiveKind {
        /// A serial, normalised.
        Serial = "serial",
        /// A SLURM NodeName at a site: `site/NodeName`.
        SlurmName = "slurm-name",
    }
    /// Why a look at a source failed.
    LookFault {
        /// No usable answer: a wrong key, a time-out, an empty list, bad JSON.
        NoData = "NoData",
        /// Our own token has expired; known without asking.
        TokenExpired = "TokenExpired",
        /// The scheduler's controller does not answer.
        ControllerDown = "ControllerDown",
        /// The source speaks no API version that we can trust.
        ApiTooOld = "ApiTooOld",
        /// The source refuses us.
        PermissionDenied = "PermissionDenied",
    }
    /// Kind of a task: a work order, or, where the site's mode is `observe`, a plan for a person.
    TaskKind {
        /// Drain the SLURM node under our mark.
        SlurmDrain = "slurm-drain",
        /// Lift our own drain.
        SlurmUndrain = "slurm-undrain",
        /// Lift our own reservation.
        SlurmUnreserve = "slurm-unreserve",
    }
    /// What a wait waits for.
    WaitKind {
        /// A drain that is not proven yet.
        Drain = "drain",
        /// An activated device that does not take jobs yet.
        Schedulable = "schedulable",
        /// A hold's expiry.
        HoldExpiry = "hold-expiry",
        /// The announced end of a maintenance.
        MaintenanceEnd = "maintenance-end",
        /// The next look at a source.
        Look = "look",
        /// A freeze's expiry.
        FreezeEnd = "freeze-end",
    }
    /// Which status of a condition is the good one, and how it acts.
    Sense {
        /// True is good. Acts only at the edges that name it, there also by absence.
        Readiness = "readiness",
        /// True is bad. Acts only through its effects.
        Problem = "problem",
        /// Neither is good: a fact that something else rests on.
        Fact = "fact",
    }
    /// What installs a role's machines.
    Provisioner {
        /// Nova on Ironic.
        Nova = "nova",
        /// Ironic alone.
        Ironic = "ironic",
        /// Something that is not ours to ask.
        External = "external",
    }
    /// What gives a role's machines their work.
    Scheduler {
        /// SLURM.
        Slurm = "slurm",
        /// Nothing that we know.
        None = "none",
    }
    /// What hands out a role's addresses.
    Dhcp {
        /// Kea.
        Kea = "kea",
        /// Neutron.
        Neutron = "neutron",
        /// Nothing that we know.
        None = "none",
    }
    /// What we may do to an outside system of a site.
    Mode {
        /// Look only; what would have been done is journalled as a plan.
        Observe = "observe",
        /// Write our own marks (phase, condition) back.
        Mirror = "mirror",
        /// Act.
        Act = "act",
    }
}
