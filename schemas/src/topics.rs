//! The topics, as `infra/topics.toml` declares them, and the rule that puts a key into a partition.

use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

/// Requests: API and reactor → decider.
pub const COMMANDS: &str = "commands.v1";
/// What agents saw: gateway → decider.
pub const OBSERVATIONS: &str = "observations.v1";
/// The truth: decider → everyone.
pub const JOURNAL: &str = "journal.v1";
/// That hubs live, and what they lead: hub → hubs. Only where several share the work.
pub const LEASES: &str = "leases.v1";
/// Public: what happens to devices.
pub const DEVICE_EVENTS: &str = "device-events.v1";
/// Public: what changes about their conditions.
pub const CONDITION_EVENTS: &str = "condition-events.v1";
/// Public, compacted: what is true of each device now.
pub const DEVICE_STATE: &str = "device-state.v1";
/// Public: versions of bootstrap configurations.
pub const BOOTSTRAP_CONFIG_EVENTS: &str = "bootstrap-config-events.v1";
/// Input that could not be decoded or decided.
pub const PARKED: &str = "parked.v1";

/// One topic of `infra/topics.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topic {
    /// Partitions where the log is Kafka. Part of the contract.
    pub partitions: u32,
    /// Partitions where the log is embedded. Part of the contract. 0 = not there.
    #[serde(default)]
    pub partitions_embedded: u32,
    /// `delete` or `compact`.
    pub cleanup: String,
    /// Hours a record is kept; 0 = for ever.
    pub retention_hours: u64,
    /// The same where the log is embedded.
    #[serde(default)]
    pub retention_hours_embedded: u64,
    /// MiB a partition may hold where the log is embedded; 0 = no limit.
    #[serde(default)]
    pub retention_mib_embedded: u64,
    /// Whether an embedded append is synced before it is acknowledged (`full`), or may ride on a later sync (`awaited`).
    pub durability: String,
    /// Topic configurations of Kafka's beyond those that every topic has.
    #[serde(default)]
    pub kafka: BTreeMap<String, String>,
    /// Who writes, who reads.
    pub flow: String,
}

/// `infra/topics.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topics {
    /// Prefix of every topic's name.
    pub prefix: String,
    /// The topics by name, without prefix.
    pub topic: BTreeMap<String, Topic>,
}

static TOPICS: LazyLock<Topics> = LazyLock::new(|| match toml::from_str(include_str!("../../infra/topics.toml")) {
    Ok(topics) => topics,
    Err(e) => unreachable!("infra/topics.toml does not parse: {e}"),
});

/// The declared topics.
pub fn declared() -> &'static Topics {
    &TOPICS
}

/// The full name of a topic.
pub fn name(topic: &str) -> String {
    format!("{}{topic}", TOPICS.prefix)
}

/// The partition of `key`: partition 0 is for reference streams alone, all others spread over the rest as Java producers spread them.
pub fn partition(key: &[u8], partitions: u32) -> u32 {
    if partitions < 2 { 0 } else { 1 + java_partition(key, partitions - 1) }
}

/// The partition that a Java producer puts `key` into: where a record of a public topic lies.
pub fn java_partition(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions.max(1)
}

/// Java's `org.apache.kafka.common.utils.Utils.murmur2`.
pub fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c_u32 ^ data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for c in &mut chunks {
        let mut k = u32::from_le_bytes([c[0], c[1], c[2], c[3]]).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        h = h.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    for (i, b) in rest.iter().enumerate() {
        h ^= u32::from(*b) << (8 * i);
    }
    if !rest.is_empty() {
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 13)).wrapping_mul(M);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that Kafka's own `UtilsTest.testMurmur2` has.
    #[test]
    fn murmur2_is_javas() {
        let known: &[(&str, i32)] = &[
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in known {
            assert_eq!(murmur2(key.as_bytes()) as i32, *hash, "{key}");
        }
    }

    #[test]
    fn partition_zero_is_kept_for_reference_streams() {
        for i in 0..1000 {
            assert!((1..5).contains(&partition(format!("device/{i}").as_bytes(), 5)));
        }
        assert_eq!(crate::StreamId::Site("lhr1".parse().unwrap()).partition(5), 0);
    }

    #[test]
    fn the_declared_topics_parse() {
        for topic in
            [COMMANDS, OBSERVATIONS, JOURNAL, LEASES, PARKED, DEVICE_EVENTS, CONDITION_EVENTS, DEVICE_STATE, BOOTSTRAP_CONFIG_EVENTS]
        {
            assert!(declared().topic.contains_key(topic), "{topic}");
        }
    }
}
