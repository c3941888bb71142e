//! Where NetBox's webhooks arrive at a site: `POST /webhooks/netbox/<instance>`. A good one makes that agent look at once; the change
//! feed and the sweeps find whatever a webhook did not tell.

use crate::agents::Pokes;
use crate::configuration::Netbox;
use crate::serve::serve;
use anyhow::Context;
use axum::{Router, body::Body, extract::Path, extract::State, http::HeaderMap, http::StatusCode, routing::post};
use fleet_satellite::netbox::{Hint, Hints, SIGNATURE};
use secrecy::SecretString;
use std::{collections::BTreeMap, net::SocketAddr, net::TcpListener, sync::Arc, time::Duration};
use tokio::{sync::Notify, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Between two looks that hints asked for.
const PAUSE: Duration = Duration::from_secs(5);
/// A whole delivery.
const PATIENCE: Duration = Duration::from_secs(30);
/// A device with many interfaces has some 20 kB.
const MOST: usize = 4 << 20;

type Instances = Arc<BTreeMap<String, (Hints, Arc<Notify>)>>;

/// Listens, for every NetBox that has a secret.
pub fn start(
    listen: SocketAddr,
    netboxes: &[Netbox],
    pokes: &Pokes,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    let mut instances = BTreeMap::new();
    for netbox in netboxes {
        let (Some(file), Some(poke)) = (&netbox.webhook_secret_file, pokes.netbox(&netbox.instance)) else { continue };
        let secret = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        if secret.trim().is_empty() {
            anyhow::bail!("{}: the file is empty: anybody could sign", file.display());
        }
        let hint = Arc::new(Notify::new());
        tasks.spawn(pass_on(hint.clone(), poke.clone(), cancel.clone()));
        instances.insert(netbox.instance.clone(), (Hints::new(&SecretString::from(secret.trim())), hint));
    }
    let listener = TcpListener::bind(listen).with_context(|| format!("webhooks_listen = {listen}"))?;
    crate::print::lines(&format!("webhooks: http://{}/webhooks/netbox/<instance>", listener.local_addr()?));
    let router = Router::new().route("/webhooks/netbox/{instance}", post(receive));
    serve(listener, None, router.with_state(Arc::new(instances)), tasks, cancel)
}

/// One look for all hints that come together, and no two looks in a row without a pause.
async fn pass_on(hint: Arc<Notify>, poke: Arc<Notify>, cancel: CancellationToken) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = hint.notified() => poke.notify_one(),
        }
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

async fn receive(State(instances): State<Instances>, Path(instance): Path<String>, headers: HeaderMap, body: Body) -> (StatusCode, String) {
    let whole = tokio::time::timeout(PATIENCE, axum::body::to_bytes(body, MOST)).await;
    let Ok(Ok(body)) = whole else { return (StatusCode::REQUEST_TIMEOUT, "the delivery did not come whole\n".into()) };
    let Some((hints, poke)) = instances.get(&instance) else {
        return (StatusCode::NOT_FOUND, "no NetBox of this name sends webhooks here\n".into());
    };
    let taken = hints.take(headers.get(SIGNATURE).and_then(|s| s.to_str().ok()), &body);
    let result = match taken {
        Ok(Hint::Look) => "look",
        Ok(Hint::Repeated) => "repeated",
        Ok(Hint::NothingToUs) => "nothing-to-us",
        Err(_) => "refused",
    };
    metrics::counter!("fm_webhooks_total", "instance" => instance.clone(), "result" => result).increment(1);
    match taken {
        Ok(hint) => {
            if hint == Hint::Look {
                poke.notify_one();
            }
            (StatusCode::ACCEPTED, String::new())
        }
        Err(error) => {
            tracing::warn!(instance, %error, "a webhook was refused");
            (StatusCode::UNAUTHORIZED, format!("{error}\n"))
        }
    }
}
