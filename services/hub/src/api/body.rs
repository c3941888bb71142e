//! A request's body, whole and not too large.

use crate::Problem;
use axum::{body::Bytes, extract::FromRequest, extract::Request, http::StatusCode};
use futures::StreamExt;
use std::time::Duration;

/// Bytes that a body may have.
const LIMIT: usize = 1 << 20;
/// Bytes of a larger one that are read and let go, so that its sender gets to read the answer.
const LET_GO: usize = 16 << 20;
/// How long it may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The bytes.
pub(crate) struct Whole(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let detail = || format!("the body did not come within {} s", PATIENCE.as_secs());
        let late = |_| Problem::new(StatusCode::REQUEST_TIMEOUT, "body-late", detail()).with("field", "body".into());
        tokio::time::timeout(PATIENCE, Self::read(request)).await.map_err(late)?
    }
}

impl Whole {
    async fn read(request: Request) -> Result<Self, Problem> {
        let (mut parts, mut kept, mut read) = (request.into_body().into_data_stream(), Vec::new(), 0);
        while let Some(part) = parts.next().await {
            let part = part.map_err(|e| Problem::invalid("body", format!("it did not come whole: {e}")))?;
            read += part.len();
            if read > LET_GO {
                break;
            }
            if read <= LIMIT {
                kept.extend_from_slice(&part);
            }
        }
        if read > LIMIT {
            let detail = format!("a body has at most {LIMIT} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail).with("field", "body".into()));
        }
        Ok(Self(kept.into()))
    }
}
