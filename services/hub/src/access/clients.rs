//! The clients a hub knows: its satellites' by the roster, and, in `dev` alone, sample users.
//!
//! The roster is `satelliteRoster` of `infra/charts/hub/values.yaml`: what a client may see and touch comes from here, never from a
//! request's body and never from a client's name.

use super::SCOPES;
use fleet_lifecycle::condition_types;
use fleet_schemas::{SiteId, Source, TaskKind};
use jsonwebtoken::jwk::JwkSet;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Scopes that no satellite may have: what people decide, no program at a site decides for them.
const NOT_FOR_SATELLITES: &[&str] =
    &["slurm-bootstrap-config:create", "slurm-bootstrap-config:update", "device-lifecycle:create", "site:update", "admin"];

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Its id.
    pub client: String,
    /// Scopes it may ask for.
    pub scopes: Vec<String>,
    /// Sites it may touch; `*` = all (never of a satellite's).
    pub sites: Vec<String>,
    /// The system it looks at, where it looks at one.
    pub source: Option<Source>,
    /// The NetBox that it looks at, where that is its source: it speaks of the records of no other.
    pub instance: Option<String>,
    /// Types of conditions that it may report.
    pub conditions: Vec<String>,
    /// Whether the URL of the token endpoint is taken as the audience of its assertions, as older clients send it.
    pub token_url_audience: bool,
    /// Its public keys; two while it rotates.
    pub jwks: JwkSet,
}

/// All clients by id.
#[derive(Clone, Debug, Default)]
pub struct Clients(BTreeMap<String, Client>);

/// The file; a chart's values have other keys beside.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "satelliteRoster")]
    roster: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    client: String,
    site: Option<String>,
    #[serde(default)]
    sites: Vec<String>,
    kinds: Vec<String>,
    instance: Option<String>,
    scopes: Vec<String>,
    conditions: Option<Vec<String>>,
    #[serde(default, rename = "tokenUrlAudience")]
    token_url_audience: bool,
    jwks: JwkSet,
}

impl Clients {
    /// Takes a list; refuses what could not work, naming it.
    pub fn new(list: Vec<Client>) -> Result<Self, String> {
        let mut clients = BTreeMap::new();
        for client in list {
            client.verify().map_err(|e| format!("client {}: {e}", client.client))?;
            let id = client.client.clone();
            if clients.insert(id.clone(), client).is_some() {
                return Err(format!("client {id} is listed twice"));
            }
        }
        Ok(Self(clients))
    }

    /// Reads a roster. `sites` are those that the hub has; another one is a slip.
    pub fn roster(yaml: &str, sites: &[SiteId]) -> Result<Vec<Client>, String> {
        let file: File = serde_yaml_ng::from_str(yaml).map_err(|e| format!("satelliteRoster: {e}"))?;
        let client = |e: Entry| {
            let id = e.client.clone();
            e.client(sites).map_err(|why| format!("satelliteRoster: client {id}: {why}"))
        };
        file.roster.into_iter().map(client).collect()
    }

    /// The client of this id.
    pub fn get(&self, client: &str) -> Option<&Client> {
        self.0.get(client)
    }

    /// Every client.
    pub fn iter(&self) -> impl Iterator<Item = &Client> {
        self.0.values()
    }
}

impl Client {
    fn verify(&self) -> Result<(), String> {
        if self.client.is_empty() || !self.client.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
            return Err("an id has letters, digits, `-`, `_` and `.`".into());
        }
        if let Some(unknown) = self.scopes.iter().find(|s| !SCOPES.contains(&s.as_str())) {
            return Err(format!("`{unknown}` is no scope; scopes are: {}", SCOPES.join(", ")));
        }
        if let Some(site) = self.sites.iter().find(|s| *s != "*" && s.parse::<SiteId>().is_err()) {
            return Err(format!("`{site}` is no site name"));
        }
        match (self.source, self.instance.as_deref().map(str::trim)) {
            (Some(Source::Netbox), None | Some("")) => {
                return Err("kind netbox needs `instance`: the name of its NetBox, as the satellite's [[netbox]] has it".into());
            }
            (Some(Source::Netbox), Some(_)) | (Some(Source::Slurm) | None, None) => {}
            (Some(Source::Slurm) | None, Some(_)) => return Err("`instance` is of kind netbox alone; leave it out".into()),
        }
        if self.jwks.keys.is_empty() {
            return Err("it has no key".into());
        }
        match self.jwks.keys.iter().find(|k| k.common.key_id.as_deref().unwrap_or_default().is_empty()) {
            Some(_) => Err("a key has no `kid`, by which assertions name theirs".into()),
            None => Ok(()),
        }
    }

    /// The types that agents of `source` report.
    pub fn types_of(source: Option<Source>) -> Vec<String> {
        condition_types().iter().filter(|t| source.is_some_and(|s| s.as_str() == t.source)).map(|t| t.name.to_owned()).collect()
    }
}

impl Entry {
    fn client(self, known: &[SiteId]) -> Result<Client, String> {
        let sites: Vec<String> = self.site.into_iter().chain(self.sites).collect();
        if sites.is_empty() {
            return Err("it names no `site`".into());
        }
        if let Some(site) = sites.iter().find(|s| !known.iter().any(|k| k.as_str() == *s)) {
            let known: Vec<_> = known.iter().map(SiteId::as_str).collect();
            return Err(format!("this hub has no site `{site}`; it has: {}", known.join(", ")));
        }
        if let Some(scope) = self.scopes.iter().find(|s| NOT_FOR_SATELLITES.contains(&s.as_str())) {
            return Err(format!("no satellite may have scope `{scope}`: people give such orders, with a login of their own"));
        }
        let sources: Vec<Source> = self.kinds.iter().filter_map(|k| k.parse().ok()).collect();
        let other = self.kinds.iter().find(|k| k.parse::<Source>().is_err() && k.parse::<TaskKind>().is_err());
        if let Some(kind) = other {
            let words: Vec<_> = Source::ALL.iter().map(|s| s.as_str()).chain(TaskKind::ALL.iter().map(|k| k.as_str())).collect();
            return Err(format!("`{kind}` is no kind; kinds are: {}", words.join(", ")));
        }
        if sources.len() > 1 {
            return Err("a client looks at one source; give each a client of its own".into());
        }
        let source = sources.first().copied();
        let types = Client::types_of(source);
        let conditions = self.conditions.unwrap_or_else(|| types.clone());
        if let Some(other) = conditions.iter().find(|c| !types.contains(c)) {
            return Err(format!("`{other}` is no condition of its source; there are: {}", types.join(", ")));
        }
        let Self { client, scopes, instance, token_url_audience, jwks, .. } = self;
        let client = Client { client, scopes, sites, source, instance, conditions, token_url_audience, jwks };
        client.verify()?;
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "a", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

    fn read(entry: &str) -> Result<Vec<Client>, String> {
        let sites = ["lhr1".parse().unwrap(), "fra1".parse().unwrap()];
        Clients::roster(&format!("replicas: 2\nsatelliteRoster:\n  - {{{entry}, jwks: {KEY}}}\n"), &sites)
    }

    #[test]
    fn an_entry_is_what_the_contract_says() {
        let read =
            read("client: slurm-agent-lhr1, site: lhr1, kinds: [slurm], scopes: ['device:update', 'device-condition:create']").unwrap();
        assert_eq!((read[0].source, read[0].sites.as_slice()), (Some(Source::Slurm), &["lhr1".to_owned()][..]));
        assert_eq!(read[0].conditions, ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"]);
        let netbox = self::read("client: netbox-agent, site: lhr1, kinds: [netbox], instance: main, scopes: ['observation:create']");
        let netbox = netbox.unwrap();
        assert_eq!((netbox[0].source, netbox[0].instance.as_deref()), (Some(Source::Netbox), Some("main")));
    }

    #[test]
    fn what_could_not_work_or_must_not_is_refused_by_name() {
        let rows = [
            ("client: a, kinds: [slurm], scopes: []", "names no `site`"),
            ("client: a, site: ams1, kinds: [slurm], scopes: []", "no site `ams1`; it has: lhr1, fra1"),
            ("client: a, site: '*', kinds: [slurm], scopes: []", "no site `*`"),
            ("client: a, site: lhr1, kinds: [slurmd], scopes: []", "`slurmd` is no kind"),
            ("client: a, site: lhr1, kinds: [slurm, netbox], scopes: []", "looks at one source"),
            ("client: a, site: lhr1, kinds: [netbox], scopes: []", "kind netbox needs `instance`"),
            ("client: a, site: lhr1, kinds: [netbox], instance: '', scopes: []", "kind netbox needs `instance`"),
            ("client: a, site: lhr1, kinds: [slurm], instance: main, scopes: []", "`instance` is of kind netbox alone"),
            ("client: a, site: lhr1, kinds: [slurm], scopes: ['device:writ']", "`device:writ` is no scope"),
            (
                "client: a, site: lhr1, kinds: [], scopes: ['slurm-bootstrap-config:create']",
                "no satellite may have scope `slurm-bootstrap-config:create`",
            ),
            (
                "client: a, site: lhr1, kinds: [], scopes: ['slurm-bootstrap-config:update']",
                "no satellite may have scope `slurm-bootstrap-config:update`",
            ),
            (
                "client: a, site: lhr1, kinds: [], scopes: ['device-lifecycle:create']",
                "no satellite may have scope `device-lifecycle:create`",
            ),
            (
                "client: a, site: lhr1, kinds: [slurm], scopes: [], conditions: [InventoryMatched]",
                "`InventoryMatched` is no condition of its source",
            ),
            ("client: a, site: lhr1, kind: [slurm], kinds: [], scopes: []", "unknown field `kind`"),
            ("client: 'a b', site: lhr1, kinds: [], scopes: []", "an id has letters"),
        ];
        for (entry, expected) in rows {
            let why = read(entry).unwrap_err();
            assert!(why.contains(expected), "{entry}: {why}");
        }
    }
}
