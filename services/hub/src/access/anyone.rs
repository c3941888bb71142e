//! The extractor of the few routes that every token may ask.

use super::granted::{Principal, authenticate};
use crate::{Hub, Problem};
use axum::{extract::FromRequestParts, http::request::Parts};
use std::sync::Arc;

/// Proof that the caller has a valid token, whatever it may do.
#[derive(Clone, Debug)]
pub struct Anyone {
    /// Who.
    pub principal: Principal,
}

impl FromRequestParts<Arc<Hub>> for Anyone {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Problem> {
        authenticate(parts, hub).await.map(|principal| Self { principal })
    }
}
