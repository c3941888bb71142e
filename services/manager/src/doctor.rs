//! `satellite doctor`: whether everything that a satellite needs is there, source by source; what is wrong comes with its fix.

use crate::configuration::{AgentClient, satellite::Configuration};
use crate::print;
use crate::{Code, FAILURE, SUCCESS};
use fleet_satellite::{Check, SystemClock};
use std::path::Path;

/// Asks everything once, changes nothing. Exit code 1 where something is wrong.
pub async fn run(file: &Path) -> anyhow::Result<Code> {
    let configuration = Configuration::read(file)?;
    let mut all = Vec::new();
    for slurm in &configuration.slurm {
        let client = slurm.agent_client();
        let mut checks = hub(&configuration, &client).await;
        checks.extend(slurm.agent()?.check(&SystemClock).await);
        told(&client.what, &checks);
        all.extend(checks);
    }
    for netbox in &configuration.netbox {
        let client = netbox.agent_client();
        let mut checks = hub(&configuration, &client).await;
        checks.extend(netbox.agent()?.check(&SystemClock).await);
        if netbox.webhook_secret_file.is_none() {
            checks.push(Check::fine("webhooks", "none: changes are seen by the next poll"));
        }
        told(&client.what, &checks);
        all.extend(checks);
    }
    let wrong = all.iter().filter(|c| c.fix.is_some()).count();
    print::lines(&match wrong {
        0 => "everything is there".to_owned(),
        1 => "one thing is wrong".to_owned(),
        many => format!("{many} things are wrong"),
    });
    Ok(if wrong == 0 { SUCCESS } else { FAILURE })
}

async fn hub(configuration: &Configuration, client: &AgentClient<'_>) -> Vec<Check> {
    match configuration.hub.client(client) {
        Ok(hub) => hub.check(client.sites, &SystemClock).await,
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
