//! `fmctl`: what people type. Data goes to stdout, everything else to stderr; exit codes are in `exit.rs`.

mod access;
mod admin;
mod api;
mod apply;
mod args;
mod attention;
mod baseline;
mod configs;
mod context;
mod exit;
mod get;
mod output;
mod verb;
mod wait;

use exit::Failure;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    // One provider of cryptography in the whole program; a second installation would only be refused.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let matches = match args::command().try_get_matches() {
        Ok(matches) => matches,
        Err(e) => {
            let code = if e.use_stderr() { exit::USAGE } else { 0 };
            // A closed pipe is no reason to complain.
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    match run(&matches).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, text, .. }) => {
            eprintln!("{text}");
            ExitCode::from(code)
        }
    }
}

async fn run(matches: &clap::ArgMatches) -> Result<(), Failure> {
    let output = output::Output::from(matches);
    match matches.subcommand() {
        Some(("completion", m)) => args::completion(m),
        Some(("version", _)) => output::print(&format!("fmctl {}\n", env!("CARGO_PKG_VERSION"))),
        Some((name, m)) => {
            let api = api::Api::new(context::Context::load(matches)?, output.quiet)?;
            match name {
                "get" => get::get(&api, m, &output).await,
                "describe" => get::describe(&api, m, &output).await,
                "why" => get::why(&api, m, &output).await,
                "timeline" => get::timeline(&api, m, &output).await,
                "history" => get::history(&api, m, &output).await,
                "site" => baseline::site(&api, m, &output).await,
                "apply" => apply::apply(&api, m, &output).await,
                "projections" => admin::projections(&api, m, &output).await,
                "parked" => admin::parked(&api, m, &output).await,
                "acknowledge" => attention::acknowledge(&api, m, &output).await,
                "whoami" => access::whoami(&api, &output).await,
                "auth" => access::auth(&api, m, &output).await,
                "wait" => wait::wait(&api, m, &output).await,
                verb => verb::give(&api, verb, m, &output).await,
            }
        }
        None => Err(Failure::usage("say what to do; see --help")),
    }
}
