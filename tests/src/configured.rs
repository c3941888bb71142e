//! The configuration files that the harness writes.

use crate::pair::{Rhythm, World};
use fleet_log::kafka;
use serde_json::Value;
use std::fmt::Write;

/// Where `FM_TEST_LOG` says `kafka`: the brokers of `FM_TEST_KAFKA`, under a prefix of our own.
pub fn kafka_options() -> Option<kafka::Options> {
    std::env::var("FM_TEST_LOG").ok().filter(|log| log == "kafka")?;
    let brokers = std::env::var("FM_TEST_KAFKA").ok()?;
    let (replication, min_insync) = if brokers.contains(',') { (3, 2) } else { (1, 1) };
    let prefix = format!("p{:016x}.", rand::random::<u64>());
    Some(kafka::Options { prefix, replication, min_insync, ..kafka::Options::plain(&brokers) })
}

/// `[log]` of a hub's configuration.
pub fn log_toml(options: &kafka::Options) -> String {
    let brokers: Vec<_> = options.bootstrap.split(',').map(|b| format!("\"{b}\"")).collect();
    let kafka::Options { prefix, replication, min_insync, .. } = options;
    format!(
        "[log]\nbrokers = [{}]\nprefix = \"{prefix}\"\nreplication = {replication}\nmin_insync = {min_insync}\naccept_single_copy = true\n",
        brokers.join(", ")
    )
}

pub(crate) fn hub_toml(world: &World, rhythm: Rhythm, port: u16, kafka: Option<&kafka::Options>) -> anyhow::Result<String> {
    let mut text = format!("data = \"data\"\nlisten = \"127.0.0.1:{port}\"\nroster = \"values.yaml\"\n");
    for place in &world.places {
        let slurm = if place.slurm.is_some() { format!(", slurm = {}", rhythm.interval) } else { String::new() };
        writeln!(text, "[[sites]]\nname = \"{}\"\nsources = {{netbox = {}{slurm}}}\n{}", place.name, rhythm.interval, place.roles)?;
    }
    text.extend(kafka.map(log_toml));
    Ok(text)
}

pub(crate) fn satellite_toml(world: &World, rhythm: Rhythm, url: &str) -> anyhow::Result<String> {
    let Rhythm { interval, list, resync, sweep, window } = rhythm;
    let mut text = format!("data = \"data\"\nresync_seconds = {resync}\nlist_seconds = {list}\n[hub]\nurl = \"{url}\"\n");
    for place in &world.places {
        let Some((url, user, jwt)) = &place.slurm else { continue };
        let client = format!("slurm-agent-{}", place.name);
        writeln!(
            text,
            "[[slurm]]\nsite = \"{}\"\nclient = \"{client}\"\nkey_file = \"{client}.pem\"\nurl = \"{url}\"\nuser = \"{user}\"\njwt_file = \"{}\"\ninterval_seconds = {interval}",
            place.name,
            jwt.display()
        )?;
    }
    let (instance, url, token) = &world.netbox;
    let sites: Vec<_> = world.places.iter().map(|p| Value::from(p.name.clone()).to_string()).collect();
    let client = format!("netbox-agent-{instance}");
    writeln!(
        text,
        "[[netbox]]\ninstance = \"{instance}\"\nclient = \"{client}\"\nkey_file = \"{client}.pem\"\nurl = \"{url}\"\ntoken_file = \"{}\"\nsites = [{}]\n\
         interval_seconds = {interval}\nsweep_seconds = {sweep}\nwindow_seconds = {window}",
        token.display(),
        sites.join(", ")
    )?;
    Ok(text)
}
