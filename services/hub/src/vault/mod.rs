//! The vault: data keys of bootstrap configurations, in a store of its own. [`Vault::seal`] encrypts user-data before it enters a
//! topic, [`Vault::open`] decrypts it for one answer, [`Vault::erase`] makes it unreadable everywhere and for ever.
//!
//! A data key stands here wrapped by the master key, which comes from outside. The vault is not rebuilt from anything: losing it, or
//! the master key, loses every user-data; the journal's history stays whole.

mod crypto;
mod master;

pub use crypto::UserData;
pub use master::MasterKey;

use aws_lc_rs::rand;
use crypto::DataKey;
use fleet_schemas::{SealedUserData, StreamId, VaultKeyId};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use std::os::unix::fs::OpenOptionsExt;
use std::{path::Path, time::Duration};
use uuid::Uuid;

/// Sealed under the master key when the vault is made: another master key cannot open it.
const CHECK: &[u8; 32] = b"fleet-manager vault, format one.";
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS vault (one INTEGER PRIMARY KEY CHECK (one = 1), master_check BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS data_key (
    id       BLOB PRIMARY KEY,   -- uuid
    config   TEXT NOT NULL,      -- bootstrap-config/<site>/<role>
    wrapped  BLOB,               -- nonce and AES-256-GCM under the master key; NULL = erased
    made_at  TEXT NOT NULL DEFAULT (datetime('now')),
    erased_at TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS data_key_in_use ON data_key (config) WHERE wrapped IS NOT NULL;";

/// Why the vault did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file failed.
    #[error("vault: {0}")]
    Store(#[from] sqlx::Error),
    /// A file failed.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: String,
        /// How.
        source: std::io::Error,
    },
    /// The master key's file holds no key.
    #[error("{0} holds no master key: it is 32 bytes as one line of base64")]
    NoMasterKey(String),
    /// The vault was made with another master key.
    #[error("the master key is not the one that this vault was made with; put back the key file that belongs to it")]
    AnotherMasterKey,
    /// There is a vault, and no master key.
    #[error("{0} is missing, and a vault is there: without its master key nothing in it can be read; put the key file back")]
    MasterKeyLost(String),
    /// The key is not here: it was erased, or belongs to another vault.
    #[error("data key {0} is not in the vault: it was erased, or the vault was lost")]
    Erased(VaultKeyId),
    /// The bytes are not what was sealed.
    #[error("the sealed user-data is damaged, or belongs to another configuration")]
    Damaged,
    /// The library refused.
    #[error("the cryptography library failed")]
    Crypto,
}

/// See the module.
pub struct Vault {
    pool: SqlitePool,
    master: MasterKey,
}

impl Vault {
    /// Opens the vault's file, or makes it, readable by its owner alone.
    pub async fn open_file(path: &Path, master: MasterKey) -> Result<Self, Error> {
        let pool = pool(path, true).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        let fresh = master.wrap(CHECK, "master")?;
        sqlx::query("INSERT INTO vault (one, master_check) VALUES (1, $1) ON CONFLICT DO NOTHING").bind(fresh).execute(&pool).await?;
        let check: Vec<u8> = sqlx::query_scalar("SELECT master_check FROM vault").fetch_one(&pool).await?;
        if master.unwrap(&check, "master").ok().as_ref() != Some(CHECK) {
            return Err(Error::AnotherMasterKey);
        }
        Ok(Self { pool, master })
    }

    /// Encrypts user-data for a configuration, under its data key, which is made where it has none. The same user-data under the same
    /// key gives the same bytes, so that a repeated request is the same request.
    pub async fn seal(&self, config: &StreamId, user_data: &UserData) -> Result<SealedUserData, Error> {
        let (id, key) = self.current(config).await?;
        key.seal(id, config, user_data)
    }

    /// Decrypts user-data of a configuration.
    pub async fn open(&self, config: &StreamId, sealed: &SealedUserData) -> Result<UserData, Error> {
        let wrapped: Option<Vec<u8>> = sqlx::query_scalar("SELECT wrapped FROM data_key WHERE id = $1 AND config = $2")
            .bind(sealed.key.0.as_bytes().as_slice())
            .bind(config.to_string())
            .fetch_optional(&self.pool)
            .await?
            .flatten();
        let wrapped = wrapped.ok_or(Error::Erased(sealed.key))?;
        self.key(&wrapped, config)?.open(config, sealed)
    }

    async fn current(&self, config: &StreamId) -> Result<(VaultKeyId, DataKey), Error> {
        if let Some(found) = self.standing(config).await? {
            return Ok(found);
        }
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| Error::Crypto)?;
        let wrapped = self.master.wrap(&bytes, &config.to_string());
        bytes.fill(0);
        // Of two at once, one is kept, and both use it.
        sqlx::query("INSERT INTO data_key (id, config, wrapped) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING")
            .bind(Uuid::new_v4().as_bytes().as_slice())
            .bind(config.to_string())
            .bind(wrapped?)
            .execute(&self.pool)
            .await?;
        self.standing(config).await?.ok_or(Error::Crypto)
    }

    async fn standing(&self, config: &StreamId) -> Result<Option<(VaultKeyId, DataKey)>, Error> {
        let row: Option<(Vec<u8>, Vec<u8>)> = sqlx::query_as("SELECT id, wrapped FROM data_key WHERE config = $1 AND wrapped IS NOT NULL")
            .bind(config.to_string())
            .fetch_optional(&self.pool)
            .await?;
        let Some((id, wrapped)) = row else { return Ok(None) };
        let id = Uuid::from_slice(&id).map_err(|_| Error::Damaged)?;
        Ok(Some((VaultKeyId(id), self.key(&wrapped, config)?)))
    }

    fn key(&self, wrapped: &[u8], config: &StreamId) -> Result<DataKey, Error> {
        self.master.unwrap(wrapped, &config.to_string()).map(DataKey::new)
    }
}

/// Destroys every data key of a configuration in this vault file; gives how many. What was sealed under them can be read by nobody any
/// more, in the journal, the read model, a backup of either, or a process that runs. Needs no master key.
pub async fn erase(path: &Path, config: &StreamId) -> Result<u64, Error> {
    let pool = pool(path, false).await?;
    let done = sqlx::query("UPDATE data_key SET wrapped = NULL, erased_at = datetime('now') WHERE config = $1 AND wrapped IS NOT NULL")
        .bind(config.to_string())
        .execute(&pool)
        .await?;
    pool.close().await;
    Ok(done.rows_affected())
}

/// No write-ahead log, and overwritten when deleted: an erased key is in no file of the vault.
async fn pool(path: &Path, create: bool) -> Result<SqlitePool, Error> {
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
    Ok(SqlitePoolOptions::new().max_connections(1).connect_with(options).await?)
}
