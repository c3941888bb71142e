//! How this program listens: with TLS or, on loopback, without. A connection that says nothing, or never ends its headers, is closed.

use crate::process;
use axum::Router;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::{RustlsAcceptor, RustlsConfig};
use axum_server::{Handle, from_tcp};
use hyper_util::rt::TokioTimer;
use std::{net::TcpListener, sync::Arc, time::Duration};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long a connection may take until a request's headers are whole; also how long it may be idle. Longer than the minute in which
/// agents look, so that each look does not need a handshake.
const HEADERS: Duration = Duration::from_secs(75);

/// Serves `router` in `tasks` until `cancel`; then what is under way may end, half as long as a stop may take.
pub fn serve(
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    within(HEADERS, listener, tls, router, tasks, cancel)
}

fn within(
    headers: Duration,
    listener: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    tasks: &mut JoinSet<anyhow::Result<()>>,
    cancel: &CancellationToken,
) -> anyhow::Result<()> {
    listener.set_nonblocking(true)?;
    let (handle, stop) = (Handle::new(), cancel.clone());
    let server = from_tcp(listener)?.handle(handle.clone());
    tasks.spawn(async move {
        stop.cancelled_owned().await;
        handle.graceful_shutdown(Some(process::STOP / 2));
        Ok(())
    });
    // Small answers go out at once.
    let plain = NoDelayAcceptor::new();
    // `acceptor` forgets what was said of HTTP before it: HTTP/1 comes after. With it the deadline holds from the first byte that is missing.
    macro_rules! run {
        ($acceptor:expr) => {{
            let mut server = server.acceptor($acceptor).http1_only();
            server.http_builder().http1().timer(TokioTimer::new()).header_read_timeout(headers);
            tasks.spawn(async move { Ok(server.serve(router.into_make_service()).await?) })
        }};
    }
    match tls {
        Some(tls) => run!(RustlsAcceptor::new(http1(&tls)).acceptor(plain)),
        None => run!(plain),
    };
    Ok(())
}

/// Offers what is spoken, and no more: a client that is offered HTTP/2 takes it.
fn http1(tls: &RustlsConfig) -> RustlsConfig {
    let mut config = (*tls.get_inner()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    RustlsConfig::from_config(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// What comes back to `said`, until the other side closes after `headers` without any.
    async fn answer(said: &str, headers: Duration) -> String {
        let (mut tasks, cancel) = (JoinSet::new(), CancellationToken::new());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let router = Router::new().route("/", axum::routing::get(|| async { "here" }));
        within(headers, listener, None, router, &mut tasks, &cancel).unwrap();
        let (mut stream, mut came) = (TcpStream::connect(at).await.unwrap(), String::new());
        stream.write_all(said.as_bytes()).await.unwrap();
        tokio::time::timeout(Duration::from_secs(30), stream.read_to_string(&mut came)).await.expect("it is closed").unwrap();
        cancel.cancel();
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap().unwrap();
        }
        came
    }

    #[tokio::test]
    async fn who_says_nothing_or_never_ends_is_closed() {
        let soon = Duration::from_millis(50);
        assert_eq!(answer("", soon).await, "");
        assert!(!answer("GET / HTTP/1.1\r\nhost: a\r\nx: ", soon).await.contains("200 OK"));
        // A whole request is answered, however late it is read here, and the idle connection closed behind it.
        let came = answer("GET / HTTP/1.1\r\nhost: a\r\n\r\n", Duration::from_secs(3)).await;
        assert!(came.starts_with("HTTP/1.1 200 OK") && came.ends_with("here"), "{came}");
    }
}
