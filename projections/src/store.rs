//! Where generations are kept: files in a folder that is one process's own, or schemas of a database that several hubs share.

use crate::control::{Control, Numbers};
use crate::db::{Db, Error, FORMAT};
use crate::postgres::{self, PostgresConfig};
use crate::rows::FOLDED;
use crate::sql::{Dialect, Transaction};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Clone, Debug)]
pub enum Store {
    /// A folder, which is made where it is not there.
    Folder(PathBuf),
    /// A database of PostgreSQL.
    Postgres(Box<PostgresConfig>),
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "read models in {}", folder.display()),
            Self::Postgres(config) => write!(f, "[postgres] {}", config.url),
        }
    }
}

/// The turn of one process to change which generations there are.
pub(crate) enum Turn {
    /// Nobody else is there.
    Alone(Control),
    Shared(postgres::Turn),
}

impl Store {
    /// Whether other processes may work on it at the same time.
    pub(crate) fn shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }

    /// Opens what outlives generations.
    pub(crate) async fn control(&self) -> Result<Control, Error> {
        match self {
            Self::Folder(folder) => {
                std::fs::create_dir_all(folder).map_err(|source| Error::Io { path: folder.display().to_string(), source })?;
                Control::open(&folder.join("control.sqlite")).await
            }
            Self::Postgres(config) => postgres::control(config).await,
        }
    }

    /// Opens a generation, or makes it.
    pub(crate) async fn open(&self, control: &Control, number: i64) -> Result<Db, Error> {
        match self {
            Self::Folder(folder) => Db::open(&file(folder, number)).await,
            Self::Postgres(config) => postgres::open(config, control, number).await,
        }
    }

    /// Whether a generation of this format may be put out of service: not where a newer program may have made it, which runs beside us.
    pub(crate) fn outdated(&self, found: i64) -> bool {
        !self.shared() || found < FORMAT
    }

    /// Removes a generation, if it is there.
    pub(crate) async fn remove(&self, control: &Control, number: i64) -> Result<(), Error> {
        match self {
            Self::Folder(folder) => remove(&file(folder, number)),
            Self::Postgres(config) => postgres::remove(config, control, number).await,
        }
    }

    /// Removes what a rebuild left that did not come to its end.
    pub(crate) async fn others(&self, control: &Control) -> Result<(), Error> {
        match self {
            Self::Folder(folder) => others(folder, control.numbers().await?),
            Self::Postgres(config) => postgres::others(config, control).await,
        }
    }

    /// Takes the turn to rebuild, flip or drop.
    pub(crate) async fn turn(&self, control: &Control) -> Result<Turn, Error> {
        match self {
            Self::Folder(_) => Ok(Turn::Alone(control.clone())),
            Self::Postgres(config) => postgres::turn(config, control).await.map(Turn::Shared),
        }
    }
}

impl Turn {
    /// Changes which generation serves and which stands beside, in one transaction; unless they are no longer as they were seen.
    pub(crate) async fn renumber(&mut self, seen: Numbers, numbers: Numbers) -> Result<(), Error> {
        match self {
            Self::Alone(control) => control.renumber(seen, numbers).await,
            Self::Shared(turn) => turn.renumber(seen, numbers).await,
        }
    }

    pub(crate) async fn end(self) {
        match self {
            Self::Alone(_) => {}
            Self::Shared(turn) => turn.end().await,
        }
    }
}

impl Db {
    /// Lets the planner know what a rebuild filled, before anybody asks: it would learn of it within minutes only.
    pub(crate) async fn measure(&self) -> Result<(), Error> {
        if self.write.dialect() == Dialect::Postgres {
            for table in FOLDED {
                self.write.run(self.write.sql(format!("ANALYZE {}", table.name))).await?;
            }
        }
        Ok(())
    }

    /// Holds every projector still, in whichever process, for as long as the transaction is kept; questions are answered on.
    pub(crate) async fn still(&self) -> Result<Option<Transaction>, Error> {
        let mut t = match self.write.begin().await? {
            // A file is fed by the process that asks, which has paused its feed.
            Transaction::Sqlite(_) => return Ok(None),
            shared => shared,
        };
        let held = "SET LOCAL idle_in_transaction_session_timeout = '10min'; LOCK TABLE position IN SHARE ROW EXCLUSIVE MODE";
        t.script(held.to_owned()).await?;
        Ok(Some(t))
    }
}

fn others(folder: &Path, kept: Numbers) -> Result<(), Error> {
    let io = |source| Error::Io { path: folder.display().to_string(), source };
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix("read-")?.strip_suffix(".sqlite")?.parse::<i64>().ok());
        if let Some(number) = number.filter(|n| *n != kept.active && Some(*n) != kept.standby) {
            remove(&file(folder, number))?;
        }
    }
    Ok(())
}

fn file(folder: &Path, generation: i64) -> PathBuf {
    folder.join(format!("read-{generation}.sqlite"))
}

fn remove(path: &Path) -> Result<(), Error> {
    for suffix in ["", "-wal", "-shm"] {
        let file = PathBuf::from(format!("{}{suffix}", path.display()));
        match std::fs::remove_file(&file) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Io { path: file.display().to_string(), source }),
        }
    }
    Ok(())
}
