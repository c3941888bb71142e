//! The things that a path names.

use crate::Problem;
use axum::{extract::FromRequestParts, extract::Path, http::request::Parts};

/// Its name or id, decoded.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path(name)| Self(name)).map_err(|e| Problem::invalid("path", e.body_text()))
    }
}

/// The names of a thing and of what holds it, decoded.
pub(crate) struct Within(pub(crate) String, pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Within {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let read = Path::from_request_parts(parts, state).await;
        read.map(|Path((holder, name))| Self(holder, name)).map_err(|e| Problem::invalid("path", e.body_text()))
    }
}
