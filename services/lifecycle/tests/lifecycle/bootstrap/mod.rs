//! Bootstrap configurations: created, changed, retired; and what their absence or emptiness does to the role's devices.

mod changes;
mod laws;
mod provision;

use crate::dsl::*;
use fleet_schemas::*;
use uuid::Uuid;

fn full() -> BootstrapFields {
    boots(Some("ubuntu"), Some("bm.h100"))
}

/// User-data as the API seals it: `content` stands for the digest, `key` for the data key.
fn sealed(key: u128, content: u8) -> SealedUserData {
    let key = VaultKeyId(Uuid::from_u128(key));
    SealedUserData { key, digest: Hash([content; 32]), nonce: vec![content; 12].into(), ciphertext: vec![content; 40].into() }
}

fn create(fields: BootstrapFields) -> Ask {
    CreateBootstrapConfig { fields, user_data: Some(sealed(1, 1)) }.into()
}

/// A patch that names these fields, with their values from `fields`.
fn patch(set: &[&str], fields: BootstrapFields) -> Ask {
    patch_data(set, fields, None)
}

fn patch_data(set: &[&str], fields: BootstrapFields, user_data: Option<SealedUserData>) -> Ask {
    UpdateBootstrapConfig { set: set.iter().map(|s| (*s).to_owned()).collect(), fields, user_data }.into()
}

fn retire() -> Ask {
    RetireBootstrapConfig {}.into()
}

fn read(version: u64) -> Ask {
    ReadUserData { version }.into()
}
