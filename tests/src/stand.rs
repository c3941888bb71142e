//! What a test on Kafka stands on: a simulated world, brokers, a PostgreSQL where hubs share one, and hubs that are prepared and not started.

use crate::{Brokers, Database, Fleet, World, crypto};
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
        crypto();
        let (folder, sim) = (TempDir::new()?, fleet_sim::start(world).await?);
        let world = World::simulated(&sim, folder.path())?;
        let brokers = Brokers::start(folder.path(), brokers, "")?;
        let database = if shared { Some(Database::start()?) } else { None };
        let fleet = Fleet::prepare(folder.path(), &world, hubs, brokers.options(), database.as_ref())?;
        Ok(Self { fleet, brokers, database, sim, world, folder })
    }

    /// The same on one broker, with a site of so many devices where nobody does anything.
    pub async fn quiet(devices: u32, hubs: usize, shared: bool) -> anyhow::Result<Self> {
        Self::new(Options { sites: 1, devices, seed: 1, people: false, pace: 1.0 }, hubs, 1, shared).await
    }
}
