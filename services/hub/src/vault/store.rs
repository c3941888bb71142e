//! Where wrapped data keys stand: a file of one hub, or a schema that several hubs share.

use super::Error;
use fleet_projections::PostgresConfig;
use sqlx::PgPool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::os::unix::fs::OpenOptionsExt;
use std::{path::Path, time::Duration};
use uuid::Uuid;

/// Of both, but for the type of bytes.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS vault (one INTEGER PRIMARY KEY CHECK (one = 1), master_check BYTES NOT NULL);
CREATE TABLE IF NOT EXISTS data_key (
    id       BYTES PRIMARY KEY,  -- uuid
    config   TEXT NOT NULL,      -- bootstrap-config/<site>/<role>
    wrapped  BYTES,              -- nonce and AES-256-GCM under the master key; NULL = erased
    made_at  TEXT NOT NULL DEFAULT (CAST(CURRENT_TIMESTAMP AS TEXT)),
    erased_at TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS data_key_in_use ON data_key (config) WHERE wrapped IS NOT NULL;";

/// See the module.
pub(super) enum Store {
    File(SqlitePool),
    Postgres { pool: PgPool, schema: String },
}

/// The same question to both.
macro_rules! ask {
    ($store:expr, $pool:ident => $asked:expr) => {
        match $store {
            Store::File($pool) => $asked.await.map_err(Error::from),
            Store::Postgres { pool: $pool, .. } => $asked.await.map_err(Error::from),
        }
    };
}

impl Store {
    /// No write-ahead log, and overwritten when deleted: an erased key is in no file of the vault.
    pub(super) async fn file(path: &Path, create: bool) -> Result<Self, Error> {
        if create {
            let io = |source| Error::Io { path: path.display().to_string(), source };
            std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(io)?;
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Delete)
            .synchronous(SqliteSynchronous::Extra)
            .busy_timeout(Duration::from_secs(10))
            .pragma("secure_delete", "ON");
        let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
        if create {
            sqlx::raw_sql(&SCHEMA.replace("BYTES", "BLOB")).execute(&pool).await?;
        }
        Ok(Self::File(pool))
    }

    pub(super) async fn postgres(database: &PostgresConfig) -> Result<Self, Error> {
        let schema = format!("{}_vault", database.prefix);
        let pool = database.apart(&schema).await?;
        sqlx::raw_sql(&SCHEMA.replace("BYTES", "bytea")).execute(&pool).await?;
        Ok(Self::Postgres { pool, schema })
    }

    /// What was sealed under the master key when the vault was made; `fresh` where it is made now.
    pub(super) async fn check(&self, fresh: Vec<u8>) -> Result<Vec<u8>, Error> {
        let put = "INSERT INTO vault (one, master_check) VALUES (1, $1) ON CONFLICT DO NOTHING";
        ask!(self, pool => async { sqlx::query(put).bind(fresh).execute(pool).await.map(|_| ()) })?;
        ask!(self, pool => sqlx::query_scalar("SELECT master_check FROM vault").fetch_one(pool))
    }

    pub(super) async fn wrapped(&self, id: Uuid, config: &str) -> Result<Option<Vec<u8>>, Error> {
        let find = "SELECT wrapped FROM data_key WHERE id = $1 AND config = $2";
        let found: Option<Option<Vec<u8>>> =
            ask!(self, pool => sqlx::query_scalar(find).bind(id.as_bytes().to_vec()).bind(config).fetch_optional(pool))?;
        Ok(found.flatten())
    }

    pub(super) async fn standing(&self, config: &str) -> Result<Option<(Vec<u8>, Vec<u8>)>, Error> {
        let find = "SELECT id, wrapped FROM data_key WHERE config = $1 AND wrapped IS NOT NULL";
        ask!(self, pool => sqlx::query_as(find).bind(config).fetch_optional(pool))
    }

    pub(super) async fn keep(&self, id: Uuid, config: &str, wrapped: Vec<u8>) -> Result<(), Error> {
        let put = "INSERT INTO data_key (id, config, wrapped) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
        ask!(self, pool => async { sqlx::query(put).bind(id.as_bytes().to_vec()).bind(config).bind(wrapped).execute(pool).await.map(|_| ()) })
    }

    /// In PostgreSQL a row that was changed stands on until it is vacuumed: the table is written anew at once.
    pub(super) async fn erase(&self, config: &str) -> Result<u64, Error> {
        let erase =
            "UPDATE data_key SET wrapped = NULL, erased_at = CAST(CURRENT_TIMESTAMP AS TEXT) WHERE config = $1 AND wrapped IS NOT NULL";
        let done = match self {
            Self::File(pool) => sqlx::query(erase).bind(config).execute(pool).await?.rows_affected(),
            Self::Postgres { pool, .. } => sqlx::query(erase).bind(config).execute(pool).await?.rows_affected(),
        };
        if let Self::Postgres { pool, schema } = self {
            // Also where an earlier attempt came no further than the line above.
            let erased: Option<i32> = sqlx::query_scalar("SELECT 1 FROM data_key WHERE config = $1 AND wrapped IS NULL LIMIT 1")
                .bind(config)
                .fetch_optional(pool)
                .await?;
            if erased.is_some() {
                sqlx::query(&format!("VACUUM FULL {schema}.data_key")).execute(pool).await?;
            }
        }
        Ok(done)
    }

    pub(super) async fn close(&self) {
        match self {
            Self::File(pool) => pool.close().await,
            Self::Postgres { pool, .. } => pool.close().await,
        }
    }
}
