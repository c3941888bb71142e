//! What other teams read: the records of the public topics. A contract of its own, apart from the journal's: codes and no free text,
//! opaque ids of people nowhere. A reader knows a repeat, and a gap, by the header `fleet_seq`.

use crate::{DeviceId, Effect, OperationId, OperationState, Owner, Phase, Severity, SiteId, Stage, Status, Then, Timestamp};

record! {
    /// A device is known, or its NetBox record changed.
    pub struct DeviceListed in "public" {
        /// The device.
        device: DeviceId,
        /// Its name, as people see it.
        name: String,
        /// Slug of its site.
        site: SiteId,
        /// Slug of its role.
        role: String,
        /// Name of its rack.
        rack: Option<String>,
        /// SLURM NodeName, where it is linked to one.
        slurm_node: Option<String>,
        /// `serial`, as NetBox has it.
        serial: Option<String>,
        /// Names of the fields of its NetBox record that changed; empty the first time.
        changed: Vec<String>,
    }
}
record! {
    /// A device is at another site now.
    pub struct DeviceRelocated in "public" {
        /// The device.
        device: DeviceId,
        /// Site before.
        from: SiteId,
        /// Site now.
        to: SiteId,
    }
}
record! {
    /// The phase of a device changed.
    pub struct DevicePhaseChanged in "public" {
        /// The device.
        device: DeviceId,
        /// Phase before; absent = it had none.
        from: Option<Phase>,
        /// Phase now.
        to: Phase,
        /// For Quarantined: the stage that failed.
        stage: Option<Stage>,
        /// For Quarantined and Draining: CamelCase cause.
        cause: Option<String>,
        /// For Draining: where it leads.
        then: Option<Then>,
        /// For Maintenance: the announced end.
        until: Option<Timestamp>,
    }
}
record! {
    /// Somebody placed a hold: the device does not advance.
    pub struct DeviceHeld in "public" {
        /// The device.
        device: DeviceId,
        /// Name of the hold.
        hold: String,
        /// When it ends by itself.
        until: Option<Timestamp>,
    }
}
record! {
    /// A hold ended.
    pub struct DeviceReleased in "public" {
        /// The device.
        device: DeviceId,
        /// Name of the hold.
        hold: String,
    }
}
record! {
    /// An operation began.
    pub struct DeviceOperationStarted in "public" {
        /// The device.
        device: DeviceId,
        /// The operation.
        operation: OperationId,
        /// The verb.
        verb: String,
        /// When it must have ended.
        deadline: Option<Timestamp>,
    }
}
record! {
    /// An operation ended.
    pub struct DeviceOperationEnded in "public" {
        /// The device.
        device: DeviceId,
        /// The operation.
        operation: OperationId,
        /// How.
        state: OperationState,
    }
}
record! {
    /// A condition of a device changed. Changes alone, never that it still holds.
    pub struct DeviceConditionChanged in "public" {
        /// The device.
        device: DeviceId,
        /// Type, e.g. `SlurmSchedulable`.
        r#type: String,
        /// `device`, or a part of it.
        subject: String,
        /// True, False or Unknown.
        status: Status,
        /// CamelCase reason.
        reason: String,
        /// How bad.
        severity: Severity,
        /// What it forbids or demands.
        effects: Vec<Effect>,
        /// Who says so.
        source: String,
        /// Site whose agent said so.
        site: SiteId,
        /// When it was seen.
        observed_at: Timestamp,
        /// When the status last changed.
        last_transition_at: Timestamp,
    }
}
record! {
    /// A condition as it stands.
    pub struct ConditionState {
        /// Type.
        r#type: String,
        /// What it is about.
        subject: String,
        /// True, False or Unknown, as last said.
        status: Status,
        /// CamelCase reason.
        reason: String,
        /// How bad.
        severity: Severity,
        /// When the status last changed.
        last_transition_at: Timestamp,
    }
}
record! {
    /// What is true of a device now.
    pub struct DeviceState in "public" {
        /// The device.
        device: DeviceId,
        /// Its name, as people see it.
        name: String,
        /// Slug of its site.
        site: SiteId,
        /// Slug of its role.
        role: String,
        /// Name of its rack.
        rack: Option<String>,
        /// SLURM NodeName.
        slurm_node: Option<String>,
        /// Its phase; absent while its role has no profile.
        phase: Option<Phase>,
        /// Since when.
        phase_since: Timestamp,
        /// Whose it is.
        owner: Owner,
        /// What a tenant makes of it.
        tenant_state: String,
        /// Its conditions.
        conditions: Vec<ConditionState>,
        /// Version of its stream: the count of its decisions that changed something.
        version: u64,
    }
}
record! {
    /// A bootstrap configuration has another version. What machines are installed with is asked of the API.
    pub struct BootstrapConfigVersioned in "public" {
        /// Slug of the site.
        site: SiteId,
        /// Slug of the role.
        role: String,
        /// Its version now.
        version: u64,
        /// Whether it was retired.
        retired: bool,
    }
}
