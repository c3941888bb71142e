//! `satellite doctor`: whether everything that a satellite needs is there, source by source; what is wrong comes with its fix.

use crate::configuration::satellite::Configuration;
use crate::print;
use fleet_satellite::{Check, SystemClock};
use std::{path::Path, process::ExitCode};

/// Asks everything once, changes nothing. Exit code 1 where something is wrong.
pub async fn run(file: &Path) -> anyhow::Result<ExitCode> {
    let configuration = Configuration::read(file)?;
    let mut all = Vec::new();
    for slurm in &configuration.slurm {
        let mut checks =
            hub(&configuration, slurm.client.as_ref(), slurm.key_file.as_ref(), slurm.kid.as_ref(), std::slice::from_ref(&slurm.site))
                .await;
        checks.extend(slurm.agent()?.check(&SystemClock).await);
        told(&format!("slurm of {}", slurm.site), &checks);
        all.extend(checks);
    }
    for netbox in &configuration.netbox {
        let mut checks = hub(&configuration, netbox.client.as_ref(), netbox.key_file.as_ref(), netbox.kid.as_ref(), &netbox.sites).await;
        checks.extend(netbox.agent()?.check(&SystemClock).await);
        if netbox.webhook_secret_file.is_none() {
            checks.push(Check::fine("webhooks", "none: changes are seen by the next poll"));
        }
        told(&format!("netbox {}", netbox.instance), &checks);
        all.extend(checks);
    }
    let wrong = all.iter().filter(|c| c.fix.is_some()).count();
    print::lines(&match wrong {
        0 => "everything is there".to_owned(),
        1 => "one thing is wrong".to_owned(),
        many => format!("{many} things are wrong"),
    });
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn hub(
    configuration: &Configuration,
    client: Option<&String>,
    key: Option<&std::path::PathBuf>,
    kid: Option<&String>,
    sites: &[String],
) -> Vec<Check> {
    match configuration.hub.client(client, key, kid) {
        Ok(hub) => hub.check(sites, &SystemClock).await,
        Err(e) => vec![Check::wrong("hub", format!("{e:#}"), "mend what it names; `fleet-manager satellite keygen` makes a key")],
    }
}

fn told(what: &str, checks: &[Check]) {
    print::lines(what);
    for check in checks {
        let mark = if check.fix.is_some() { "WRONG" } else { "ok" };
        print::lines(&format!("  {mark:<6} {:<22} {}", check.what, check.found));
        if let Some(fix) = &check.fix {
            print::lines(&format!("         {:<22} {fix}", "→"));
        }
    }
}
