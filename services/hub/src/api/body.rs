//! A request's body, whole, unpacked and not too large.

use crate::Problem;
use axum::{body::Bytes, extract::FromRequest, extract::Request, http::StatusCode, http::header};
use futures::StreamExt;
use std::{io::Read, time::Duration};

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
        let packed = packed(&request)?;
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
            return Err(too_large());
        }
        Ok(Self(if packed { unpack(&kept)? } else { kept }.into()))
    }
}

/// What gzip holds, as long as it is not too much.
fn unpack(packed: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut plain = Vec::new();
    let read = flate2::read::GzDecoder::new(packed).take(LIMIT as u64 + 1).read_to_end(&mut plain);
    read.map_err(|e| Problem::invalid("body", format!("it is no gzip: {e}")))?;
    if plain.len() > LIMIT { Err(too_large()) } else { Ok(plain) }
}

fn too_large() -> Problem {
    let detail = format!("a body has at most {LIMIT} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail).with("field", "body".into())
}

/// Whether the body is packed; any other coding is refused.
fn packed(request: &Request) -> Result<bool, Problem> {
    match request.headers().get(header::CONTENT_ENCODING).map(|v| v.to_str().unwrap_or("?").trim().to_ascii_lowercase()) {
        None => Ok(false),
        Some(coding) if coding == "identity" => Ok(false),
        Some(coding) if coding == "gzip" => Ok(true),
        Some(coding) => {
            let detail = format!("content-encoding `{coding}` is not known; gzip or none");
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unknown-encoding", detail).with("field", "content-encoding".into()))
        }
    }
}
