//! What is done with a data key.

use super::Error;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{hkdf, hmac};
use fleet_schemas::{Hash, SealedUserData, StreamId, VaultKeyId};

/// User-data in clear. It is never printed and never stored: no Debug, no Serialize.
pub struct UserData(pub Vec<u8>);

/// A data key in clear, for the time of one call.
pub(super) struct DataKey([u8; 32]);

impl Drop for DataKey {
    fn drop(&mut self) {
        self.0.fill(0);
    }
}

impl DataKey {
    pub(super) fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key for one purpose, so that no two uses share a key. The digest is an HMAC under the data key itself.
    fn derived(&self, purpose: &'static str) -> Result<[u8; 32], Error> {
        let key = hkdf::Salt::new(hkdf::HKDF_SHA256, b"fleet-manager user-data").extract(&self.0);
        let info = [purpose.as_bytes()];
        let mut out = [0; 32];
        key.expand(&info, hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut out)).map_err(|_| Error::Crypto)?;
        Ok(out)
    }

    fn mac(key: &[u8], bytes: &[u8]) -> [u8; 32] {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), bytes);
        let mut out = [0; 32];
        out.copy_from_slice(tag.as_ref());
        out
    }

    /// The nonce is an HMAC of the content: other content has another nonce, and the same content shows no more than its digest does.
    pub(super) fn seal(&self, id: VaultKeyId, config: &StreamId, user_data: &UserData) -> Result<SealedUserData, Error> {
        let digest = Hash(Self::mac(&self.0, &user_data.0));
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&Self::mac(&self.derived("nonce")?, &user_data.0)[..NONCE_LEN]);
        let mut bytes = user_data.0.clone();
        self.cipher()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(config.to_string()), &mut bytes)
            .map_err(|_| Error::Crypto)?;
        Ok(SealedUserData { key: id, digest, nonce: nonce.to_vec().into(), ciphertext: bytes.into() })
    }

    pub(super) fn open(&self, config: &StreamId, sealed: &SealedUserData) -> Result<UserData, Error> {
        let nonce = Nonce::try_assume_unique_for_key(&sealed.nonce).map_err(|_| Error::Damaged)?;
        let mut bytes = sealed.ciphertext.to_vec();
        let clear = self.cipher()?.open_in_place(nonce, Aad::from(config.to_string()), &mut bytes).map_err(|_| Error::Damaged)?.len();
        bytes.truncate(clear);
        Ok(UserData(bytes))
    }

    fn cipher(&self) -> Result<LessSafeKey, Error> {
        UnboundKey::new(&AES_256_GCM, &self.derived("seal")?).map(LessSafeKey::new).map_err(|_| Error::Crypto)
    }
}
