//! A proxy on loopback, between a hub and what it calls: it can cut connections, let them hang, and delay what passes.

use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What it does with what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Lets it pass.
    Open,
    /// Each piece waits for so long, in both directions.
    Slow(Duration),
    /// Connections stand, and nothing comes through.
    Hung,
    /// Connections are closed, new ones too.
    Cut,
}

/// A port that leads to another; closed with the value.
pub struct Proxy {
    /// Where it listens, on loopback.
    pub port: u16,
    way: watch::Sender<Way>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Leads from `port` to `to`, both on loopback; open at first. To be called within a runtime.
    pub fn start(port: u16, to: u16) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", port))?;
        listener.set_nonblocking(true)?;
        let (port, listener) = (listener.local_addr()?.port(), TcpListener::from_std(listener)?);
        let (way, ways) = watch::channel(Way::Open);
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(carry(near, to, ways.clone()));
            }
        });
        Ok(Self { port, way, task })
    }

    /// From now on, for connections that stand too.
    pub fn turn(&self, way: Way) {
        self.way.send_replace(way);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// One connection, until one side ends it or it is cut.
async fn carry(near: TcpStream, to: u16, ways: watch::Receiver<Way>) {
    let mut cut = ways.clone();
    let both = async {
        let far = TcpStream::connect(("127.0.0.1", to)).await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
        tokio::select! {
            ended = pass(near_read, far_write, &ways) => ended,
            ended = pass(far_read, near_write, &ways) => ended,
        }
    };
    tokio::select! {
        // Whoever had the connection sees it end, and says what it makes of that.
        _ = both => {}
        _ = cut.wait_for(|way| *way == Way::Cut) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, ways: &watch::Receiver<Way>) -> io::Result<()> {
    let (mut ways, mut buffer) = (ways.clone(), vec![0; 64 << 10]);
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        let way = *ways.borrow();
        if let Way::Slow(delay) = way {
            tokio::time::sleep(delay).await;
        }
        // Closed = the proxy is gone, and its connections with it.
        if ways.wait_for(|way| *way != Way::Hung).await.is_err() {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
