//! What was seen. A fact cannot be refused.

use crate::{Closing, Hash, LookFault, ObservationId, Payload, SiteId, Source, Status, StreamId, Timestamp, UnclaimedSeen};

record! {
    /// The order of one source's observations: compared per (stream, site, source), first by epoch, then by counter.
    pub struct SourceSeq {
        /// Which run of the agent: granted by the site's stream, so that a later run is always later. 0 = the writer keeps no order.
        epoch: u64,
        /// Counts up within the epoch.
        counter: u64,
    }
}

impl SourceSeq {
    /// Of a writer that keeps no order: its observations are ordered by arrival.
    pub const BY_ARRIVAL: Self = Self { epoch: 0, counter: 0 };
}

impl PartialOrd for SourceSeq {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some((self.epoch, self.counter).cmp(&(other.epoch, other.counter)))
    }
}

record! {
    /// One observation on `fm.observations.v1`, keyed by its stream.
    pub struct Observation in "observation" {
        /// Its id; a repeat carries the same.
        id: ObservationId,
        /// What it is about.
        stream: StreamId,
        /// The fact: a record of kind `observation`.
        fact: Payload,
        /// The site whose agent looked.
        site: SiteId,
        /// The system that was looked at: netbox, slurm.
        source: Source,
        /// The thing's own id in that system, as the agent read it.
        native_id: String,
        /// Its place in the source's order.
        source_seq: SourceSeq,
        /// When the agent had the answer.
        observed_at: Timestamp,
        /// When the satellite sent it.
        sent_at: Timestamp,
        /// When the hub took it.
        received_at: Timestamp,
        /// The client that sent it.
        client: String,
        /// W3C trace id, or empty.
        trace_id: String,
        /// The sites that the client's right reaches; empty = the site whose agent looked.
        reach: Vec<String> = default,
    }
}

impl Observation {
    /// Whether the right of the client that sent it reaches `site`. It is asked when the gateway takes it, and again when it is decided.
    pub fn reaches(&self, site: &SiteId) -> bool {
        if self.reach.is_empty() { *site == self.site } else { self.reach.iter().any(|r| r == "*" || r == site.as_str()) }
    }
}

record! {
    /// A device as NetBox has it. Names are NetBox's own.
    pub struct Inventory {
        /// Which NetBox.
        instance: String,
        /// `id` of the device there: its only identity.
        netbox_id: i64,
        /// `name`; null and empty are one: no name.
        name: Option<String>,
        /// `display`: what people see, also where there is no name.
        display: String,
        /// Slug of the site.
        site: SiteId,
        /// Slug of the role.
        role: String,
        /// Slug of the device type.
        device_type: String,
        /// `serial`; evidence, never identity.
        serial: Option<String>,
        /// `asset_tag`.
        asset_tag: Option<String>,
        /// Name of the rack.
        rack: Option<String>,
        /// Lowest rack unit, in tenths of a unit (1.5 U = 15).
        position_tenths: Option<i64>,
        /// `front` or `rear`.
        face: Option<String>,
        /// Status value; an open string, since a site may choose its own.
        status: String,
        /// Custom field `fleet_phase`, as it stands.
        fleet_phase: Option<String>,
        /// Slug of the tenant.
        tenant: Option<String>,
        /// Slugs of the tags, sorted.
        tags: Vec<String>,
        /// SLURM NodeName, where an explicit link names one.
        slurm_node: Option<String>,
        /// Where that link comes from: `custom-field` or `rule:name`.
        slurm_node_from: Option<String>,
    }
}

record! {
    /// A person's edit of a field that the lifecycle cares about, from NetBox's change feed.
    pub struct StatusEdit {
        /// Id of the object change.
        change_id: i64,
        /// NetBox's request id.
        request_id: String,
        /// Name of the user.
        user: String,
        /// `status` or `fleet_phase`.
        field: String,
        /// Value before, or empty.
        before: String,
        /// Value after, or empty.
        after: String,
        /// When, by NetBox's clock.
        at: Timestamp,
    }
}

record! {
    /// A named statement about a device, as an agent reports it.
    pub struct ConditionReport {
        /// Type, e.g. `SlurmSchedulable`.
        r#type: String,
        /// `device`, or a part of it: `gpu/<uuid>`, `nic/<guid>`.
        subject: String,
        /// True, False or Unknown.
        status: Status,
        /// CamelCase reason.
        reason: String,
        /// For people.
        message: String,
    }
}

record! {
    /// NetBox has this device, like this.
    pub struct NetboxDeviceSeen in "observation" {
        /// The record.
        inventory: Inventory,
        /// The conditions it yields: InventoryMatched, IdentityConflict.
        conditions: Vec<ConditionReport>,
        /// Edits by people since the agent last reported, oldest first.
        edits: Vec<StatusEdit>,
    }
}

record! {
    /// NetBox has this device no more: missed by a complete sweep or named by a delete, and confirmed by GET 404.
    pub struct NetboxDeviceGone in "observation" {
        /// Which NetBox.
        instance: String,
        /// Its id there.
        netbox_id: i64,
        /// Who deleted it, where the change feed says so.
        deleted_by: Option<String>,
        /// `change-feed` or `sweep`.
        noticed_by: String,
    }
}

record! {
    /// What SLURM says of a node, in its own words. Section `scheduler` of a device.
    pub struct SchedulerSection {
        /// NodeName.
        slurm_node: String,
        /// State and flags, upper case, sorted.
        state: Vec<String>,
        /// Reservation that covers it, where the API names one.
        reservation: Option<String>,
        /// When slurmd started.
        slurmd_start_time: Option<Timestamp>,
        /// CPUs as SLURM counts them.
        cpus: i64,
        /// CPUs that jobs have.
        alloc_cpus: i64,
        /// Partitions, sorted.
        partitions: Vec<String>,
        /// Features, sorted.
        features: Vec<String>,
        /// Generic resources.
        gres: Option<String>,
        /// Free-text reason; never parsed beyond our own mark.
        reason: Option<String>,
        /// Who set the reason.
        reason_user: Option<String>,
        /// When it was set.
        reason_since: Option<Timestamp>,
        /// Since when the agent has seen the present DRAIN without a break; absent when not draining. A DRAIN that came back
        /// after a look without it is a new one, whatever its reason says.
        drain_since: Option<Timestamp>,
    }
}

record! {
    /// What one poll of SLURM says of one device.
    pub struct SlurmNodeSeen in "observation" {
        /// NodeName that was looked for.
        slurm_node: String,
        /// The conditions it yields.
        conditions: Vec<ConditionReport>,
        /// The node's own state; absent when the node is in no answer.
        section: Option<SchedulerSection>,
    }
}

record! {
    /// What SLURM itself says of the node of one device: section `scheduler`, without a judgement.
    pub struct SchedulerSeen in "observation" {
        /// NodeName that was looked for.
        slurm_node: String,
        /// The node's own state; absent when the node is in no answer.
        section: Option<SchedulerSection>,
    }
}

record! {
    /// What a writer says of one device: conditions of the types that it may report, without the state behind them.
    pub struct ConditionsSeen in "observation" {
        /// The statements.
        conditions: Vec<ConditionReport>,
    }
}

record! {
    /// One complete look at a source ended. On the site's stream.
    pub struct SweepCompleted in "observation" {
        /// The source.
        source: Source,
        /// Seconds between looks, from which staleness is judged.
        interval_seconds: i64,
        /// Things seen.
        count: i64,
    }
}

record! {
    /// A look at a source failed. On the site's stream; says nothing about any device.
    pub struct LookFailed in "observation" {
        /// The source.
        source: Source,
        /// Seconds between looks.
        interval_seconds: i64,
        /// What kind of failure.
        fault: LookFault,
        /// What was asked and what came back, secrets removed.
        message: String,
    }
}

payloads! {
    /// Any fact.
    pub enum Fact {
        NetboxDeviceSeen, NetboxDeviceGone, SlurmNodeSeen, SchedulerSeen, ConditionsSeen, SweepCompleted, LookFailed, UnclaimedSeen,
    }
}

record! {
    /// Input that could not be decoded or decided, kept as it was. On `fm.parked.v1`.
    pub struct Parked in "observation" {
        /// Topic it stood in.
        topic: String,
        /// Partition there.
        partition: u32,
        /// Offset there.
        offset: u64,
        /// Its key.
        key: serde_bytes::ByteBuf,
        /// Its bytes.
        value: serde_bytes::ByteBuf,
        /// SHA-256 of its bytes.
        hash: Hash,
        /// Who could not use it: `decider`, `projector`.
        parked_by: String,
        /// Why.
        why: String,
        /// When.
        parked_at: Timestamp,
    }
}
record! {
    /// What became of a parked input, by a person's word. On `fm.parked.v1`, behind it.
    pub struct ParkedClosed in "observation" {
        /// Topic it stood in.
        topic: String,
        /// Partition there.
        partition: u32,
        /// Offset there.
        offset: u64,
        /// What became of it.
        closing: Closing,
        /// Who said so.
        by: String,
        /// Why.
        reason: String,
        /// When.
        closed_at: Timestamp,
    }
}
