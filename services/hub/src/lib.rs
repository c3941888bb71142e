//! The hub: HTTP API, token endpoint, authorisation. It reads the read model and asks the journal; it never calls an outside system.
//!
//! [`router`] is the whole of it over a [`Hub`]. Every route but the public few is made by [`access::Routes`], which takes no
//! handler without a scope.

pub mod access;
mod api;
pub mod openapi;
pub mod private;
mod problem;
mod publisher;
mod reactor;
mod render;
mod telling;
pub mod vault;

pub use problem::Problem;
pub use publisher::{Contract, Frame, Publisher, asyncapi_text, contracts, published};
pub use reactor::ControlPositions;

use access::{Clients, Denials, Issuer, Limits};
use axum::{Router, extract::Request, http::StatusCode, middleware, middleware::Next};
use fleet_journal::Journal;
use fleet_projections::{Generations, Reads};
use std::{sync::Arc, time::Duration};
use vault::Vault;

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
    /// Outside issuers, where people log in.
    pub outside: Vec<access::outside::Outside>,
    /// What was denied.
    pub denials: Denials,
    /// How fast a client or a person may ask.
    pub limits: Limits,
    /// Keys of user-data.
    pub vault: Vault,
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

/// A request that takes longer is ended; commands end sooner by themselves, and the long routes when they are done.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// The routes that are open to all.
fn public() -> access::Routes {
    api::health::routes().merge(api::tokens::routes()).merge(api::docs::routes())
}

/// The API described: OpenAPI 3.1, of every route there is.
pub fn openapi() -> serde_json::Value {
    const API: &str = "/api/v1";
    openapi::document(&[public().described(""), api::routes().described(API), api::long_routes().described(API)].concat())
}

/// The same as it is served and committed.
pub fn openapi_text() -> &'static str {
    static TEXT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| format!("{:#}\n", openapi()));
    &TEXT
}

/// The whole API.
pub fn router(hub: Arc<Hub>) -> Router {
    limited(public().into_router().nest("/api/v1", api::routes().into_router()), REQUEST_LIMIT)
        .nest("/api/v1", api::long_routes().into_router())
        .fallback(api::not_found)
        .method_not_allowed_fallback(api::method_not_allowed)
        .layer(middleware::from_fn(api::observe))
        .layer(middleware::from_fn(api::let_go))
        .with_state(hub)
}

/// What a hub without the API answers: whether it lives, and whether it is ready.
pub fn health(hub: Arc<Hub>) -> Router {
    api::health::without_api().fallback(api::not_found).with_state(hub)
}

/// Ends what takes longer, with a problem that says what that means.
fn limited<S: Clone + Send + Sync + 'static>(router: Router<S>, limit: Duration) -> Router<S> {
    router.layer(middleware::from_fn(move |request: Request, next: Next| async move {
        let late = |_| {
            let detail = format!("not answered within {} s; a write may still come: ask again with its Idempotency-Key", limit.as_secs());
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timed-out", detail).header("retry-after", "1")
        };
        tokio::time::timeout(limit, next.run(request)).await.map_err(late)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::{body::Body, body::to_bytes, routing::get};
    use tower::Service;

    #[tokio::test]
    async fn what_is_late_is_a_problem_and_a_long_route_is_not_cut() {
        let slow = || async { tokio::time::sleep(Duration::from_millis(50)).await };
        let guarded = limited(Router::new().route("/a", get(slow)), Duration::from_millis(1));
        let mut router: Router = guarded.merge(Router::new().route("/b", get(slow)));
        let mut ask = async |path: &str| router.call(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let late = ask("/a").await;
        assert_eq!(
            (late.status(), &late.headers()["content-type"]),
            (StatusCode::SERVICE_UNAVAILABLE, &"application/problem+json".parse().unwrap())
        );
        let body: serde_json::Value = serde_json::from_slice(&to_bytes(late.into_body(), 4096).await.unwrap()).unwrap();
        assert_eq!(body["code"], "timed-out");
        assert_eq!(ask("/b").await.status(), StatusCode::OK);
    }
}
