//! The hub: HTTP API, token endpoint, authorisation. It reads the read model and asks the journal; it never calls an outside system.
//!
//! [`router`] is the whole of it over a [`Hub`]. Every route but the public few is made by [`access::Routes`], which takes no
//! handler without a scope.

pub mod access;
mod api;
mod problem;
mod render;
mod telling;

pub use problem::Problem;

use access::{Clients, Issuer};
use axum::Router;
use fleet_journal::Journal;
use fleet_projections::{Generations, Reads};
use std::{sync::Arc, time::Duration};

/// Everything the API works on.
pub struct Hub {
    /// The journal.
    pub journal: Arc<Journal>,
    /// The read models.
    pub generations: Arc<Generations>,
    /// Issues and checks tokens.
    pub issuer: Issuer,
    /// Who may ask for one.
    pub clients: Clients,
    /// URL under which the hub is reached.
    pub url: String,
    /// How long a write waits for its decision.
    pub patience: Duration,
}

impl Hub {
    /// The generation that serves now.
    pub(crate) fn reads(&self) -> Reads {
        self.generations.reads().borrow().clone()
    }
}

/// A request that takes longer is ended; writes end sooner by themselves.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// The whole API.
pub fn router(hub: Arc<Hub>) -> Router {
    let timeout = tower_http::timeout::TimeoutLayer::with_status_code(axum::http::StatusCode::SERVICE_UNAVAILABLE, REQUEST_LIMIT);
    let public = Router::new().merge(api::health::routes()).merge(api::tokens::routes());
    let guarded = api::routes().into_router();
    public
        .nest("/api/v1", guarded)
        .fallback(api::not_found)
        .method_not_allowed_fallback(api::method_not_allowed)
        .layer(axum::middleware::from_fn(api::observe))
        .layer(timeout)
        .with_state(hub)
}
