//! The public topics described: AsyncAPI 3.0, made from `infra/topics.toml` and the records' own declarations. Committed, and compared.

use fleet_schemas::{
    BootstrapConfigVersioned, DeviceConditionChanged, DeviceHeld, DeviceListed, DeviceOperationEnded, DeviceOperationStarted,
    DevicePhaseChanged, DeviceReleased, DeviceRelocated, DeviceState, Record, registry, topics,
};
use serde_json::{Map, Value, json};

/// A record of a public topic: its name, and its schema's text.
pub struct Contract {
    /// The topic, without prefix.
    pub topic: &'static str,
    /// Name of the record.
    pub name: &'static str,
    /// Its schema, as it is published.
    pub schema: String,
}

fn of<T: Record>(topic: &'static str) -> Contract {
    Contract { topic, name: T::NAME, schema: registry::text::<T>() }
}

/// Every record that a public topic may hold.
pub fn contracts() -> Vec<Contract> {
    let events = topics::DEVICE_EVENTS;
    vec![
        of::<DeviceListed>(events),
        of::<DeviceRelocated>(events),
        of::<DevicePhaseChanged>(events),
        of::<DeviceHeld>(events),
        of::<DeviceReleased>(events),
        of::<DeviceOperationStarted>(events),
        of::<DeviceOperationEnded>(events),
        of::<DeviceConditionChanged>(topics::CONDITION_EVENTS),
        of::<DeviceState>(topics::DEVICE_STATE),
        of::<BootstrapConfigVersioned>(topics::BOOTSTRAP_CONFIG_EVENTS),
    ]
}

/// The document.
fn asyncapi() -> Value {
    let (mut channels, mut operations, mut messages) = (Map::new(), Map::new(), Map::new());
    for contract in contracts() {
        let key = contract.topic.trim_end_matches(".v1").to_owned();
        let channel = channels.entry(key.clone()).or_insert_with(|| channel(contract.topic));
        channel["messages"][contract.name] = json!({"$ref": format!("#/components/messages/{}", contract.name)});
        operations
            .entry(format!("read-{key}"))
            .or_insert_with(|| json!({"action": "receive", "channel": {"$ref": format!("#/channels/{key}")}}));
        messages.insert(contract.name.to_owned(), message(&contract));
    }
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "Fleet Manager, public topics",
            "version": "1",
            "description": "What happens to a fleet's devices, for other teams. docs/contracts/public-topics.md says how to read them.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/avro",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages, "messageTraits": {"event": {"headers": headers()}}},
    })
}

fn channel(topic: &str) -> Value {
    let declared = topics::declared().topic.get(topic);
    let compact = declared.is_some_and(|t| t.cleanup == "compact");
    let retention = declared.filter(|t| t.retention_hours > 0).map_or(json!(-1), |t| json!(t.retention_hours * 3_600_000));
    json!({
        "address": topics::name(topic),
        "messages": {},
        "bindings": {"kafka": {
            "topic": topics::name(topic),
            "partitions": declared.map_or(1, |t| t.partitions),
            "topicConfiguration": {"cleanup.policy": [if compact { "compact" } else { "delete" }], "retention.ms": retention},
        }},
    })
}

fn message(contract: &Contract) -> Value {
    let schema: Value = serde_json::from_str(&contract.schema).unwrap_or_default();
    json!({
        "name": contract.name,
        "title": schema["doc"],
        "contentType": "application/avro",
        "traits": [{"$ref": "#/components/messageTraits/event"}],
        "payload": {"schemaFormat": "application/vnd.apache.avro;version=1.9.0", "schema": schema},
        "bindings": {"kafka": {"key": {"type": "string", "description": "the subject"}}},
    })
}

fn headers() -> Value {
    let text = |about: &str| json!({"type": "string", "description": about});
    json!({"type": "object", "required": ["ce_id", "ce_type", "ce_subject", "ce_time", "fleet_seq", "fleet_version"], "properties": {
        "ce_specversion": text("1.0"),
        "ce_id": text("the same for a repeat"),
        "ce_source": text("/fleet-manager"),
        "ce_type": text("fm.<record>.v1"),
        "ce_subject": text("device/<id> or bootstrap-config/<site>/<role>"),
        "ce_time": text("when it was decided, RFC 3339"),
        "ce_dataschema": text("urn:fleet-manager:avro:<fingerprint>; absent of a tombstone"),
        "fleet_seq": text("from 1 without a hole for each subject in a topic; in device-state: fleet_version"),
        "fleet_version": text("version of the subject after it"),
        "fleet_site": text("slug of the subject's site"),
        "traceparent": text("W3C; where the request that led to it had one"),
    }})
}

/// The document as it is committed.
pub fn asyncapi_text() -> String {
    // What serde_json made, serde_yaml_ng can write.
    serde_yaml_ng::to_string(&asyncapi()).unwrap_or_default()
}
