//! The topics a journal runs on, and which record goes where.

use fleet_log::{Cleanup, Durability, Record, TopicPartition, TopicSpec};
use fleet_schemas::{HOUR, Micros, Observation, topics as declared};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Names and partition counts of commands, observations, journal and parked.
#[derive(Clone, Debug)]
pub struct Topics {
    /// Partitions of the three co-partitioned topics.
    pub partitions: u32,
    /// Whether old inputs are ours to let go; Kafka's brokers do it by themselves.
    pub trims: bool,
}

/// Of a declared topic: where the log is Kafka, and where it is embedded.
fn partitions(topic: &str) -> (u32, u32) {
    declared::declared().topic.get(topic).map_or((1, 1), |t| (t.partitions, t.partitions_embedded))
}

fn spec(name: &str, topic: &declared::Topic, partitions: u32) -> TopicSpec {
    TopicSpec {
        name: declared::name(name).into(),
        partitions,
        cleanup: if topic.cleanup == "compact" { Cleanup::Compact } else { Cleanup::Delete },
        durability: if topic.durability == "awaited" { Durability::Awaited } else { Durability::Full },
        retention: (topic.retention_hours > 0).then(|| Duration::from_secs(topic.retention_hours * 3600)),
        settings: topic.kafka.clone(),
    }
}

impl Topics {
    /// As `infra/topics.toml` has them where the log is embedded.
    pub fn embedded() -> Self {
        Self { partitions: partitions(declared::JOURNAL).1, trims: true }
    }

    /// As it has them where the log is Kafka.
    pub fn kafka() -> Self {
        Self { partitions: partitions(declared::JOURNAL).0, trims: false }
    }

    /// What the embedded log must have.
    pub fn specs_embedded() -> Vec<TopicSpec> {
        let there = declared::declared().topic.iter().filter(|(_, topic)| topic.partitions_embedded > 0);
        there.map(|(name, topic)| spec(name, topic, topic.partitions_embedded)).collect()
    }

    /// What a Kafka cluster must have.
    pub fn specs_kafka() -> Vec<TopicSpec> {
        declared::declared().topic.iter().map(|(name, topic)| spec(name, topic, topic.partitions)).collect()
    }

    /// A partition of a declared topic.
    pub fn at(&self, topic: &str, partition: u32) -> TopicPartition {
        TopicPartition { topic: Arc::from(declared::name(topic)), partition }
    }

    /// Observations as records, by partition, their order kept.
    pub fn spread(&self, observations: &[Observation]) -> BTreeMap<u32, Vec<Record>> {
        let mut out: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
        for observation in observations {
            let record = Record { key: observation.stream.to_string().into(), value: fleet_schemas::encode(observation).into() };
            out.entry(observation.stream.partition(self.partitions)).or_default().push(record);
        }
        out
    }

    /// How long, and up to how many bytes a partition, an input topic keeps what was decided.
    pub fn retention(topic: &str) -> (Option<Micros>, Option<u64>) {
        declared::declared().topic.get(topic).map_or((None, None), |t| {
            let age = (t.retention_hours_embedded > 0).then(|| t.retention_hours_embedded as i64 * HOUR);
            (age, (t.retention_mib_embedded > 0).then_some(t.retention_mib_embedded << 20))
        })
    }
}
