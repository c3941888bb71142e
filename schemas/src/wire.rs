//! What passes between a satellite and its hub: the JSON bodies of the gateway's three batch routes, and their answers.
//!
//! A batch is of one client, so of one source. The first batch of a client's boot carries `boot` and no `epoch`; its answer grants the
//! epoch, which every later batch names. Facts of [`ObservationsBatch`] travel in their Avro form, under the contract that the log has.

use crate::{BootId, ConditionReport, DeviceId, Fingerprint, LookFault, ObservationId, Payload, SchedulerSection, SourceSeq, Status};
use crate::{StreamId, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// Items that one batch may have.
pub const MOST_ITEMS: usize = 500;
/// Bytes that one batch may have, unpacked.
pub const MOST_BYTES: usize = 1 << 20;

/// Who sends, of which run of it, and when by its own clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// The run, in its first batch: asks for an epoch. A repeat is granted the same.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
    /// The epoch that it was granted, in every other batch. Writers that keep no order name neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// When the batch was sent, RFC 3339; absent = when it arrived.
    #[serde(with = "text::option", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
}

/// Body of POST `/sites/{site}/observations:batch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObservationsBatch {
    /// The sender.
    pub run: Run,
    /// At most 500 observations, in the source's order.
    pub items: Vec<ObservationItem>,
}

/// One observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObservationItem {
    /// Its id; a repeat carries the same.
    #[serde(with = "text")]
    pub id: ObservationId,
    /// What it is about: `device/<uuid>`, or `site/<name>` for the end of a sweep.
    pub stream: StreamId,
    /// The thing's own id in the source.
    pub native_id: String,
    /// When the source's answer was read.
    #[serde(with = "text")]
    pub observed_at: Timestamp,
    /// Its place in the source's order.
    pub source_seq: SourceSeq,
    /// What was seen.
    pub fact: WireFact,
}

/// A fact in its Avro form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireFact {
    /// The record's name, `NetboxDeviceSeen`.
    pub r#type: String,
    /// Fingerprint of the schema that wrote it (CRC-64-AVRO), 16 hexadecimal digits.
    pub schema: String,
    /// The Avro datum, base64.
    pub bytes: String,
}

impl WireFact {
    /// A fact, for sending.
    pub fn of(payload: &Payload) -> Self {
        Self { r#type: payload.r#type.clone(), schema: payload.schema.to_string(), bytes: STANDARD.encode(&payload.bytes) }
    }

    /// And back; the error says what is no fact about it.
    pub fn payload(&self) -> Result<Payload, String> {
        let digits = (self.schema.len() == 16).then(|| u64::from_str_radix(&self.schema, 16).ok()).flatten();
        let schema = digits.ok_or("fact.schema: 16 hexadecimal digits")?;
        let bytes = STANDARD.decode(&self.bytes).map_err(|e| format!("fact.bytes: base64: {e}"))?;
        Ok(Payload { r#type: self.r#type.clone(), schema: Fingerprint(schema.to_be_bytes()), bytes: bytes.into() })
    }
}

/// Body of POST `/sites/{site}/conditions:batch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConditionsBatch {
    /// The sender.
    pub run: Run,
    /// At most 500 statements; those of one device and one look stand together.
    pub conditions: Vec<ConditionItem>,
    /// The look that ends with this batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
    /// Things of the source that no device claims; together with the statements at most 500.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unclaimed: Vec<UnclaimedItem>,
}

/// A thing that the source shows and no device claims.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnclaimedItem {
    /// Its own id in the source; a SLURM NodeName. At most 200 characters.
    pub native_id: String,
    /// Whether it is there, and unclaimed; false is said once.
    pub present: bool,
    /// What it looks like, for people; at most 500 characters, the same from look to look.
    #[serde(default)]
    pub detail: String,
    /// When it was seen; absent = when it arrived.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Its place in the source's order; absent = ordered by arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_seq: Option<SourceSeq>,
}

/// One statement about a device. Body of POST `/devices/{id}/conditions` too, without `device`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConditionItem {
    /// The device's uuid, or its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// The thing's own id in the source; a SLURM NodeName. Absent = the writer names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// The condition's type.
    pub r#type: String,
    /// `device`, or a part of it.
    #[serde(default = "device", skip_serializing_if = "is_device")]
    pub subject: String,
    /// True, False or Unknown.
    pub status: Status,
    /// CamelCase.
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// When it was seen; absent = when it arrived.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Its place in the source's order; absent = ordered by arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_seq: Option<SourceSeq>,
}

fn device() -> String {
    "device".into()
}
fn is_device(subject: &str) -> bool {
    subject == "device"
}

impl ConditionItem {
    /// As the record that the log has.
    pub fn report(&self) -> ConditionReport {
        let Self { r#type, subject, status, reason, message, .. } = self.clone();
        ConditionReport { r#type, subject, status, reason, message }
    }
}

/// The end of a look at a source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// The source: the one that the client is known for.
    pub source: String,
    /// Whether everything was seen. A look that failed says nothing of any device.
    pub complete: bool,
    /// Things seen.
    #[serde(default)]
    pub count: i64,
    /// Seconds between looks; absent = what the site has for this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<i64>,
    /// Why it failed; only where it is not complete. Absent = `NoData`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<LookFault>,
    /// What was asked and what came back, secrets removed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the look began; absent = when the batch arrived.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Its place in the source's order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_seq: Option<SourceSeq>,
}

/// Body of PATCH `/sites/{site}/devices:batch`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DevicesBatch {
    /// The sender.
    pub run: Run,
    /// At most 500 devices.
    pub devices: Vec<DeviceItem>,
}

/// Section `scheduler` of a device as SLURM has it now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceItem {
    /// The device's uuid, or its name.
    pub device: String,
    /// The SLURM NodeName that was looked for.
    pub slurm_node: String,
    /// What SLURM says; null where it has no such node.
    pub scheduler: Option<SchedulerPatch>,
    /// When it was seen; absent = when it arrived.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub observed_at: Option<Timestamp>,
    /// Its place in the source's order; absent = ordered by arrival.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_seq: Option<SourceSeq>,
}

/// Section `scheduler`, in SLURM's own words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SchedulerPatch {
    /// NodeName; where it is given it must be the one looked for.
    pub slurm_node: Option<String>,
    /// State and flags, upper case.
    pub state: Vec<String>,
    /// Reservation that covers it.
    pub reservation: Option<String>,
    /// When slurmd started.
    #[serde(with = "text::option")]
    pub slurmd_start_time: Option<Timestamp>,
    /// CPUs as SLURM counts them.
    pub cpus: i64,
    /// CPUs that jobs have.
    pub alloc_cpus: i64,
    /// Partitions.
    pub partitions: Vec<String>,
    /// Features.
    pub features: Vec<String>,
    /// Generic resources.
    pub gres: Option<String>,
    /// Free-text reason.
    pub reason: Option<String>,
    /// Who set it.
    pub user: Option<String>,
    /// When it was set.
    #[serde(with = "text::option")]
    pub since: Option<Timestamp>,
    /// Since when the present DRAIN was seen without a break.
    #[serde(with = "text::option")]
    pub drain_since: Option<Timestamp>,
}

impl SchedulerPatch {
    /// From the record that the log has.
    pub fn of(section: &SchedulerSection) -> Self {
        let s = section.clone();
        Self {
            slurm_node: Some(s.slurm_node),
            state: s.state,
            reservation: s.reservation,
            slurmd_start_time: s.slurmd_start_time,
            cpus: s.cpus,
            alloc_cpus: s.alloc_cpus,
            partitions: s.partitions,
            features: s.features,
            gres: s.gres,
            reason: s.reason,
            user: s.reason_user,
            since: s.reason_since,
            drain_since: s.drain_since,
        }
    }

    /// And back, for the node `slurm_node`. Sets are sorted, so that equal states are equal.
    pub fn section(self, slurm_node: &str) -> SchedulerSection {
        let sorted = |mut list: Vec<String>| {
            list.sort();
            list.dedup();
            list
        };
        SchedulerSection {
            slurm_node: slurm_node.into(),
            state: sorted(self.state.into_iter().map(|t| t.to_uppercase()).collect()),
            reservation: self.reservation,
            slurmd_start_time: self.slurmd_start_time,
            cpus: self.cpus,
            alloc_cpus: self.alloc_cpus,
            partitions: sorted(self.partitions),
            features: sorted(self.features),
            gres: self.gres,
            reason: self.reason,
            reason_user: self.user,
            reason_since: self.since,
            drain_since: self.drain_since,
        }
    }
}

/// Answer to a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchAnswer {
    /// The epoch of the run, where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// What became of each item, in their order: conditions or devices or items, then the sweep, then what is unclaimed.
    pub results: Vec<ItemResult>,
    /// Digest of the site's device list as it is now ([`list_digest`]); a satellite that has another asks for the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_list: Option<String>,
}

/// What became of one item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemResult {
    /// `stored`: the log has it. `refused`: it never will.
    pub result: String,
    /// Why it was refused; a stable code.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub code: String,
    /// In words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl ItemResult {
    /// The log has it.
    pub fn stored() -> Self {
        Self { result: "stored".into(), code: String::new(), detail: String::new() }
    }

    /// It is refused for good.
    pub fn refused(code: &str, detail: impl Into<String>) -> Self {
        Self { result: "refused".into(), code: code.into(), detail: detail.into() }
    }
}

/// Digest of a device list: of what a satellite uses of it, in any order.
pub fn list_digest<'a>(devices: impl Iterator<Item = (DeviceId, Option<&'a str>)>) -> String {
    let mut lines: Vec<String> = devices.map(|(id, node)| format!("{id} {}\n", node.unwrap_or_default())).collect();
    lines.sort_unstable();
    crate::Hash::of(lines.concat().as_bytes()).to_string()[..16].to_owned()
}

/// Values that stand as their text in JSON: ids and times.
pub mod text {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::{fmt::Display, str::FromStr};

    /// As its text.
    pub fn serialize<T: Display, S: Serializer>(value: &T, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(value)
    }

    /// From its text.
    pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
        String::deserialize(d)?.parse().map_err(de::Error::custom)
    }

    /// The same where there may be none.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serializer, de};
        use std::{fmt::Display, str::FromStr};

        /// As its text, or null.
        pub fn serialize<T: Display, S: Serializer>(value: &Option<T>, s: S) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => s.collect_str(value),
                None => s.serialize_none(),
            }
        }

        /// From its text, or null.
        pub fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(d: D) -> Result<Option<T>, D::Error> {
            Option::<String>::deserialize(d)?.map(|text| text.parse().map_err(de::Error::custom)).transpose()
        }
    }
}
