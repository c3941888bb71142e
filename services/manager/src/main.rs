//! `fleet-manager`: the server binary. It composes what the other crates are; each command has a file.

mod agents;
mod args;
mod configuration;
mod dev;
mod doctor;
mod embedded;
mod folder;
mod ground;
mod hub;
mod jwks;
mod print;
mod process;
mod projections;
mod replay;
mod satellite;
mod schemas;
mod serve;
mod translate;
mod vault;
mod webhooks;
mod world;

use args::{
    Args, Command, ConfigCommand, ProjectionsCommand, PublisherCommand, SatelliteCommand, SchemasCommand, TopicsCommand, VaultCommand,
};
use clap::Parser;

/// What a command ends with; docs/API.md lists them.
pub type Code = u8;
/// It did what was asked.
pub const SUCCESS: Code = 0;
/// It did not.
pub const FAILURE: Code = 1;
/// What is stored is not what it should be.
pub const INTEGRITY: Code = 9;

/// Small, short-lived allocations are most of what deciding and projecting costs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // One provider of cryptography in the whole program; a second installation would only be refused.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let args = Args::parse();
    logging(args.log_json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("the runtime did not start: {e}");
            leave(FAILURE)
        }
    };
    let outcome = runtime.block_on(run(args.command));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    leave(outcome.unwrap_or_else(|e| {
        eprintln!("{e:#}");
        FAILURE
    }))
}

/// Ends the process at once. Kafka's clients may still be saying goodbye to brokers that are away, on threads of their own: what other
/// libraries tidy up at an ordinary exit they still use, and the process would end by a signal.
fn leave(code: Code) -> ! {
    use std::io::Write;
    // What cannot be written any more nobody reads.
    let _ = (std::io::stdout().flush(), std::io::stderr().flush());
    signal_hook::low_level::exit(code.into())
}

async fn run(command: Command) -> anyhow::Result<Code> {
    match command {
        Command::Dev(args) => dev::run(args).await.map(|()| SUCCESS),
        Command::Hub(args) => hub::run(&args.config, args.roles(), args.metrics).await.map(|()| SUCCESS),
        Command::Topics(TopicsCommand::Plan { config }) => ground::topics(&config, false, false).await.map(|()| SUCCESS),
        Command::Topics(TopicsCommand::Apply { config, found_anew }) => ground::topics(&config, true, found_anew).await.map(|()| SUCCESS),
        Command::Satellite(args) => match args.command {
            None => {
                let file = args.config.ok_or_else(|| anyhow::anyhow!("--config FILE says what it looks at and where the hub is"))?;
                satellite::run(&file, args.metrics).await.map(|()| SUCCESS)
            }
            Some(SatelliteCommand::Doctor { config }) => doctor::run(&config).await,
            Some(SatelliteCommand::Keygen { client, out }) => {
                let jwk = folder::make_key(&out, &client)?;
                print::lines(&serde_json::to_string(&jwk)?);
                Ok(SUCCESS)
            }
        },
        Command::Config(ConfigCommand::Check { file }) => configuration::check(&file).map(|()| SUCCESS),
        Command::Config(ConfigCommand::Settings) => {
            print::lines(configuration::settings::page().trim_end());
            Ok(SUCCESS)
        }
        Command::Schemas(SchemasCommand::Check { config }) => schemas::check(config.as_deref()).await,
        Command::Schemas(SchemasCommand::Register { config }) => schemas::register(&config).await.map(|()| SUCCESS),
        Command::Publisher(PublisherCommand::Restart { config }) => ground::restart_publisher(&config).await.map(|()| SUCCESS),
        Command::Replay(args) => replay::run(args).await,
        Command::Projections(ProjectionsCommand::List { of }) => projections::list(&of).await.map(|()| SUCCESS),
        Command::Projections(ProjectionsCommand::Rebuild { of, flip_anyway }) => projections::rebuild(&of, flip_anyway).await,
        Command::Vault(VaultCommand::Erase { of, site, role }) => vault::erase(&of, site, role).await.map(|()| SUCCESS),
        Command::Translate(args) => translate::run(args),
    }
}

/// Logs go to stderr; `RUST_LOG` refines what is told.
fn logging(json: bool) {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info,sqlx=warn,hyper=warn".into());
    let ansi = std::io::IsTerminal::is_terminal(&std::io::stderr()) && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    if json { builder.json().init() } else { builder.init() }
}
