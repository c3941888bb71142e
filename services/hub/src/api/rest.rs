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
    use axum::{Router, http::StatusCode, middleware, routing::post};
    use futures::{SinkExt, channel::mpsc};
    use tower::Service;

    /// A sender that can put down no more than what is taken gets rid of all of it.
    #[tokio::test]
    async fn a_refusal_lets_the_rest_of_the_body_come() {
        let refuse = || async { StatusCode::FORBIDDEN };
        let mut router: Router = Router::new().route("/refused", post(refuse)).layer(middleware::from_fn(let_go));
        let (mut sender, body) = mpsc::channel::<Result<&str, std::io::Error>>(0);
        let request = Request::post("/refused").body(Body::from_stream(body)).unwrap();
        let answer = tokio::spawn(async move { router.call(request).await.unwrap() });
        for part in ["a", "b", "c", "d"] {
            sender.send(Ok(part)).await.unwrap();
        }
        drop(sender);
        assert_eq!(answer.await.unwrap().status(), StatusCode::FORBIDDEN);
    }
}
