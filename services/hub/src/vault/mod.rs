//! The vault: data keys of bootstrap configurations, in a store of its own. [`Vault::seal`] encrypts user-data before it enters a
//! topic, [`Vault::open`] decrypts it for one answer, [`Vault::erase`] makes it unreadable everywhere and for ever.
//!
//! A data key stands here wrapped by the master key, which comes from outside. The vault is not rebuilt from anything: losing it, or
//! the master key, loses every user-data; the journal's history stays whole.

mod crypto;
mod master;
mod store;

pub use crypto::UserData;
pub use master::MasterKey;

use aws_lc_rs::rand;
use crypto::DataKey;
use fleet_projections::PostgresConfig;
use fleet_schemas::{SealedUserData, StreamId, VaultKeyId};
use std::path::Path;
use store::Store;
use uuid::Uuid;

/// Sealed under the master key when the vault is made: another master key cannot open it.
const CHECK: &[u8; 32] = b"fleet-manager vault, format one.";
/// Why the vault did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its file failed.
    #[error("vault: {0}")]
    Store(#[from] sqlx::Error),
    /// The database failed.
    #[error("vault: {0}")]
    Database(#[from] fleet_projections::Error),
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
    #[error(
        "the master key is not the one that this vault was made with; put back the key file that belongs to it: that of `master_key`, or data/keys/master.key where none is named; hubs that share a vault have the same"
    )]
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
    store: Store,
    master: MasterKey,
}

impl Vault {
    /// Opens the vault's file, or makes it, readable by its owner alone.
    pub async fn open_file(path: &Path, master: MasterKey) -> Result<Self, Error> {
        Self::with(Store::file(path, true).await?, master).await
    }

    /// Opens the vault that several hubs share, or makes it: in a schema of its own.
    pub async fn open_shared(database: &PostgresConfig, master: MasterKey) -> Result<Self, Error> {
        Self::with(Store::postgres(database).await?, master).await
    }

    async fn with(store: Store, master: MasterKey) -> Result<Self, Error> {
        let check = store.check(master.wrap(CHECK, "master")?).await?;
        if master.unwrap(&check, "master").ok().as_ref() != Some(CHECK) {
            return Err(Error::AnotherMasterKey);
        }
        Ok(Self { store, master })
    }

    /// Encrypts user-data for a configuration, under its data key, which is made where it has none. The same user-data under the same
    /// key gives the same bytes, so that a repeated request is the same request.
    pub async fn seal(&self, config: &StreamId, user_data: &UserData) -> Result<SealedUserData, Error> {
        let (id, key) = self.current(config).await?;
        key.seal(id, config, user_data)
    }

    /// Decrypts user-data of a configuration.
    pub async fn open(&self, config: &StreamId, sealed: &SealedUserData) -> Result<UserData, Error> {
        let wrapped = self.store.wrapped(sealed.key.0, &config.to_string()).await?;
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
        self.store.keep(Uuid::new_v4(), &config.to_string(), wrapped?).await?;
        self.standing(config).await?.ok_or(Error::Crypto)
    }

    async fn standing(&self, config: &StreamId) -> Result<Option<(VaultKeyId, DataKey)>, Error> {
        let Some((id, wrapped)) = self.store.standing(&config.to_string()).await? else { return Ok(None) };
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
    let store = Store::file(path, false).await?;
    let erased = store.erase(&config.to_string()).await?;
    store.close().await;
    Ok(erased)
}

/// The same in a vault that several hubs share.
pub async fn erase_shared(database: &PostgresConfig, config: &StreamId) -> Result<u64, Error> {
    let store = Store::postgres(database).await?;
    let erased = store.erase(&config.to_string()).await?;
    store.close().await;
    Ok(erased)
}
