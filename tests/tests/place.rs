//! Where a test's read models are kept: a folder, or schemas of PostgreSQL that are dropped with the test. One body runs on both.

use fleet_journal::Topics;
use fleet_log::EventLog;
use fleet_projections::{Error, Generations, Login, PostgresConfig, Store};
use fleet_schemas::topics;
use sqlx::{Connection, PgConnection, Row};
use std::{io::Write, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

/// See the module.
pub(crate) enum Place {
    Folder(TempDir),
    Schemas(Schemas),
}

/// Schemas of a prefix that no other test has.
pub(crate) struct Schemas {
    pub(crate) url: String,
    pub(crate) config: PostgresConfig,
}

/// A test on each: its body takes the place. PostgreSQL is asked where `FM_TEST_POSTGRES` says; else each test says that it was not run.
macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(crate::place::Place::folder()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(place) = crate::place::Place::schemas(concat!(module_path!(), "::", stringify!($name))) {
                    super::$name(place).await;
                }
            })+
        }
    };
}
pub(crate) use both;

impl Place {
    pub(crate) fn folder() -> Self {
        Self::Folder(TempDir::new().unwrap())
    }

    /// Schemas, where there is a database for tests.
    pub(crate) fn schemas(test: &str) -> Option<Self> {
        let Ok(url) = std::env::var("FM_TEST_POSTGRES") else {
            // Past the harness, which keeps what a passing test says to itself.
            std::io::stderr()
                .write_all(format!("{test} SKIPPED: FM_TEST_POSTGRES is not set (tests/labs/postgres.sh up)\n").as_bytes())
                .unwrap();
            return None;
        };
        let mut apart = url::Url::parse(&url).unwrap();
        let password = apart.password().unwrap().to_owned();
        apart.set_password(None).unwrap();
        let reader = std::env::var("FM_TEST_POSTGRES_READER").ok().and_then(|r| {
            let (user, password) = r.split_once(':')?;
            Some(Login { user: user.into(), password: password.into() })
        });
        let config = PostgresConfig {
            ca_file: std::env::var("FM_TEST_POSTGRES_CA").ok().map(PathBuf::from),
            reader,
            prefix: format!("t{}", &uuid::Uuid::new_v4().simple().to_string()[..16]),
            readers: 3,
            warm: 1,
            ..PostgresConfig::new(apart.as_str(), password.into())
        };
        Some(Self::Schemas(Schemas { url, config }))
    }

    /// An empty one of the same kind.
    pub(crate) fn another(&self) -> Self {
        match self {
            Self::Folder(_) => Self::folder(),
            Self::Schemas(_) => Self::schemas("another").unwrap(),
        }
    }

    pub(crate) fn store(&self) -> Store {
        match self {
            Self::Folder(folder) => Store::Folder(folder.path().into()),
            Self::Schemas(schemas) => Store::Postgres(Box::new(schemas.config.clone())),
        }
    }

    pub(crate) fn is_folder(&self) -> bool {
        matches!(self, Self::Folder(_))
    }

    /// Changes a generation behind the program's back.
    pub(crate) async fn tamper(&self, generation: i64, sql: &str) {
        match self {
            Self::Folder(folder) => {
                let file = rusqlite::Connection::open(folder.path().join(format!("read-{generation}.sqlite"))).unwrap();
                file.execute_batch(sql).unwrap();
            }
            Self::Schemas(schemas) => {
                let sql = format!("SET search_path = {}_read_{generation}; {sql}", schemas.config.prefix);
                schemas.run(&sql).await;
            }
        }
    }

    /// Makes a generation look like one of an earlier program.
    pub(crate) async fn outdate(&self, generation: i64) {
        let sql = if self.is_folder() { "PRAGMA user_version = 1" } else { "UPDATE format SET number = 1" };
        self.tamper(generation, sql).await;
    }

    pub(crate) async fn exists(&self, generation: i64) -> bool {
        match self {
            Self::Folder(folder) => folder.path().join(format!("read-{generation}.sqlite")).exists(),
            Self::Schemas(schemas) => schemas.exists(generation).await,
        }
    }
}

impl Schemas {
    pub(crate) async fn connect(&self) -> PgConnection {
        fleet_tests::crypto();
        PgConnection::connect(&self.url).await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) {
        let mut connection = self.connect().await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut connection = self.connect().await;
        sqlx::query(sql).fetch_one(&mut connection).await.unwrap().get(0)
    }

    async fn exists(&self, generation: i64) -> bool {
        let name = format!("{}_read_{generation}", self.config.prefix);
        self.number(&format!("SELECT count(*) FROM pg_namespace WHERE nspname = '{name}'")).await == 1
    }

    /// Ends every connection of the read models that are kept here; how many there were.
    pub(crate) async fn cut(&self) -> i64 {
        let name = format!("fleet-manager {}", self.config.prefix);
        self.number(&format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = current_user AND application_name = '{name}'"
        ))
        .await
    }
}

/// Drops the schemas of a prefix.
async fn wipe(url: &str, prefix: &str) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect(url).await?;
    let mine = sqlx::query("SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname, $1)").bind(prefix).fetch_all(&mut connection);
    for row in mine.await? {
        // A projector of the test may still hold a lock; it finds its tables gone.
        let drop = format!("SET lock_timeout = '20s'; DROP SCHEMA {} CASCADE", row.get::<String, _>(0));
        sqlx::raw_sql(&drop).execute(&mut connection).await?;
    }
    Ok(())
}

impl Drop for Schemas {
    fn drop(&mut self) {
        let (url, prefix) = (self.url.clone(), self.config.prefix.clone());
        let wiped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { tokio::time::timeout(Duration::from_secs(30), wipe(&url, &prefix)).await })
        });
        if !matches!(wiped.join(), Ok(Ok(Ok(())))) {
            eprintln!("schemas of {} are left", self.config.prefix);
        }
    }
}

/// The read models of a place.
pub(crate) async fn generations(place: &Place, log: Arc<dyn EventLog>) -> Result<Arc<Generations>, Error> {
    opened(place.store(), log).await
}

pub(crate) async fn opened(store: Store, log: Arc<dyn EventLog>) -> Result<Arc<Generations>, Error> {
    fleet_tests::crypto();
    let topics = Topics::embedded();
    let journal = (0..topics.partitions).map(|p| topics.at(topics::JOURNAL, p)).collect();
    Ok(Arc::new(Generations::open(store, log, journal, topics.at(topics::PARKED, 0)).await?))
}
