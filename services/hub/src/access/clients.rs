//! The clients a hub knows.

use jsonwebtoken::jwk::JwkSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Its id.
    pub client: String,
    /// Scopes it may ask for.
    pub scopes: Vec<String>,
    /// Sites it may touch; `*` = all.
    pub sites: Vec<String>,
    /// Its public keys; two while it rotates.
    pub jwks: JwkSet,
}

/// All clients by id.
#[derive(Clone, Debug, Default)]
pub struct Clients(BTreeMap<String, Client>);

impl Clients {
    /// Takes a list; refuses what could not work, naming it.
    pub fn new(list: Vec<Client>) -> Result<Self, String> {
        let mut clients = BTreeMap::new();
        for client in list {
            if let Some(unknown) = client.scopes.iter().find(|s| !super::SCOPES.contains(&s.as_str())) {
                return Err(format!("client {}: `{unknown}` is no scope; scopes are: {}", client.client, super::SCOPES.join(", ")));
            }
            if let Some(site) = client.sites.iter().find(|s| *s != "*" && s.parse::<fleet_schemas::SiteId>().is_err()) {
                return Err(format!("client {}: `{site}` is no site name", client.client));
            }
            if client.jwks.keys.is_empty() {
                return Err(format!("client {} has no key", client.client));
            }
            let id = client.client.clone();
            if clients.insert(id.clone(), client).is_some() {
                return Err(format!("client {id} is listed twice"));
            }
        }
        Ok(Self(clients))
    }

    /// The client of this id.
    pub fn get(&self, client: &str) -> Option<&Client> {
        self.0.get(client)
    }
}
