//! The API described: OpenAPI 3.1, made of what every route says of itself where it is made. [`document`] is the whole of it, served at
//! `/openapi.json`, committed as `schemas/openapi.json`.

mod operation;
mod shape;
mod shapes;

pub use operation::{Operation, op, open_op};

use serde_json::{Map, Value, json};

/// One route with its description.
#[derive(Clone, Debug)]
pub struct Described {
    /// The method, in small letters.
    pub method: &'static str,
    /// The path, as OpenAPI has it.
    pub path: String,
    /// The scope it needs; `None` = any token.
    pub scope: Option<&'static str>,
    /// Whether it needs no token at all.
    pub public: bool,
    /// What it does.
    pub operation: Operation,
}

/// The document.
pub(crate) fn document(routes: &[Described]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        // A path that is served with and without a slash at its end is described twice.
        let twin = format!("{}/", route.path);
        let bare = routes.iter().any(|r| r.path == twin && r.method == route.method);
        let id = if bare { format!("{}Bare", route.operation.id) } else { route.operation.id.to_owned() };
        let described = route.operation.document(id, &route.path, route.scope, route.public);
        paths.entry(route.path.clone()).or_insert_with(|| json!({}))[route.method] = described;
    }
    let schemas: Map<_, _> = shapes::SHAPES.iter().map(|(name, text)| ((*name).to_owned(), shape::schema(text))).collect();
    let scopes: Map<_, _> = crate::access::SCOPES.iter().map(|s| ((*s).to_owned(), json!(""))).collect();
    let flows = json!({"clientCredentials": {"tokenUrl": "/oauth/token", "scopes": scopes}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Fleet Manager", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Control plane of a bare-metal GPU fleet. docs/API.md tells the rest."},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "oauth2", "flows": flows,
            "description": "client_credentials with private_key_jwt; every operation names the scope that it needs"}}},
    })
}
