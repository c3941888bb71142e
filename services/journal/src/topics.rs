//! The topics a journal runs on, and which record goes where.

use fleet_log::{Cleanup, Durability, Record, TopicPartition, TopicSpec};
use fleet_schemas::{HOUR, Micros, Observation, topics as declared};
use std::{collections::BTreeMap, sync::Arc};

/// Names and partition counts of commands, observations, journal and parked.
#[derive(Clone, Debug)]
pub struct Topics {
    /// Partitions of the three co-partitioned topics.
    pub partitions: u32,
}

impl Topics {
    /// As `infra/topics.toml` has them where the log is embedded.
    pub fn embedded() -> Self {
        Self { partitions: declared::declared().topic.get(declared::JOURNAL).map_or(1, |t| t.partitions_embedded) }
    }

    /// What the embedded log must have.
    pub fn specs_embedded() -> Vec<TopicSpec> {
        let spec = |(name, topic): (&String, &declared::Topic)| TopicSpec {
            name: declared::name(name).into(),
            partitions: topic.partitions_embedded,
            cleanup: if topic.cleanup == "compact" { Cleanup::Compact } else { Cleanup::Delete },
            durability: if topic.durability == "awaited" { Durability::Awaited } else { Durability::Full },
        };
        declared::declared().topic.iter().map(spec).collect()
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
