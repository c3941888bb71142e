//! Bootstrap configurations: what the machines of a role at a site are installed with. One stream per [`RoleName`] and site; its
//! commands, its events, and user-data only as [`SealedUserData`]: nothing in clear ever stands in a record.

use crate::{AvroType, Hash, SchemaBuilder, StreamId, VaultKeyId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, str::FromStr, sync::Arc};
use uuid::Uuid;

/// The name of a device role in a bootstrap configuration, NetBox's slug: lower-case letters, digits and hyphens, 1 to 63 of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoleName(pub Arc<str>);

impl RoleName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no role name.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a role name: 1 to 63 lower-case letters, digits and hyphens")]
pub struct BadRoleName(pub String);

impl FromStr for RoleName {
    type Err = BadRoleName;
    fn from_str(s: &str) -> Result<Self, BadRoleName> {
        let ok = (1..=63).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if ok { Ok(Self(s.into())) } else { Err(BadRoleName(s.chars().take(80).collect())) }
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AvroType for RoleName {
    fn schema(b: &mut SchemaBuilder) -> Value {
        <Arc<str>>::schema(b)
    }
}

impl StreamId {
    /// The id under which the API shows the stream: uuid5 of its text.
    pub fn uuid(&self) -> Uuid {
        Uuid::new_v5(&crate::NAMESPACE, self.to_string().as_bytes())
    }
}

record! {
    /// What a machine is installed with, but for its user-data.
    pub struct BootstrapFields {
        /// Glance's id or name of the image; absent = nothing can be installed.
        image: Option<String>,
        /// Nova's flavor; absent = nothing can be installed.
        flavor: Option<String>,
        /// SLURM features, as the machine is to register with.
        features: Vec<String>,
        /// SLURM GRES, as the machine is to register with.
        gres: Option<String>,
    }
}

record! {
    /// User-data, encrypted before it enters a topic: AES-256-GCM under the configuration's data key, bound to its stream.
    pub struct SealedUserData {
        /// The data key, in the vault. Once that is destroyed nobody can read this.
        key: VaultKeyId,
        /// HMAC-SHA256 of the user-data under the data key: tells versions apart and nothing else.
        digest: Hash,
        /// 12 bytes, derived from key and content: the same user-data gives the same bytes.
        nonce: serde_bytes::ByteBuf,
        /// With the tag at its end.
        ciphertext: serde_bytes::ByteBuf,
    }
}

record! {
    /// A role gets a configuration at a site. Refused where it has one.
    pub struct CreateBootstrapConfig in "command" {
        /// The fields.
        fields: BootstrapFields,
        /// User-data.
        user_data: Option<SealedUserData>,
    }
}
record! {
    /// A merge-patch: the fields that are named get these values, empty ones included; the others stay.
    pub struct UpdateBootstrapConfig in "command" {
        /// Names of the fields to set: image, flavor, features, gres, user_data.
        set: Vec<String>,
        /// Their values.
        fields: BootstrapFields,
        /// User-data, where it is named.
        user_data: Option<SealedUserData>,
    }
}
record! {
    /// The role has no configuration any more. Its versions stay.
    pub struct RetireBootstrapConfig in "command" {}
}
record! {
    /// Somebody is about to be given the user-data. Noted, so that the journal names every reader.
    pub struct ReadUserData in "command" {
        /// The configuration's version.
        version: u64,
    }
}

record! {
    /// A configuration was created, or created again after it was retired.
    pub struct BootstrapConfigCreated in "event" {
        /// Its version from here on.
        version: u64,
        /// Who created it.
        by: String,
        /// The fields.
        fields: BootstrapFields,
        /// User-data.
        user_data: Option<SealedUserData>,
    }
}
record! {
    /// A configuration changed.
    pub struct BootstrapConfigChanged in "event" {
        /// Its version from here on.
        version: u64,
        /// Who changed it.
        by: String,
        /// Names of the fields that changed: image, flavor, features, gres, user_data.
        changed: Vec<String>,
        /// The fields as they stand, changed or not.
        fields: BootstrapFields,
        /// User-data, where it changed; absent there = there is none any more.
        user_data: Option<SealedUserData>,
    }
}
record! {
    /// A configuration was retired.
    pub struct BootstrapConfigRetired in "event" {
        /// The version that ends it.
        version: u64,
        /// Who retired it.
        by: String,
    }
}

payloads! {
    /// What can happen to a bootstrap configuration.
    pub enum BootstrapConfigEvent { BootstrapConfigCreated, BootstrapConfigChanged, BootstrapConfigRetired }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_its_text_and_lives_in_partition_0() {
        let text = "bootstrap-config/lhr1/gpu-h100";
        let stream: StreamId = text.parse().unwrap();
        assert_eq!((stream.to_string().as_str(), stream.partition(25), stream.partition(5)), (text, 0, 0));
        assert_eq!(stream.uuid(), text.parse::<StreamId>().unwrap().uuid());
        let long = "x".repeat(64);
        for role in ["", "GPU", "a b", "a/b", "gpu_node", "é", &long] {
            assert!(role.parse::<RoleName>().is_err(), "{role}");
            assert!(format!("bootstrap-config/lhr1/{role}").parse::<StreamId>().is_err(), "{role}");
        }
        for text in ["bootstrap-config/lhr1", "bootstrap-config//gpu", "bootstrap-config/LHR/gpu"] {
            assert!(text.parse::<StreamId>().is_err(), "{text}");
        }
        assert!("x".repeat(63).parse::<RoleName>().is_ok());
    }
}
