//! The command line.

use crate::world;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use fleet_schemas::{RoleName, SiteId, Source};
use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf};

/// The control plane of a bare-metal GPU fleet.
#[derive(Parser)]
#[command(name = "fleet-manager", version, about)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Log as JSON lines.
    #[arg(long, global = true)]
    pub log_json: bool,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Everything in one process on loopback: log and read model in files, a simulated world or real systems.
    Dev(DevArgs),
    /// A hub: log, deciders, read model, API.
    Hub(ServiceArgs),
    /// The topics of a Kafka cluster.
    #[command(subcommand)]
    Topics(TopicsCommand),
    /// The agents of a site, which hand over to a hub.
    Satellite(SatelliteArgs),
    /// What is published to other teams.
    #[command(subcommand)]
    Publisher(PublisherCommand),
    /// The schemas of what is published to other teams.
    #[command(subcommand)]
    Schemas(SchemasCommand),
    /// The configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Read a journal from its first record.
    Replay(ReplayArgs),
    /// The read models.
    #[command(subcommand)]
    Projections(ProjectionsCommand),
    /// Keys of user-data.
    #[command(subcommand)]
    Vault(VaultCommand),
    /// Print what an agent would make of a recorded answer, one JSON line per object.
    Translate(TranslateArgs),
}

/// Arguments of `dev`.
#[derive(ClapArgs)]
pub struct DevArgs {
    /// Folder for the log, the read model and the keys.
    #[arg(long)]
    pub data: PathBuf,
    /// Address to listen on; loopback only. Port 0 = any free one.
    #[arg(long, default_value = "127.0.0.1:8480", value_parser = loopback)]
    pub listen: SocketAddr,
    /// A simulated world, e.g. `sites=2,devices=200,seed=1`; the default where no --config is given.
    #[arg(long, value_name = "KEY=VALUE,…", value_parser = world::options, conflicts_with = "config")]
    pub sim: Option<fleet_sim::Options>,
    /// Real systems: a file with sites and sources.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// File with the master key of the vault, 32 bytes as base64; made where it is missing. Default: keys/master.key in the folder.
    #[arg(long, value_name = "FILE")]
    pub master_key: Option<PathBuf>,
    /// Address for /metrics; loopback only.
    #[arg(long, value_parser = loopback)]
    pub metrics: Option<SocketAddr>,
}

/// Arguments of `hub`.
#[derive(ClapArgs)]
pub struct ServiceArgs {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// What this process does, of what hubs that share a log on Kafka do. Default: everything.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLE,…")]
    pub roles: Vec<Role>,
    /// Address for /metrics.
    #[arg(long)]
    pub metrics: Option<SocketAddr>,
}

impl ServiceArgs {
    /// The roles; all where none is named.
    pub fn roles(&self) -> BTreeSet<Role> {
        if self.roles.is_empty() { Role::all() } else { self.roles.iter().copied().collect() }
    }
}

/// What a hub does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Role {
    /// Serves the HTTP API, tokens, and what agents hand over.
    Api,
    /// Leads partitions: decides.
    Decider,
    /// Feeds the read model.
    Projector,
    /// Draws what follows from decisions for other streams, of the partitions that it leads.
    Reactor,
    /// Publishes to the topics of other teams, of the partitions that it leads. Only where the log is Kafka.
    Publisher,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", |v| v.get_name()))
    }
}

impl Role {
    /// Every one.
    pub fn all() -> BTreeSet<Self> {
        Self::value_variants().iter().copied().collect()
    }
}

/// `publisher …`.
#[derive(Subcommand)]
pub enum PublisherCommand {
    /// Begin at the first record of the journal again, where positions were lost. What is published again has the same fleet_seq: readers
    /// drop what they have. The hubs take it up when they start, or lead a partition anew.
    Restart {
        /// The hub's configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// `schemas …`.
#[derive(Subcommand)]
pub enum SchemasCommand {
    /// Say whether the schemas are the published ones, and whether a registry would take them. Nothing is changed.
    Check {
        /// The hub's configuration file, whose `log.registry` is asked.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Register them: part of a deployment, before the hubs of that version start.
    Register {
        /// The hub's configuration file, whose `log.registry` is told.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
}

/// `topics …`.
#[derive(Subcommand)]
pub enum TopicsCommand {
    /// Say what `apply` would do.
    Plan {
        /// The hub's configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Make the topics that are missing, set what may be set, and found the journal. What cannot be changed is refused.
    Apply {
        /// The hub's configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Begin a new journal although the inputs have records, which it will know nothing of.
        #[arg(long)]
        found_anew: bool,
    },
}

/// Arguments of `satellite`.
#[derive(ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SatelliteArgs {
    /// Something else than to run.
    #[command(subcommand)]
    pub command: Option<SatelliteCommand>,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address for /metrics.
    #[arg(long)]
    pub metrics: Option<SocketAddr>,
}

/// `satellite …`.
#[derive(Subcommand)]
pub enum SatelliteCommand {
    /// Say whether everything that it needs is there, source by source, and what would help.
    Doctor {
        /// The configuration file.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Make a client's key at the site; prints the public half, for the hub's roster.
    Keygen {
        /// The client's id in the roster.
        client: String,
        /// Folder for `<client>.pem` and `<client>.jwk.json`; made where it is missing. A key that is there is not written over.
        #[arg(long, default_value = ".")]
        out: PathBuf,
    },
}

/// `dev` listens on loopback only: its sample keys are for nobody else.
fn loopback(text: &str) -> anyhow::Result<SocketAddr> {
    let listen: SocketAddr = text.parse()?;
    if listen.ip().is_loopback() { Ok(listen) } else { anyhow::bail!("dev listens on loopback only") }
}

/// `config …`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Say whether a configuration file would be taken, and what it says.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Print every key of the three configuration files: type, unit, default, what it is (docs/SETTINGS.md).
    Settings,
}

/// Arguments of `replay`.
#[derive(ClapArgs)]
pub struct ReplayArgs {
    /// Verify every chain, number, schema and fold. (The only thing replay does so far.)
    #[arg(long, required = true)]
    pub verify: bool,
    /// The data folder of an embedded log; may be in use.
    #[arg(long, conflicts_with = "config")]
    pub data: Option<PathBuf>,
    /// The configuration file of a hub, wherever its log is.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Whose read models.
#[derive(ClapArgs)]
#[group(required = true, multiple = false)]
pub struct Of {
    /// The data folder of an embedded log.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// The configuration file of a hub, wherever its log is.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `projections …`.
#[derive(Subcommand)]
pub enum ProjectionsCommand {
    /// The generations, and how far they are.
    List {
        /// Whose.
        #[command(flatten)]
        of: Of,
    },
    /// Fill a new generation from the journal, compare it with the one that serves, and flip.
    Rebuild {
        /// Whose; through the running process where one holds the folder.
        #[command(flatten)]
        of: Of,
        /// Flip although the two differ.
        #[arg(long)]
        flip_anyway: bool,
    },
}

/// `vault …`.
#[derive(Subcommand)]
pub enum VaultCommand {
    /// Make the user-data of a bootstrap configuration unreadable, in every version, everywhere and for ever.
    Erase {
        /// Whose; may be in use.
        #[command(flatten)]
        of: Of,
        /// The site.
        site: SiteId,
        /// The role.
        role: RoleName,
    },
}

/// Arguments of `translate`.
#[derive(ClapArgs)]
pub struct TranslateArgs {
    /// slurm or netbox.
    pub system: Source,
    /// The recorded answer: a bare body, or an exchange `{request, response}`.
    pub file: PathBuf,
    /// SLURM's API version, where the body does not name it.
    #[arg(long)]
    pub api_version: Option<String>,
    /// HTTP status of the answer.
    #[arg(long)]
    pub http_status: Option<u16>,
    /// Names of devices, one a line or as JSON; without it every name counts as a device.
    #[arg(long)]
    pub device_list: Option<PathBuf>,
    /// The answer to /partitions; without it every partition counts as UP.
    #[arg(long)]
    pub partitions: Option<PathBuf>,
}
