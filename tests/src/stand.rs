//! What a test on Kafka stands on: a simulated world, brokers, a PostgreSQL where hubs share one, and hubs that are prepared and not started.

use crate::{Brokers, Database, Fleet, Proxy, World, crypto};
use fleet_sim::{Options, Sim};
use tempfile::TempDir;

/// See the module. Whoever takes it apart names the folder first: it is dropped last, and what fails is told with its logs.
pub struct Stand {
    /// The hubs.
    pub fleet: Fleet,
    /// Their brokers.
    pub brokers: Brokers,
    /// Their database, where they share one.
    pub database: Option<Database>,
    /// What stands between the last hub and each broker and the database, where that was asked for.
    pub proxies: Vec<Proxy>,
    /// What their satellite looks at.
    pub sim: Sim,
    /// The same, as a configuration has it.
    pub world: World,
    /// Where all of it is.
    pub folder: TempDir,
}

impl Stand {
    /// So many hubs on so many brokers; with a database if `shared`.
    pub async fn new(world: Options, hubs: usize, brokers: usize, shared: bool) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let brokers = Brokers::start(folder.path(), brokers, "")?;
        Self::on(folder, brokers, world, hubs, shared).await
    }

    /// Several that share a database; the last hub reaches it and the brokers through proxies alone.
    pub async fn proxied(world: Options, hubs: usize, brokers: usize) -> anyhow::Result<Self> {
        let folder = TempDir::new()?;
        let (brokers, mut proxies) = Brokers::start_with_proxies(folder.path(), brokers)?;
        let mut stand = Self::on(folder, brokers, world, hubs, true).await?;
        let direct = stand.brokers.ports();
        for (port, proxy) in direct.iter().zip(&proxies) {
            stand.fleet.reroute(hubs - 1, *port, proxy.port)?;
        }
        if let Some(database) = &stand.database {
            proxies.push(Proxy::start(0, database.port())?);
            stand.fleet.reroute(hubs - 1, database.port(), proxies[direct.len()].port)?;
        }
        stand.proxies = proxies;
        Ok(stand)
    }

    async fn on(folder: TempDir, brokers: Brokers, world: Options, hubs: usize, shared: bool) -> anyhow::Result<Self> {
        crypto();
        let sim = fleet_sim::start(world).await?;
        let world = World::simulated(&sim, folder.path())?;
        let database = if shared { Some(Database::start()?) } else { None };
        let fleet = Fleet::prepare(folder.path(), &world, hubs, brokers.options(), database.as_ref())?;
        Ok(Self { fleet, brokers, database, proxies: Vec::new(), sim, world, folder })
    }

    /// The same on one broker, with a site of so many devices where nobody does anything.
    pub async fn quiet(devices: u32, hubs: usize, shared: bool) -> anyhow::Result<Self> {
        Self::new(Options { sites: 1, devices, seed: 1, people: false, pace: 1.0 }, hubs, 1, shared).await
    }
}
