//! The bed's hub over HTTP, on loopback.

use crate::bed::Bed;
use fleet_hub::Hub;
use fleet_hub::access::{Client, Clients, Denials, Issuer, Limits, generate_key};
use fleet_hub::vault::{MasterKey, Vault};
use fleet_schemas::Source;
use fleet_tests::Api;
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

/// Scopes of an agent of SLURM, as its contract has them.
const AGENT_SCOPES: &str = "device:update device-condition:create";

pub struct Served {
    /// A reader.
    pub api: Api,
    /// An agent of SLURM.
    pub agent: Api,
    stop: oneshot::Sender<()>,
    server: JoinHandle<()>,
}

impl Served {
    pub async fn start(bed: &Bed) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Issuer::new(&url, &[generate_key().unwrap().private_pem]).unwrap();
        let token = |client: &str, scopes: &str| issuer.issue(client, scopes, &["*".into()]).unwrap();
        let api = Api::with_token(&url, &token("bench", "device:read")).unwrap();
        let agent = Api::with_token(&url, &token("slurm-agent", AGENT_SCOPES)).unwrap();
        let router = fleet_hub::router(Arc::new(hub(bed, issuer, url).await));
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(async move {
            let listener = axum::serve::ListenerExt::tap_io(listener, |tcp| tcp.set_nodelay(true).unwrap());
            let stopped = async move {
                // Ends when the sender is dropped.
                let _ = stopped.await;
            };
            axum::serve(listener, router).with_graceful_shutdown(stopped).await.unwrap();
        });
        Self { api, agent, stop, server }
    }

    /// With its last connection goes the last hold on the folder.
    pub async fn stop(self) {
        drop((self.api, self.agent, self.stop));
        self.server.await.unwrap();
    }
}

async fn hub(bed: &Bed, issuer: Issuer, url: String) -> Hub {
    let agent = Client {
        client: "slurm-agent".into(),
        scopes: AGENT_SCOPES.split(' ').map(str::to_owned).collect(),
        sites: vec!["*".into()],
        source: Some(Source::Slurm),
        instance: None,
        conditions: Client::types_of(Some(Source::Slurm)),
        token_url_audience: false,
        jwks: serde_json::from_value(json!({"keys": [generate_key().unwrap().private_jwk]})).unwrap(),
    };
    let (key, file) = (bed.folder.path().join("bench.key"), bed.folder.path().join("bench-vault.sqlite"));
    let vault = Vault::open_file(&file, MasterKey::read_or_make(&key, &file).unwrap()).await.unwrap();
    Hub {
        journal: bed.journal.clone(),
        generations: bed.generations.clone(),
        issuer,
        clients: Clients::new(vec![agent]).unwrap(),
        outside: vec![],
        denials: Denials::new(bed.generations.control().clone()),
        // What is measured is the gateway, not how long it makes one client wait.
        limits: Limits::new(1_000_000, 1_000_000),
        vault,
        url,
        patience: Duration::from_secs(10),
    }
}
