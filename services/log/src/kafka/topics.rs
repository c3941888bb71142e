//! Topics as they are and as they must be. What can be changed without harm is changed when asked for; what cannot is refused.

use super::{context::Context, options::MAX_BATCH, options::Options};
use crate::port::{Cleanup, Error, TopicSpec};
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::Metadata;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How long a change of topics may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is to be done about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is not there.
    Create {
        /// The topic.
        topic: String,
        /// Its partitions.
        partitions: u32,
        /// Copies of each.
        replication: u16,
    },
    /// A configuration differs, and can be set.
    Set {
        /// The topic.
        topic: String,
        /// The configuration.
        key: String,
        /// As it is.
        found: String,
        /// As it must be.
        wanted: String,
    },
    /// It differs in what cannot be changed here.
    Refuse {
        /// The topic.
        topic: String,
        /// The property.
        what: &'static str,
        /// As it is.
        found: String,
        /// As it must be.
        wanted: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { topic, partitions, replication } => write!(f, "create  {topic}: partitions {partitions}, copies {replication}"),
            Self::Set { topic, key, found, wanted } => write!(f, "set     {topic}: {key} = {wanted} (is {found})"),
            Self::Refuse { topic, what, found, wanted } => write!(f, "refuse  {topic}: {what} is {found}, must be {wanted}"),
        }
    }
}

impl Change {
    /// The refusal that it is to a program that may change nothing.
    pub fn refusal(&self) -> Error {
        let differs = |topic: &str, what: &str, found: &str, wanted: &str| Error::Differs {
            topic: topic.to_owned(),
            what: what.to_owned(),
            found: found.to_owned(),
            wanted: wanted.to_owned(),
        };
        match self {
            Self::Create { topic, .. } => Error::Missing { topic: topic.clone() },
            Self::Set { topic, key, found, wanted } => differs(topic, key, found, wanted),
            Self::Refuse { topic, what, found, wanted } => differs(topic, what, found, wanted),
        }
    }
}

pub(super) struct Topics {
    admin: Arc<AdminClient<Context>>,
    options: Options,
    context: Context,
}

struct Found {
    partitions: usize,
    replication: usize,
}

impl Topics {
    pub(super) fn new(options: &Options, context: &Context) -> Result<Self, Error> {
        let admin = AdminClient::from_config_and_context(&options.client(), context.clone())
            .map_err(|e| Error::Io(format!("no client can be made: {e}")))?;
        Ok(Self { admin: Arc::new(admin), options: options.clone(), context: context.clone() })
    }

    fn io(&self, what: &str, error: &dyn fmt::Display) -> Error {
        let trouble = self.context.trouble().map(|t| format!(" ({t})")).unwrap_or_default();
        Error::Io(format!("{what}: {error}{trouble}"))
    }

    /// What the brokers say of a topic; asking blocks, so another thread asks.
    async fn metadata(&self, name: &str) -> Result<Metadata, Error> {
        let (admin, topic) = (self.admin.clone(), name.to_owned());
        let asked = tokio::task::spawn_blocking(move || admin.inner().fetch_metadata(Some(&topic), super::consumers::ASK));
        asked.await.map_err(|e| self.io(name, &e))?.map_err(|e| self.io(name, &e))
    }

    /// The topic, or `None` where there is none.
    async fn found(&self, name: &str) -> Result<Option<Found>, Error> {
        let metadata = self.metadata(name).await?;
        let Some(topic) = metadata.topics().first() else { return Ok(None) };
        if let Some(error) = topic.error() {
            let code = RDKafkaErrorCode::from(error);
            return if code == RDKafkaErrorCode::UnknownTopicOrPartition { Ok(None) } else { Err(self.io(name, &code)) };
        }
        let replication = topic.partitions().iter().map(|p| p.replicas().len()).min().unwrap_or(0);
        Ok(Some(Found { partitions: topic.partitions().len(), replication }))
    }

    /// What differs between the topics and `specs`, in their order.
    pub(super) async fn plan(&self, specs: &[TopicSpec]) -> Result<Vec<Change>, Error> {
        let mut changes = Vec::new();
        for spec in specs {
            let topic = self.name(spec);
            let Some(found) = self.found(&topic).await? else {
                changes.push(Change::Create { topic, partitions: spec.partitions, replication: self.options.replication });
                continue;
            };
            let refuse = |what, found: usize, wanted: usize| Change::Refuse {
                topic: topic.clone(),
                what,
                found: found.to_string(),
                wanted: wanted.to_string(),
            };
            if found.partitions != spec.partitions as usize {
                changes.push(refuse("partition count", found.partitions, spec.partitions as usize));
            }
            if found.replication < usize::from(self.options.replication) {
                changes.push(refuse("replication", found.replication, self.options.replication.into()));
            }
            let stands = self.configs(&topic).await?;
            for (key, wanted) in self.wanted(spec) {
                let is = stands.get(&key).map_or("", |(value, _)| value);
                if is != wanted {
                    changes.push(Change::Set { topic: topic.clone(), key, found: is.to_owned(), wanted });
                }
            }
        }
        Ok(changes)
    }

    /// Makes what `changes` name; whatever is refused is left to a person.
    pub(super) async fn apply(&self, specs: &[TopicSpec], changes: &[Change]) -> Result<(), Error> {
        for spec in specs {
            let name = self.name(spec);
            if changes.iter().any(|c| matches!(c, Change::Create { topic, .. } if *topic == name)) {
                self.create(spec, &name).await?;
            }
            if changes.iter().any(|c| matches!(c, Change::Set { topic, .. } if *topic == name)) {
                self.set(spec, &name).await?;
            }
        }
        Ok(())
    }

    async fn create(&self, spec: &TopicSpec, name: &str) -> Result<(), Error> {
        let wanted = self.wanted(spec);
        let copies = TopicReplication::Fixed(self.options.replication.into());
        let mut new = NewTopic::new(name, spec.partitions as i32, copies);
        for (key, value) in &wanted {
            new = new.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE)).request_timeout(Some(PATIENCE));
        let made = self.admin.create_topics([&new], &options).await.map_err(|e| self.io(name, &e))?;
        match made.into_iter().next() {
            // Somebody else made it at the same time; what differs is found by the next look.
            Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) | None => self.until_known(spec, name).await,
            Some(Err((_, code))) => Err(self.io(&format!("{name} cannot be made"), &code)),
        }
    }

    /// A broker that is asked too early has not heard of the topic, or of the leaders of its partitions.
    async fn until_known(&self, spec: &TopicSpec, name: &str) -> Result<(), Error> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let metadata = self.metadata(name).await;
            let led = metadata.is_ok_and(|m| {
                m.topics().first().is_some_and(|t| {
                    t.partitions().len() == spec.partitions as usize
                        && t.partitions().iter().all(|p| p.error().is_none() && p.leader() >= 0)
                })
            });
            if led {
                return Ok(());
            }
            if tokio::time::Instant::now() > until {
                return Err(self.io(name, &"its partitions have no leaders"));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Altering replaces every override: what others set and we have no word about is sent along.
    async fn set(&self, spec: &TopicSpec, name: &str) -> Result<(), Error> {
        let own = self.configs(name).await?.into_iter().filter(|(_, (_, own))| *own).map(|(key, (value, _))| (key, value));
        let all: BTreeMap<String, String> = own.chain(self.wanted(spec)).collect();
        let mut alter = AlterConfig::new(ResourceSpecifier::Topic(name));
        for (key, value) in &all {
            alter = alter.set(key, value);
        }
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let done = self.admin.alter_configs([&alter], &options).await.map_err(|e| self.io(name, &e))?;
        match done.into_iter().next() {
            Some(Err((_, code))) => Err(self.io(&format!("{name} cannot be altered"), &code)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// The configurations of a topic, and whether they are its own. A broker that has not heard of it yet describes it as empty.
    async fn configs(&self, name: &str) -> Result<BTreeMap<String, (String, bool)>, Error> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let told = self.described(name).await?;
            if !told.is_empty() {
                return Ok(told);
            }
            if tokio::time::Instant::now() > until {
                return Err(self.io(name, &"no broker describes it"));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn described(&self, name: &str) -> Result<BTreeMap<String, (String, bool)>, Error> {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let told = self.admin.describe_configs([&ResourceSpecifier::Topic(name)], &options).await.map_err(|e| self.io(name, &e))?;
        let resource = told.into_iter().next().ok_or_else(|| self.io(name, &"nothing was described"))?;
        let resource = resource.map_err(|code| self.io(name, &KafkaError::AdminOp(code)))?;
        let entry = |e: rdkafka::admin::ConfigEntry| (e.name, (e.value.unwrap_or_default(), e.source == ConfigSource::DynamicTopic));
        Ok(resource.entries.into_iter().map(entry).collect())
    }

    fn wanted(&self, spec: &TopicSpec) -> BTreeMap<String, String> {
        let cleanup = match spec.cleanup {
            Cleanup::Delete => "delete",
            Cleanup::Compact => "compact",
        };
        let mut wanted: BTreeMap<String, String> = [
            ("cleanup.policy", cleanup.to_owned()),
            ("retention.ms", spec.retention.map_or("-1".to_owned(), |r| r.as_millis().to_string())),
            ("retention.bytes", "-1".into()),
            ("min.insync.replicas", self.options.min_insync.to_string()),
            ("max.message.bytes", MAX_BATCH.to_string()),
            // The log's clock, as the port promises: retention must not hang on the clock of a producer.
            ("message.timestamp.type", "LogAppendTime".into()),
            ("unclean.leader.election.enable", "false".into()),
            ("compression.type", "producer".into()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
        wanted.extend(spec.settings.clone());
        wanted
    }

    pub(super) fn name(&self, spec: &TopicSpec) -> String {
        format!("{}{}", self.options.prefix, spec.name)
    }

    pub(super) fn admin(&self) -> &AdminClient<Context> {
        &self.admin
    }
}
