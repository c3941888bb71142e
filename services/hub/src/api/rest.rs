//! What nobody read of a request's body. A refusal is made before the body is read; a connection that still holds some of it is closed behind the
//! answer, and whatever its sender asks next on it gets none. So the rest is read and let go first.

use axum::{body::Body, body::HttpBody, extract::Request, middleware::Next, response::Response};
use futures::{StreamExt, stream};
use std::{sync::Arc, time::Duration};
use tokio::sync::Mutex;

/// Bytes that are let go; more, and the connection is closed after all.
const MOST: usize = 1 << 20;
/// How long they may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers once the body is read, by whomever.
pub(crate) async fn let_go(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let body = Arc::new(Mutex::new(body.into_data_stream().fuse()));
    let read = stream::unfold(body.clone(), |body| async move {
        let part = body.lock().await.next().await?;
        Some((part, body))
    });
    let answer = next.run(Request::from_parts(parts, Body::from_stream(read))).await;
    let rest = async {
        let (mut body, mut read) = (body.lock().await, 0);
        while let Some(Ok(part)) = body.next().await {
            read += part.len();
            if read > MOST {
                break;
            }
        }
    };
    // What does not come in time is not waited for: the answer stands.
    let _ = tokio::time::timeout(PATIENCE, rest).await;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{Router, http::StatusCode, middleware, routing::get, routing::post};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    #[tokio::test]
    async fn a_refusal_leaves_the_connection_to_the_next_request() {
        let refuse = || async { StatusCode::FORBIDDEN };
        let router = Router::new().route("/refused", post(refuse)).route("/next", get(|| async { "here" }));
        let router = router.layer(middleware::from_fn(let_go));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        stream.write_all(b"POST /refused HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n").await.unwrap();
        // The answer is ready by now.
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(b"{}").await.unwrap();
        stream.write_all(b"GET /next HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut came = String::new();
        stream.read_to_string(&mut came).await.unwrap();
        assert!(came.starts_with("HTTP/1.1 403") && came.contains("HTTP/1.1 200") && came.ends_with("here"), "{came}");
    }
}
