//! A bootstrap configuration: what the machines of a role at a site are installed with. [`Config`] is its state; whether machines may
//! be installed from it is [`not_adoptable`].

mod decide;

pub use decide::{ALL_FIELDS, BadField, check, decide};

use fleet_schemas::{BootstrapConfigEvent, BootstrapFields, Hash, RoleName, SealedUserData, SiteId, Timestamp, VaultKeyId};
use serde::{Deserialize, Serialize};

/// The state of a bootstrap configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Its site.
    pub site: SiteId,
    /// Its role.
    pub role: RoleName,
    /// Its version: the stream's. 0 = it never was; it goes on counting when it is created again.
    pub version: u64,
    /// Whether it stands: created, and not retired since.
    pub standing: bool,
    /// What it says.
    pub fields: BootstrapFields,
    /// Its user-data, without the bytes.
    pub user_data: Option<UserData>,
    /// When it was created, the last time.
    pub created_at: Timestamp,
    /// When its version last changed.
    pub updated_at: Timestamp,
    /// Who changed it last.
    pub updated_by: String,
}

/// Which user-data a configuration has. The sealed bytes stand in the event of `version` and nowhere else in the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserData {
    /// The version that set it.
    pub version: u64,
    /// The data key it is sealed under.
    pub key: VaultKeyId,
    /// HMAC of it under that key.
    pub digest: Hash,
}

/// A field that stands in the way of installing a machine, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAdoptable {
    /// The field.
    pub field: &'static str,
    /// What it would break.
    pub reason: &'static str,
}

impl Config {
    /// A configuration that nobody has created.
    pub fn new(site: SiteId, role: RoleName) -> Self {
        let fields = BootstrapFields { image: None, flavor: None, features: vec![], gres: None };
        let (created_at, updated_at) = (Timestamp::default(), Timestamp::default());
        Self { site, role, version: 0, standing: false, fields, user_data: None, created_at, updated_at, updated_by: String::new() }
    }
}

/// Every reason why no machine can be installed from these fields; empty = it can.
pub fn not_adoptable(fields: &BootstrapFields) -> Vec<NotAdoptable> {
    let image = "no image: Nova is not told what to install, and provisioning of the role is refused";
    let flavor = "no flavor: Nova cannot choose a machine, and provisioning of the role is refused";
    let each = [("image", &fields.image, image), ("flavor", &fields.flavor, flavor)];
    each.into_iter().filter(|(_, value, _)| value.is_none()).map(|(field, _, reason)| NotAdoptable { field, reason }).collect()
}

/// Folds an event in.
pub fn evolve(config: &mut Config, event: &BootstrapConfigEvent, at: Timestamp) {
    let (version, by) = match event {
        BootstrapConfigEvent::BootstrapConfigCreated(e) => {
            (config.standing, config.created_at) = (true, at);
            config.fields = e.fields.clone();
            config.user_data = e.user_data.as_ref().map(|sealed| user_data(e.version, sealed));
            (e.version, &e.by)
        }
        BootstrapConfigEvent::BootstrapConfigChanged(e) => {
            config.fields = e.fields.clone();
            if e.changed.iter().any(|name| name == "user_data") {
                config.user_data = e.user_data.as_ref().map(|sealed| user_data(e.version, sealed));
            }
            (e.version, &e.by)
        }
        BootstrapConfigEvent::BootstrapConfigRetired(e) => {
            config.standing = false;
            (e.version, &e.by)
        }
    };
    (config.version, config.updated_at, config.updated_by) = (version, at, by.clone());
}

fn user_data(version: u64, sealed: &SealedUserData) -> UserData {
    UserData { version, key: sealed.key, digest: sealed.digest }
}
