//! From an event of the journal to the record that others read.

use super::fold::Subject;
use bytes::Bytes;
use fleet_lifecycle::Device;
use fleet_lifecycle::device::tenant_state;
use fleet_log::Public;
use fleet_schemas::{
    BootstrapConfigEvent, BootstrapConfigVersioned, ConditionState, Decision, DeviceConditionChanged, DeviceEvent, DeviceHeld, DeviceId,
    DeviceListed, DeviceOperationEnded, DeviceOperationStarted, DevicePhaseChanged, DeviceReleased, DeviceRelocated, DeviceState, Event,
    Record, StreamId, Timestamp, decode, encode, fingerprint_of, registry, topics,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the value of a public record is framed.
#[derive(Clone, Debug, Default)]
pub enum Frame {
    /// Avro single object: the schema's fingerprint stands in the record.
    #[default]
    SingleObject,
    /// Confluent's: the id that a registry gave the schema of each record, by the record's name.
    Registry(Arc<BTreeMap<String, i32>>),
}

/// A record for a public topic.
pub(super) struct Out {
    pub(super) topic: &'static str,
    /// Name of the record.
    pub(super) name: &'static str,
    pub(super) record: Public,
}

/// What a public record says of itself in its headers.
struct Envelope<'a> {
    id: String,
    name: &'static str,
    subject: &'a StreamId,
    at: Timestamp,
    seq: u64,
    version: u64,
    site: Option<&'a str>,
    trace: &'a str,
}

/// A public record's name, and its value as a single object.
pub struct Published {
    /// Name of the record.
    pub name: &'static str,
    /// The bytes.
    pub value: Vec<u8>,
}

fn record<T: Record>(record: &T) -> Published {
    Published { name: T::NAME, value: encode(record) }
}

/// The public record of an event, and which topic is its: fixed for ever for each type of event, since `fleet_seq` counts by topic.
pub fn published(stream: &StreamId, event: &Event) -> Option<(&'static str, Published)> {
    match (stream, event) {
        (StreamId::Device(device), Event::Device(event)) => of_device(*device, event),
        (StreamId::BootstrapConfig(site, role), Event::BootstrapConfig(event)) => {
            let (version, retired) = match event {
                BootstrapConfigEvent::BootstrapConfigCreated(e) => (e.version, false),
                BootstrapConfigEvent::BootstrapConfigChanged(e) => (e.version, false),
                BootstrapConfigEvent::BootstrapConfigRetired(e) => (e.version, true),
            };
            let told = BootstrapConfigVersioned { site: site.clone(), role: role.to_string(), version, retired };
            Some((topics::BOOTSTRAP_CONFIG_EVENTS, record(&told)))
        }
        _ => None,
    }
}

fn of_device(device: DeviceId, event: &DeviceEvent) -> Option<(&'static str, Published)> {
    let told = match event {
        DeviceEvent::InventoryChanged(e) => {
            let i = e.inventory.clone();
            let (name, site, role, rack) = (i.name.unwrap_or(i.display), i.site, i.role, i.rack);
            record(&DeviceListed { device, name, site, role, rack, slurm_node: i.slurm_node, serial: i.serial, changed: e.changed.clone() })
        }
        DeviceEvent::DeviceMoved(e) => record(&DeviceRelocated { device, from: e.from.clone(), to: e.to.clone() }),
        DeviceEvent::PhaseChanged(e) => {
            let (stage, cause, then, until) = (e.stage, e.cause.clone(), e.then, e.until);
            record(&DevicePhaseChanged { device, from: e.from, to: e.to, stage, cause, then, until })
        }
        DeviceEvent::HoldPlaced(e) => record(&DeviceHeld { device, hold: e.name.clone(), until: e.expires_at }),
        DeviceEvent::HoldLifted(e) => record(&DeviceReleased { device, hold: e.name.clone() }),
        DeviceEvent::OperationStarted(e) => {
            record(&DeviceOperationStarted { device, operation: e.operation, verb: e.verb.clone(), deadline: e.deadline })
        }
        DeviceEvent::OperationEnded(e) => record(&DeviceOperationEnded { device, operation: e.operation, state: e.state }),
        DeviceEvent::ConditionChanged(e) => {
            let r = e.report.clone();
            let told = DeviceConditionChanged {
                device,
                r#type: r.r#type,
                subject: r.subject,
                status: r.status,
                reason: r.reason,
                severity: e.severity,
                effects: e.effects.clone(),
                source: e.source.clone(),
                site: e.site.clone(),
                observed_at: e.observed_at,
                last_transition_at: e.last_transition_at,
            };
            return Some((topics::CONDITION_EVENTS, record(&told)));
        }
        // How the control plane works inside: no contract.
        DeviceEvent::DrainRedirected(_)
        | DeviceEvent::DrainProven(_)
        | DeviceEvent::DrainUnproven(_)
        | DeviceEvent::StageSkipped(_)
        | DeviceEvent::SchedulerChanged(_)
        | DeviceEvent::TaskPlanned(_)
        | DeviceEvent::TaskDone(_)
        | DeviceEvent::TaskWithdrawn(_)
        | DeviceEvent::AttentionRaised(_)
        | DeviceEvent::AttentionCleared(_)
        | DeviceEvent::AttentionAcknowledged(_)
        | DeviceEvent::WaitArmed(_)
        | DeviceEvent::DeadlineUnobservable(_)
        | DeviceEvent::DriftAccepted(_)
        | DeviceEvent::EditJudged(_)
        | DeviceEvent::AnnotationsChanged(_)
        | DeviceEvent::ClaimsChanged(_)
        | DeviceEvent::GrantChanged(_) => return None,
    };
    Some((topics::DEVICE_EVENTS, told))
}

/// The record of one event of a decision, if others are told of it; counts it.
pub(super) fn of(decision: &Decision, index: usize, event: &Event, subject: &mut Subject) -> Option<Out> {
    let (topic, told) = published(&decision.stream, event)?;
    let count = &mut subject.told[usize::from(topic == topics::CONDITION_EVENTS)];
    *count += 1;
    let envelope = Envelope {
        id: format!("{}/{index}", decision.id),
        name: told.name,
        subject: &decision.stream,
        at: decision.recorded_at,
        seq: *count,
        version: decision.version,
        site: subject.site.as_ref().map(|s| s.as_str()),
        trace: &decision.trace_id,
    };
    Some(Out { topic, name: told.name, record: envelope.seal(Some(told.value)) })
}

/// The state of a device as its record; a tombstone where it is gone for good. None where it was never listed.
pub(super) fn state(device: &Device, version: u64, changed_at: Timestamp) -> Option<Out> {
    let inventory = device.inventory.as_ref()?;
    let stream = StreamId::Device(device.id);
    let site = device.site.clone().unwrap_or_else(|| inventory.site.clone());
    let told = DeviceState {
        device: device.id,
        name: device.name(),
        site: site.clone(),
        role: inventory.role.clone(),
        rack: inventory.rack.clone(),
        slurm_node: inventory.slurm_node.clone(),
        phase: device.phase,
        phase_since: device.phase_since,
        owner: device.owner,
        tenant_state: tenant_state(device.phase, device.impaired()).to_owned(),
        conditions: device.conditions.iter().map(condition).collect(),
        version,
    };
    let gone = device.phase == Some(fleet_schemas::Phase::Decommissioned);
    let envelope = Envelope {
        id: format!("{}/{version}", device.id),
        name: DeviceState::NAME,
        subject: &stream,
        at: changed_at,
        seq: version,
        version,
        site: Some(site.as_str()),
        trace: "",
    };
    Some(Out { topic: topics::DEVICE_STATE, name: DeviceState::NAME, record: envelope.seal((!gone).then(|| encode(&told))) })
}

fn condition(c: &fleet_lifecycle::device::Condition) -> ConditionState {
    let (r#type, subject, reason) = (c.r#type.clone(), c.subject.clone(), c.reason.clone());
    ConditionState { r#type, subject, status: c.status, reason, severity: c.severity, last_transition_at: c.last_transition_at }
}

impl Envelope<'_> {
    /// CloudEvents 1.0 in Kafka's binary mode, and our own headers.
    fn seal(self, value: Option<Vec<u8>>) -> Public {
        let subject = self.subject.to_string();
        let mut headers = vec![
            ("ce_specversion", "1.0".to_owned()),
            ("ce_id", self.id),
            ("ce_source", "/fleet-manager".to_owned()),
            ("ce_type", format!("fm.{}.v1", self.name)),
            ("ce_subject", subject.clone()),
            ("ce_time", self.at.to_string()),
            ("fleet_seq", self.seq.to_string()),
            ("fleet_version", self.version.to_string()),
        ];
        if let Some(value) = &value
            && let Ok(fingerprint) = fingerprint_of(value)
        {
            headers.push(("ce_dataschema", format!("urn:fleet-manager:avro:{fingerprint}")));
            headers.push(("content-type", "application/avro".to_owned()));
        }
        headers.extend(self.site.map(|site| ("fleet_site", site.to_owned())));
        // A trace id alone names no span: the record is one of its own.
        if self.trace.len() == 32 {
            headers.push(("traceparent", format!("00-{}-{}-01", self.trace, &self.trace[16..])));
        }
        Public { key: subject.into(), value: value.map(Bytes::from), headers }
    }
}

impl Frame {
    /// The version in a record of the state topic; none of a tombstone, or of what cannot be read.
    pub(super) fn version(&self, value: &[u8]) -> Option<u64> {
        let object = match self {
            Self::SingleObject => value.to_vec(),
            Self::Registry(ids) => {
                let id = ids.get(DeviceState::NAME)?;
                let datum = value.strip_prefix(&[0])?.strip_prefix(&id.to_be_bytes())?;
                let marker: &[u8] = &[0xc3, 0x01];
                [marker, &registry::current::<DeviceState>().fingerprint.0, datum].concat()
            }
        };
        decode::<DeviceState>(&object).ok().map(|state| state.version)
    }

    /// A single object in this frame; an error names the record that the registry does not know.
    pub(super) fn put(&self, name: &str, value: Bytes) -> Result<Bytes, String> {
        let Self::Registry(ids) = self else { return Ok(value) };
        let id = ids.get(name).ok_or_else(|| format!("the registry has no schema of {name}: `fleet-manager schemas register`"))?;
        let mut framed = Vec::with_capacity(value.len() - 5);
        framed.push(0);
        framed.extend_from_slice(&id.to_be_bytes());
        framed.extend_from_slice(&value[10..]);
        Ok(framed.into())
    }
}
