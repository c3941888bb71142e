//! What librdkafka tells its owner: trouble, its log, and the question for a token.

use super::options::{Options, Sasl};
use rdkafka::client::OAuthToken;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Statistics};
use std::{error::Error, path::Path, path::PathBuf, sync::Arc, sync::Mutex, time::Duration, time::Instant};

/// One line about the same trouble in this time; librdkafka says some dozens a second.
const QUIET: Duration = Duration::from_secs(10);

/// Of every client.
#[derive(Clone)]
pub(super) struct Context {
    shared: Arc<Shared>,
}

struct Shared {
    token_file: Option<PathBuf>,
    trouble: Mutex<Option<Trouble>>,
}

struct Trouble {
    code: Option<RDKafkaErrorCode>,
    why: String,
    at: Instant,
    told: Instant,
}

impl Context {
    pub(super) fn new(options: &Options) -> Self {
        let token_file = match &options.sasl {
            Some(Sasl::TokenFile(file)) => Some(file.clone()),
            Some(Sasl::Password { .. }) | None => None,
        };
        Self { shared: Arc::new(Shared { token_file, trouble: Mutex::new(None) }) }
    }

    /// What the clients last complained of, in words that a person can act on: a call that timed out does not know why.
    pub(super) fn trouble(&self) -> Option<String> {
        let trouble = self.shared.trouble.lock().unwrap_or_else(|e| e.into_inner());
        let trouble = trouble.as_ref().filter(|t| t.at.elapsed() < Duration::from_secs(30))?;
        let helps = match trouble.code {
            Some(RDKafkaErrorCode::Authentication) => "; the brokers refuse the user, the password or the mechanism",
            Some(RDKafkaErrorCode::SSL) => "; the brokers' certificate is not one that the CA file vouches for, or it has expired",
            Some(RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed) => {
                "; the ACLs do not allow it: docs/guides/deployment/kafka.md lists what a hub needs"
            }
            _ => "",
        };
        Some(format!("{}{helps}", trouble.why))
    }

    pub(super) fn note(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        // No trouble: a reader asked to be told; and of the group whose name assigning asks for, nothing is used.
        if matches!(code, Some(RDKafkaErrorCode::PartitionEOF | RDKafkaErrorCode::GroupAuthorizationFailed)) {
            return;
        }
        metrics::counter!("fm_log_client_errors_total", "code" => code.map_or_else(|| "other".to_owned(), |c| format!("{c:?}")))
            .increment(1);
        let mut trouble = self.shared.trouble.lock().unwrap_or_else(|e| e.into_inner());
        let now = Instant::now();
        // "All brokers are down" follows whatever took them down, and says less.
        let vaguer = code == Some(RDKafkaErrorCode::AllBrokersDown) && trouble.as_ref().is_some_and(|t| t.at.elapsed() < QUIET);
        if vaguer {
            return;
        }
        let quiet = trouble.as_ref().filter(|t| t.code == code && now.duration_since(t.told) < QUIET).map(|t| t.told);
        if quiet.is_none() {
            tracing::warn!(%error, reason, "kafka");
        }
        *trouble = Some(Trouble {
            code,
            why: if reason.is_empty() { error.to_string() } else { reason.to_owned() },
            at: now,
            told: quiet.unwrap_or(now),
        });
    }
}

impl ClientContext for Context {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical => tracing::error!(facility, text, "librdkafka"),
            // The error callback says the same, once.
            RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning
            | RDKafkaLogLevel::Notice
            | RDKafkaLogLevel::Info
            | RDKafkaLogLevel::Debug => {
                tracing::debug!(facility, text, "librdkafka");
            }
        }
    }

    fn stats(&self, _: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.note(&error, reason);
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
        token(self.shared.token_file.as_deref().ok_or("no token file is set")?)
    }
}

impl ConsumerContext for Context {}

/// Who a token is of, and until when, by its own words: the brokers verify it.
fn token(file: &Path) -> Result<OAuthToken, Box<dyn Error>> {
    use base64::Engine;
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let token = text.trim().to_owned();
    let claims = token.split('.').nth(1).ok_or_else(|| format!("{}: no JWT", file.display()))?;
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).map_err(|e| format!("{}: {e}", file.display()))?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).map_err(|e| format!("{}: {e}", file.display()))?;
    let until = claims["exp"].as_f64().ok_or_else(|| format!("{}: the token has no `exp`", file.display()))?;
    let principal_name = claims["sub"].as_str().unwrap_or_default().to_owned();
    Ok(OAuthToken { token, principal_name, lifetime_ms: (until * 1000.0) as i64 })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]
    use super::*;

    #[test]
    fn a_token_file_says_whose_it_is_and_until_when() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // {"sub":"fleet-hub","exp":1893456000}
        std::fs::write(file.path(), "e30.eyJzdWIiOiJmbGVldC1odWIiLCJleHAiOjE4OTM0NTYwMDB9.x\n").unwrap();
        let read = token(file.path()).unwrap();
        assert_eq!((read.principal_name.as_str(), read.lifetime_ms), ("fleet-hub", 1_893_456_000_000));
        std::fs::write(file.path(), "no token").unwrap();
        let refused = token(file.path()).err().unwrap().to_string();
        assert!(refused.contains("no JWT") && refused.contains(&*file.path().to_string_lossy()), "{refused}");
    }
}
