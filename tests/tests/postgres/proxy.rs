//! The network between a hub and its database: it forwards, breaks off, or says nothing any more.

use std::{net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    Forwards,
    /// Nobody listens, and what was open is closed.
    Gone,
    /// Takes everything and hands on nothing.
    Silent,
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: Arc<watch::Sender<Network>>,
    _loop: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(to: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(watch::Sender::new(Network::Forwards));
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, address, to, state.clone()));
        Self { address, state, _loop: tasks }
    }

    pub(crate) fn become_(&self, state: Network) {
        self.state.send_replace(state);
    }
}

async fn serve(first: TcpListener, address: SocketAddr, to: String, state: Arc<watch::Sender<Network>>) {
    let (mut changed, mut first) = (state.subscribe(), Some(first));
    loop {
        changed.wait_for(|s| *s != Network::Gone).await.unwrap();
        let listener = match first.take() {
            Some(listener) => listener,
            None => crate::world::until(|| async { TcpListener::bind(address).await.map_err(|e| e.to_string()) }).await,
        };
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                gone = changed.wait_for(|s| *s == Network::Gone) => {
                    gone.unwrap();
                    break;
                }
                accepted = listener.accept() => {
                    if let Ok((near, _)) = accepted {
                        open.spawn(forward(near, to.clone(), state.subscribe()));
                    }
                }
            }
        }
    }
}

async fn forward(near: TcpStream, to: String, mut state: watch::Receiver<Network>) {
    let Ok(far) = TcpStream::connect(to).await else { return };
    let ((mut near_in, mut near_out), (mut far_in, mut far_out)) = (near.into_split(), far.into_split());
    let both = async {
        tokio::join!(tokio::io::copy(&mut near_in, &mut far_out), tokio::io::copy(&mut far_in, &mut near_out)).0.unwrap_or_default();
    };
    tokio::pin!(both);
    loop {
        if *state.borrow_and_update() == Network::Silent {
            // Neither end hears of the other, until the network is there again: then this way is closed, as a router would that forgot it.
            state.wait_for(|s| *s != Network::Silent).await.unwrap();
            return;
        }
        tokio::select! {
            () = &mut both => return,
            changed = state.changed() => changed.unwrap(),
        }
    }
}
