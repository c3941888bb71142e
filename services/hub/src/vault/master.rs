//! The master key: it wraps data keys, and comes from a file that is kept apart from the vault.

use super::Error;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use base64::{Engine, engine::general_purpose::STANDARD};
use std::path::Path;

/// See the module. No Debug, no Serialize.
pub struct MasterKey(LessSafeKey);

impl MasterKey {
    /// From its file: 32 bytes as base64.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: name(), source })?;
        let bytes = STANDARD.decode(text.trim()).map_err(|_| Error::NoMasterKey(name()))?;
        let key = UnboundKey::new(&AES_256_GCM, &bytes).map_err(|_| Error::NoMasterKey(name()))?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// From its file, which is made where there is none yet; but never beside a vault that another key belongs to.
    pub fn read_or_make(path: &Path, vault: &Path) -> Result<Self, Error> {
        if !path.exists() {
            if vault.exists() {
                return Err(Error::MasterKeyLost(path.display().to_string()));
            }
            let io = |source| Error::Io { path: path.display().to_string(), source };
            let mut bytes = [0; 32];
            rand::fill(&mut bytes).map_err(|_| Error::Crypto)?;
            // Whole or not at all: half a key would look like a lost one.
            crate::private::write(path, format!("{}\n", STANDARD.encode(bytes)).as_bytes()).map_err(io)?;
        }
        Self::read(path)
    }

    /// Nonce, then the key encrypted and bound to what it is for.
    pub(super) fn wrap(&self, key: &[u8; 32], what_for: &str) -> Result<Vec<u8>, Error> {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).map_err(|_| Error::Crypto)?;
        let mut bytes = key.to_vec();
        self.0.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(what_for), &mut bytes).map_err(|_| Error::Crypto)?;
        Ok([nonce.as_slice(), &bytes].concat())
    }

    pub(super) fn unwrap(&self, wrapped: &[u8], what_for: &str) -> Result<[u8; 32], Error> {
        let (nonce, sealed) = wrapped.split_at_checked(NONCE_LEN).ok_or(Error::Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Error::Damaged)?;
        let mut bytes = sealed.to_vec();
        let clear = self.0.open_in_place(nonce, Aad::from(what_for), &mut bytes).map_err(|_| Error::Damaged)?;
        let mut key = [0; 32];
        if clear.len() != key.len() {
            return Err(Error::Damaged);
        }
        key.copy_from_slice(clear);
        clear.fill(0);
        Ok(key)
    }
}
