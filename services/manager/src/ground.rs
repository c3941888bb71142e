//! What a hub stands on: its log, how many partitions that has, and whether other hubs stand there too.

use crate::args::Role;
use crate::configuration::{Log, hub::Configuration};
use crate::embedded;
use crate::folder::Folder;
use crate::schemas::Asking;
use anyhow::{Context, bail};
use fleet_fence::Position;
use fleet_hub::Frame;
use fleet_journal::{Hubs, Topics, journal_of};
use fleet_log::kafka::{Change, KafkaLog};
use fleet_log::{EventLog, Item, sqlite::SqliteLog};
use fleet_projections::{Follower, Store};
use fleet_schemas::{Lease, decode, topics as names};
use std::{collections::BTreeSet, sync::Arc, time::Duration};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// How often a hub looks whether the topics are still as they must be.
const LOOK: Duration = Duration::from_secs(3600);
/// Longer than a hub is silent that is not missed.
const LISTENED: Duration = Duration::from_secs(5);

/// See the module.
pub struct Ground {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// Its topics.
    pub topics: Topics,
    /// This hub among others; absent where the log is embedded.
    pub hubs: Option<Hubs>,
    /// What this process does.
    pub roles: BTreeSet<Role>,
    /// The same log, where it is Kafka.
    pub kafka: Option<Arc<KafkaLog>>,
    /// Where the read models are.
    pub store: Store,
    /// How what is published is framed, once that is known.
    pub framing: watch::Receiver<Option<Frame>>,
    /// Finds that out, where the registry did not answer.
    pub asking: Option<Asking>,
}

impl Ground {
    /// The embedded log of a folder; one process, which does everything.
    pub async fn embedded(folder: &Folder) -> anyhow::Result<Self> {
        let log = embedded::open_log(folder).await?;
        let store = Store::Folder(folder.read());
        Ok(Self {
            log,
            topics: Topics::embedded(),
            hubs: None,
            roles: Role::all(),
            kafka: None,
            store,
            framing: watch::channel(None).1,
            asking: None,
        })
    }

    /// What a configuration says.
    pub async fn open(configuration: &Configuration, folder: &Folder, roles: BTreeSet<Role>) -> anyhow::Result<Self> {
        let Some(log) = &configuration.log else {
            if roles != Role::all() {
                bail!("--roles: an embedded log has one process, which does everything; roles are for hubs that share a [log] on Kafka");
            }
            return Ok(Self { store: store(configuration, folder)?, ..Self::embedded(folder).await? });
        };
        let roles = parted(roles, configuration.postgres.is_some())?;
        if !folder.lock()? {
            bail!("{} is in use by another process; stop it, or give this one a folder of its own", folder.path.display());
        }
        if log.min_insync == 1 {
            tracing::warn!("log.min_insync = 1: a broker that loses its power loses records that were acknowledged");
        }
        let kafka = Arc::new(open(log).await?);
        let specs = Topics::specs_kafka();
        let plan = kafka.plan(&specs).await?;
        if plan.len() == specs.len() && plan.iter().all(|c| matches!(c, Change::Create { .. })) {
            bail!(
                "none of the topics is there. The first time `fleet-manager topics apply` makes them; later the brokers or the prefix are others, \
                 or the topics were deleted: then apply nothing, see docs/guides/runbooks/restore.md"
            );
        }
        if !plan.is_empty() {
            bail!("the topics are not as they must be; `fleet-manager topics apply` would do this:\n{}", lines(&plan));
        }
        kafka.take_up(&specs)?;
        if journal_of(&*kafka, &Topics::kafka()).await?.is_none() {
            bail!("no journal stands in these topics: `fleet-manager topics apply` founds it");
        }
        let publishes = roles.contains(&Role::Publisher);
        let (framing, asking) = crate::schemas::framing(log.registry.as_deref().filter(|_| publishes), &log.prefix).await?;
        let hubs = Some(Hubs { name: configuration.name()?, leads: roles.contains(&Role::Decider) });
        Ok(Self {
            log: kafka.clone(),
            topics: Topics::kafka(),
            hubs,
            roles,
            kafka: Some(kafka),
            store: store(configuration, folder)?,
            framing,
            asking,
        })
    }

    /// Asks a registry on that did not answer, and looks at the topics again, hourly: what somebody changed in the topics is said, and other partitions end the process.
    pub fn watch(&mut self, tasks: &mut JoinSet<anyhow::Result<()>>, cancel: CancellationToken) {
        self.asking.take().map(|asking| tasks.spawn(asking));
        let Some(kafka) = self.kafka.clone() else { return };
        metrics::gauge!("fm_topics_differ").set(0.0);
        tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = cancel.cancelled() => return Ok(()),
                    () = tokio::time::sleep(LOOK) => {}
                }
                let plan = match kafka.plan(&Topics::specs_kafka()).await {
                    Ok(plan) => plan,
                    Err(error) => {
                        tracing::warn!(%error, "the topics cannot be looked at");
                        continue;
                    }
                };
                metrics::gauge!("fm_topics_differ").set(plan.len() as f64);
                if !plan.is_empty() {
                    tracing::error!(plan = lines(&plan), "the topics are no longer as they must be");
                }
                if plan.iter().any(|c| matches!(c, Change::Refuse { .. } | Change::Create { .. })) {
                    bail!("the topics are no longer as they must be:\n{}", lines(&plan));
                }
            }
        });
    }
}

/// Roles that go together. What is published has its position beside the read models: in a file, the next hub that leads would not know it.
fn parted(mut roles: BTreeSet<Role>, shared: bool) -> anyhow::Result<BTreeSet<Role>> {
    for (role, needs, why) in [
        (Role::Api, Role::Projector, "how far the read model is, and so how old an answer, only its feed says"),
        (Role::Reactor, Role::Decider, "it follows the partitions that its hub leads"),
        (Role::Publisher, Role::Decider, "it follows the partitions that its hub leads"),
        (Role::Decider, Role::Reactor, "nothing else draws what follows from the decisions of the partitions that it leads"),
    ] {
        if roles.contains(&role) && !roles.contains(&needs) {
            bail!("--roles: {role} needs {needs}: {why}");
        }
    }
    if roles.contains(&Role::Publisher) && !shared {
        if roles != Role::all() {
            bail!("--roles: {} needs [postgres]: its positions are shared by the hubs", Role::Publisher);
        }
        tracing::warn!("no [postgres]: nothing is published to other teams, since positions in a file are one hub's own");
        roles.remove(&Role::Publisher);
    }
    Ok(roles)
}

/// Where a configuration says that the read models are.
pub fn store(configuration: &Configuration, folder: &Folder) -> anyhow::Result<Store> {
    Ok(match &configuration.postgres {
        Some(postgres) => Store::Postgres(Box::new(postgres.config()?)),
        None => Store::Folder(folder.read()),
    })
}

/// Opens the cluster.
async fn open(log: &Log) -> anyhow::Result<KafkaLog> {
    Ok(KafkaLog::open(log.options()?).await?)
}

fn lines(plan: &[Change]) -> String {
    plan.iter().map(|c| format!("  {c}")).collect::<Vec<_>>().join("\n")
}

/// The log for reading alone: of a folder, beside whoever has it; or of a configuration.
pub async fn read_only(data: Option<&std::path::Path>, config: Option<&std::path::Path>) -> anyhow::Result<(Arc<dyn EventLog>, Topics)> {
    match (data, config) {
        (Some(data), _) => Ok((Arc::new(SqliteLog::open_read_only(&data.join("log"))?), Topics::embedded())),
        (None, Some(file)) => {
            let configuration = Configuration::read(file)?;
            let Some(log) = &configuration.log else {
                return Ok((Arc::new(SqliteLog::open_read_only(&configuration.data.join("log"))?), Topics::embedded()));
            };
            let kafka = open(log).await?;
            kafka.look(&Topics::specs_kafka())?;
            Ok((Arc::new(kafka), Topics::kafka()))
        }
        (None, None) => bail!("--data FOLDER or --config FILE says where the log is"),
    }
}

/// Whether a journal stands in the topics; not where its topic is to be made yet.
async fn founded(kafka: &KafkaLog, plan: &[Change]) -> anyhow::Result<bool> {
    let journal = names::name(names::JOURNAL);
    if plan.iter().any(|c| matches!(c, Change::Create { topic, .. } if topic.ends_with(&journal))) {
        return Ok(false);
    }
    kafka.look(&Topics::specs_kafka())?;
    Ok(journal_of(kafka, &Topics::kafka()).await?.is_some())
}

/// `topics plan` and `topics apply`: what must be done to the topics; `apply` does it, and founds the journal.
pub async fn topics(file: &std::path::Path, apply: bool, anew: bool) -> anyhow::Result<()> {
    let configuration = Configuration::read(file)?;
    let log = configuration.log.as_ref().context("this configuration has no [log]: an embedded log makes its topics by itself")?;
    let (kafka, specs) = (open(log).await?, Topics::specs_kafka());
    let plan = kafka.plan(&specs).await?;
    if plan.is_empty() {
        crate::print::lines(&format!("{} topics, all as they must be", specs.len()));
    } else {
        crate::print::lines(&lines(&plan));
    }
    if plan.iter().any(|c| matches!(c, Change::Refuse { .. })) {
        bail!("what is refused is for a person to decide; nothing was changed");
    }
    if !apply {
        if !founded(&kafka, &plan).await? {
            crate::print::lines("  found   the journal: one record at the beginning of each of its partitions");
        }
        return Ok(());
    }
    kafka.apply(&specs, &plan).await?;
    kafka.take_up(&specs)?;
    if !founded(&kafka, &[]).await? {
        for (topic, partition) in
            [names::COMMANDS, names::OBSERVATIONS].into_iter().flat_map(|t| (0..Topics::kafka().partitions).map(move |p| (t, p)))
        {
            if kafka.bounds(Topics::kafka().at(topic, partition)).await?.end > 0 && !anew {
                bail!(
                    "the journal is empty, and {topic} has records: a journal was lost, or stands elsewhere; restore it \
                     (docs/guides/runbooks/another-journal.md), or say --found-anew to begin one that knows nothing of them"
                );
            }
        }
    }
    let journal = fleet_journal::found(&kafka, &Topics::kafka(), fleet_journal::Clock::now(&fleet_journal::SystemClock)).await?;
    crate::print::lines(&format!("journal {journal} stands in {} partitions", Topics::kafka().partitions));
    Ok(())
}

/// A hub that beats while it is listened for.
async fn beating(log: &dyn EventLog, topics: &Topics) -> anyhow::Result<Option<String>> {
    let at = topics.at(names::LEASES, 0);
    let end = log.bounds(at.clone()).await?.end;
    let mut reader = log.read(&[(at, end)]);
    let heard = async {
        loop {
            let Item::Record(stored) = reader.next().await? else { continue };
            let lease = decode::<Lease>(&stored.record.value)?;
            if !lease.bye {
                return Ok(Some(lease.hub));
            }
        }
    };
    tokio::time::timeout(LISTENED, heard).await.unwrap_or(Ok(None))
}

/// `publisher restart`: every position back to the beginning.
pub async fn restart_publisher(file: &std::path::Path) -> anyhow::Result<()> {
    let configuration = Configuration::read(file)?;
    configuration.log.as_ref().context("this configuration has no [log]: nothing is published")?;
    let folder = Folder::open(&configuration.data)?;
    let (log, topics) = read_only(None, Some(file)).await?;
    if let Some(hub) = beating(&*log, &topics).await? {
        bail!("{hub} runs: its next position would undo this; stop every hub first");
    }
    let generations = embedded::open_generations(store(&configuration, &folder)?, log, &topics).await?;
    let known = generations.control().positions(Follower::Publisher).await?;
    for partition in 0..topics.partitions {
        let before = known.get(&partition).map_or(0, |p| p.next);
        if !generations.control().move_on(Follower::Publisher, partition, before, &Position::START).await? {
            bail!("partition {partition}: a hub moved it on at the same time; say it again");
        }
    }
    crate::print::lines(&format!("{} partitions are published from their first record again", topics.partitions));
    Ok(())
}
