//! What a refused request is answered: RFC 9457, public text only. The private cause is logged where it is made.

use axum::{http::HeaderMap, http::HeaderName, http::HeaderValue, http::StatusCode, response::IntoResponse, response::Response};
use fleet_schemas::Outcome;
use problem_details::ProblemDetails;
use serde_json::{Map, Value, json};

/// A problem, as `application/problem+json`. Boxed, since it is the rare half of every result.
#[derive(Debug)]
pub struct Problem(Box<Inner>);

#[derive(Debug)]
struct Inner {
    status: StatusCode,
    code: String,
    detail: String,
    more: Map<String, Value>,
    headers: HeaderMap,
}

impl Problem {
    /// A problem with a stable code.
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(Inner { status, code: code.into(), detail: detail.into(), more: Map::new(), headers: HeaderMap::new() }))
    }

    /// 400: the request is not understood; `field` names the part at fault.
    pub fn invalid(field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", detail).with("field", json!(field))
    }

    /// 404.
    pub fn missing(what: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", what)
    }

    /// 500, with the cause in the log alone.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed inside");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the request failed inside; the log says why")
    }

    /// A refusal of the lifecycle.
    pub fn refused(outcome: &Outcome) -> Self {
        let status = match outcome.code.as_str() {
            "version-conflict" => StatusCode::PRECONDITION_FAILED,
            "too-many-commands" => StatusCode::TOO_MANY_REQUESTS,
            "out-of-reach" => StatusCode::FORBIDDEN,
            "unknown-device" | "unknown-site" | "unknown-config" => StatusCode::NOT_FOUND,
            "undecodable" | "internal" | "too-large" => StatusCode::INTERNAL_SERVER_ERROR,
            "invalid" => StatusCode::BAD_REQUEST,
            _ => StatusCode::CONFLICT,
        };
        let problem = Self::new(status, &outcome.code, format!("{}: expected {}, seen {}", outcome.guard, outcome.expected, outcome.seen))
            .with("guard", json!(outcome.guard))
            .with("expected", json!(outcome.expected))
            .with("seen", json!(outcome.seen))
            .with("helps", json!(outcome.helps));
        // A day's commands make room one by one.
        if status == StatusCode::TOO_MANY_REQUESTS { problem.header("retry-after", "3600") } else { problem }
    }

    /// Adds a member.
    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.more.insert(name.into(), value);
        self
    }

    /// Adds a header.
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.0.status
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Inner { status, code, detail, mut more, headers } = *self.0;
        // A name, relative to the API; nothing need be there.
        let r#type = format!("/problems/{code}").parse::<axum::http::Uri>().unwrap_or_default();
        more.insert("code".into(), json!(code));
        let details = ProblemDetails::from_status_code(status).with_type(r#type).with_detail(detail).with_extensions(more);
        (headers, details).into_response()
    }
}

impl From<fleet_projections::Error> for Problem {
    fn from(error: fleet_projections::Error) -> Self {
        if let fleet_projections::Error::Busy | fleet_projections::Error::Moved = error {
            return Self::new(StatusCode::CONFLICT, "generations-busy", error.to_string()).header("retry-after", "5");
        }
        if !error.passing() {
            return Self::internal(&error);
        }
        tracing::warn!(%error, "the read model does not answer");
        let detail = "the read model does not answer at this moment; nothing is lost, ask again";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "read-model-unavailable", detail).header("retry-after", "1")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks while the database is away is told to ask again, and not that the hub is broken.
    #[test]
    fn a_read_model_that_does_not_answer_is_503() {
        let gone = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "gone");
        let rows: [(fleet_projections::Error, StatusCode, &str); 4] = [
            (sqlx::Error::Io(gone).into(), StatusCode::SERVICE_UNAVAILABLE, "read-model-unavailable"),
            (sqlx::Error::PoolTimedOut.into(), StatusCode::SERVICE_UNAVAILABLE, "read-model-unavailable"),
            (fleet_projections::Error::Busy, StatusCode::CONFLICT, "generations-busy"),
            (sqlx::Error::RowNotFound.into(), StatusCode::INTERNAL_SERVER_ERROR, "internal"),
        ];
        for (error, status, code) in rows {
            let problem = Problem::from(error);
            assert_eq!((problem.status(), problem.0.code.as_str()), (status, code));
            assert_eq!(problem.0.headers.contains_key("retry-after"), status != StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}
