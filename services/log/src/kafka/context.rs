//! What librdkafka tells its owner: trouble, and its log.

use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientContext, Statistics};
use std::{sync::Arc, sync::Mutex, time::Duration, time::Instant};

/// One line about the same trouble in this time; librdkafka says some dozens a second.
const QUIET: Duration = Duration::from_secs(10);

/// Of every client.
#[derive(Clone, Default)]
pub(super) struct Context {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    trouble: Mutex<Option<Trouble>>,
}

struct Trouble {
    code: Option<RDKafkaErrorCode>,
    why: String,
    at: Instant,
    told: Instant,
}

impl Context {
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
}

impl ConsumerContext for Context {}
