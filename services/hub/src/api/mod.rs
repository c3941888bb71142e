//! The routes, one file per thing.

mod admin;
mod annotations;
mod baseline;
mod body;
mod bootstrap;
mod commands;
mod conditions;
mod denials;
mod devices;
mod filter;
mod gateway;
pub(crate) mod health;
mod history;
mod named;
mod operations;
mod orphans;
mod query;
mod sites;
pub(crate) mod tokens;
mod why;

use crate::Problem;
use crate::access::Routes;
use axum::{extract::MatchedPath, extract::Request, http::Method, http::StatusCode, http::Uri, middleware::Next, response::Response};
use std::time::Instant;

/// Every route that needs a scope.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .get("/devices", devices::list)
        .get("/devices/{id}", devices::one)
        .get("/devices/{id}/why", why::why)
        .get("/devices/{id}/history", history::history)
        .get("/devices/{id}/timeline", history::timeline)
        .get("/devices/{id}/conditions", conditions::of_device)
        .post("/devices/{id}/commands", commands::give)
        .get("/conditions", conditions::list)
        .get("/operations", operations::list)
        .get("/operations/{id}", operations::one)
        .get("/orphans", orphans::list)
        .get("/sites", sites::list)
        .get("/sites/{site}", sites::one)
        .get("/sites/{site}/baseline", baseline::preview)
        .patch("/devices/{id}", gateway::scheduler::one)
        .post("/devices/{id}/conditions", gateway::conditions::one)
        .patch("/sites/{site}/devices:batch", gateway::scheduler::batch)
        .post("/sites/{site}/conditions:batch", gateway::conditions::batch)
        .post("/sites/{site}/observations:batch", gateway::observations::batch)
        .get("/audit/denials", denials::list)
        .get("/admin/parked", admin::parked)
        .get("/admin/projections", admin::projections)
        .merge(bootstrap::routes())
}

/// Those that take as long as there is to do: nothing ends them from outside.
pub(crate) fn long_routes() -> Routes {
    Routes::default().post("/sites/{site}/baseline", baseline::confirm).post("/admin/projections/rebuild", admin::rebuild)
}

pub(crate) async fn not_found(uri: Uri) -> Problem {
    Problem::missing(format!("there is no {}", uri.path()))
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", format!("{method} is not possible on {}", uri.path()))
}

/// Counts and times every request, by route and never by what a caller can make up.
pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |p| p.as_str().to_owned());
    let method = label(request.method());
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::counter!("fm_http_requests_total", "route" => route.clone(), "method" => method, "status" => status).increment(1);
    metrics::histogram!("fm_http_request_duration_seconds", "route" => route).record(started.elapsed().as_secs_f64());
    response
}

/// A method as a label; a caller can make up any number of others.
fn label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_method_makes_no_label() {
        for (method, expected) in [("GET", "GET"), ("POST", "POST"), ("BREW", "other"), ("get", "other")] {
            assert_eq!(label(&Method::from_bytes(method.as_bytes()).unwrap()), expected);
        }
    }
}
