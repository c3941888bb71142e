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
use std::process::ExitCode;

/// Small, short-lived allocations are most of what deciding and projecting costs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // One provider of cryptography in the whole program; a second installation would only be refused.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let args = Args::parse();
    logging(args.log_json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("the runtime did not start: {e}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(run(args.command));
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    let code = match outcome {
        Ok(code) => code,
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::FAILURE
        }
    };
    leave(code)
}

/// Ends the process at once. Kafka's clients may still be saying goodbye to brokers that are away, on threads of their own: what other
/// libraries tidy up at an ordinary exit they still use, and the process would end by a signal.
fn leave(code: ExitCode) -> ! {
    use std::io::Write;
    let _ = (std::io::stdout().flush(), std::io::stderr().flush());
    // The only way to see which code it is.
    let code =
        if code == ExitCode::SUCCESS { 0 } else { [1, replay::INTEGRITY].into_iter().find(|c| code == ExitCode::from(*c)).unwrap_or(1) };
    signal_hook::low_level::exit(code.into())
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dev(args) => dev::run(args).await.map(|()| ExitCode::SUCCESS),
        Command::Hub(args) => hub::run(&args.config, args.roles(), args.metrics).await.map(|()| ExitCode::SUCCESS),
        Command::Topics(TopicsCommand::Plan { config }) => ground::topics(&config, false, false).await.map(|()| ExitCode::SUCCESS),
        Command::Topics(TopicsCommand::Apply { config, found_anew }) => {
            ground::topics(&config, true, found_anew).await.map(|()| ExitCode::SUCCESS)
        }
        Command::Satellite(args) => match args.command {
            None => {
                let file = args.config.ok_or_else(|| anyhow::anyhow!("--config FILE says what it looks at and where the hub is"))?;
                satellite::run(&file, args.metrics).await.map(|()| ExitCode::SUCCESS)
            }
            Some(SatelliteCommand::Doctor { config }) => doctor::run(&config).await,
            Some(SatelliteCommand::Keygen { client, out }) => {
                let jwk = folder::make_key(&out, &client)?;
                print::lines(&serde_json::to_string(&jwk)?);
                Ok(ExitCode::SUCCESS)
            }
        },
        Command::Config(ConfigCommand::Check { file }) => configuration::check(&file).map(|()| ExitCode::SUCCESS),
        Command::Config(ConfigCommand::Settings) => {
            print::lines(configuration::settings::page().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        Command::Schemas(SchemasCommand::Check { config }) => schemas::check(config.as_deref()).await,
        Command::Schemas(SchemasCommand::Register { config }) => schemas::register(&config).await.map(|()| ExitCode::SUCCESS),
        Command::Publisher(PublisherCommand::Restart { config }) => ground::restart_publisher(&config).await.map(|()| ExitCode::SUCCESS),
        Command::Replay(args) => replay::run(args).await,
        Command::Projections(ProjectionsCommand::List { of }) => projections::list(&of).await.map(|()| ExitCode::SUCCESS),
        Command::Projections(ProjectionsCommand::Rebuild { of, flip_anyway }) => projections::rebuild(&of, flip_anyway).await,
        Command::Vault(VaultCommand::Erase { of, site, role }) => vault::erase(&of, site, role).await.map(|()| ExitCode::SUCCESS),
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
