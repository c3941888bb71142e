//! The one way out: GET with a total deadline and a capped body, no redirects, no proxies, secrets taken out of whatever comes back.

use crate::error::{ClientError, ErrorClass};
use fleet_schemas::{LookFault, plain_url};
use reqwest::{Client, header::HeaderValue, redirect::Policy};
use secrecy::{ExposeSecret, SecretString};
use std::{error::Error as _, path::Path, time::Duration};

/// Larger bodies are refused: the largest list measured is 26 MB for 10,000 SLURM nodes.
const MAX_BODY: usize = 64 << 20;
/// Longest path and query shown in an error.
const MAX_SHOWN: usize = 100;

/// A connection pool to one outside system.
pub(crate) struct Http {
    client: Client,
    base: String,
    deadline: Duration,
}

/// An answer, read whole. The body may be text or JSON, whatever the status says.
pub(crate) struct Answer {
    /// `GET /path?query`, cut.
    pub(crate) asked: String,
    /// HTTP status.
    pub(crate) code: u16,
    /// The body; bytes that are no UTF-8 are replaced, since SLURM reasons may hold any.
    pub(crate) body: String,
}

impl Http {
    /// For `base`, a URL with or without a path; `deadline` covers a whole call, body included.
    pub(crate) fn new(base: &str, deadline: Duration) -> Result<Self, ClientError> {
        let bad = |why: &str| ClientError::new(ErrorClass::Permanent, "base URL", why, LookFault::NoData);
        let url = plain_url(base).map_err(|e| bad(&e))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
            return Err(bad("expected http(s)://host[:port][/path] without a query"));
        }
        let client = Client::builder().no_proxy().redirect(Policy::none()).user_agent("fleet-manager-satellite").build();
        let client = client.map_err(|e| bad(&chain(e)))?;
        Ok(Self { client, base: base.trim_end_matches('/').to_owned(), deadline })
    }

    /// GET of `path` (with query, encoded already). `secret` is what must not show up in anything that comes back.
    pub(crate) async fn get(
        &self,
        path: &str,
        headers: &[(&'static str, HeaderValue)],
        secret: &SecretString,
    ) -> Result<Answer, ClientError> {
        let asked = format!("GET {}", path.chars().take(MAX_SHOWN).collect::<String>());
        let transient = |came: String| ClientError::new(ErrorClass::Transient, asked.as_str(), came, LookFault::NoData);
        let mut request = self.client.get(format!("{}{path}", self.base)).header("Accept", "application/json");
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let call = async {
            let mut response = request.send().await.map_err(|e| transient(chain(e)))?;
            let mut body = Vec::new();
            while let Some(piece) = response.chunk().await.map_err(|e| transient(chain(e)))? {
                if body.len() + piece.len() > MAX_BODY {
                    return Err(ClientError::malformed(&asked, format!("{} and more than {MAX_BODY} bytes", response.status().as_u16())));
                }
                body.extend_from_slice(&piece);
            }
            Ok((response.status().as_u16(), body))
        };
        let late = |_| transient(format!("no whole answer within {} s", self.deadline.as_secs_f32()));
        let (code, body) = tokio::time::timeout(self.deadline, call).await.map_err(late)??;
        let mut body = String::from_utf8_lossy(&body).into_owned();
        if body.contains(secret.expose_secret()) {
            body = body.replace(secret.expose_secret(), "[removed]");
        }
        Ok(Answer { asked, code, body })
    }
}

/// The secret in a file, without white space around it. Read anew for each look, so that a renewed one is taken up.
pub(crate) fn read_secret(path: &Path) -> Result<SecretString, ClientError> {
    let bad = |why: String| ClientError::new(ErrorClass::Permanent, format!("read {}", path.display()), why, LookFault::NoData);
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    if text.trim().is_empty() {
        return Err(bad("the file is empty".into()));
    }
    Ok(SecretString::from(text.trim()))
}

/// A header that is never shown.
pub(crate) fn secret_header(text: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| {
        ClientError::new(ErrorClass::Permanent, "token", "it has characters that no HTTP header can carry", LookFault::NoData)
    })?;
    value.set_sensitive(true);
    Ok(value)
}

/// An error with all its causes, without the URL (which the caller names).
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(e) = cause {
        text = format!("{text}: {e}");
        cause = e.source();
    }
    text
}
