//! The HTTP side of a face: loopback listeners, a request as data, an answer as data.

use std::future::Future;
use std::io;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request};
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use tokio::net::TcpListener;

/// Bodies above this are refused; the largest a caller sends is a PATCH of one device.
const MAX_BODY: usize = 1 << 20;

/// One request, read whole.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    /// Query parameters in order, decoded; a key may come more than once.
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|v| v.to_str().ok())
    }

    /// The last value of a query parameter (Django's rule).
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// One answer, ready to send.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "application/json", headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain", headers: Vec::new(), body: body.into() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The same answer with its body cut in the middle (all bodies are built from ASCII-only shapes, names may not be: cut at a boundary).
    pub(crate) fn cut(mut self) -> Self {
        let mut half = self.body.len() / 2;
        while !self.body.is_char_boundary(half) {
            half -= 1;
        }
        self.body.truncate(half);
        self
    }

    fn into_response(self) -> Response {
        let mut builder = Response::builder().status(self.status).header("Content-Type", self.content_type);
        for (name, value) in self.headers {
            builder = builder.header(name, value);
        }
        // Only a status outside 100..=999 or a header with control characters gets here: a fault set to nonsense.
        builder
            .body(Body::from(self.body))
            .unwrap_or_else(|_| Response::new(Body::from("the simulator was asked for an impossible answer")))
    }
}

/// A listener on a free loopback port, and its base URL without a trailing slash.
pub(crate) async fn bind() -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let url = format!("http://{}", listener.local_addr()?);
    Ok((listener, url))
}

/// Answers every request of `listener` with `respond`, until the task is dropped.
pub(crate) async fn serve<F, Fut>(listener: TcpListener, respond: F)
where
    F: Fn(Call) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Answer> + Send,
{
    let app = Router::new().fallback(move |request: Request| {
        let respond = respond.clone();
        async move {
            match read(request).await {
                Ok(call) => respond(call).await.into_response(),
                Err(refusal) => refusal.into_response(),
            }
        }
    });
    if let Err(error) = axum::serve(listener, app).await {
        tracing::error!(error = &error as &dyn std::error::Error, "a face of the simulator stopped");
    }
}

async fn read(request: Request) -> Result<Call, Answer> {
    let (parts, body) = request.into_parts();
    let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri).map(|q| q.0).unwrap_or_default();
    let body = to_bytes(body, MAX_BODY).await.map_err(|_| Answer::text(413, "body too large"))?;
    Ok(Call { method: parts.method, uri: parts.uri, query, headers: parts.headers, body })
}
