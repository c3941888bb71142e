//! POST `/oauth/token`, GET `/oauth/jwks` and the issuer's metadata: client_credentials with private_key_jwt (RFC 7523).

use crate::Hub;
use crate::access::{Routes, Unproven, verify_assertion};
use crate::openapi::open_op;
use axum::{
    Form, Json, extract::State, extract::rejection::FormRejection, http::StatusCode, http::header, response::IntoResponse,
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

pub(crate) fn routes() -> Routes {
    const METADATA: &str = "/.well-known/oauth-authorization-server";
    let token = open_op("getToken", "An access token for a client that proves itself (RFC 7523)")
        .form("{grant_type:string client_assertion_type:string client_assertion:string scope*:string}")
        .ok("{access_token:string token_type:string expires_in:int scope:string}")
        .answer(400, "OAuthError")
        .answer(401, "OAuthError")
        .answer(429, "OAuthError")
        .answer(500, "OAuthError")
        .answer(503, "OAuthError");
    let about = |id, summary| open_op(id, summary).ok("{issuer:string token_endpoint:string jwks_uri:string scopes_supported:[string]}");
    // An issuer with a path has its metadata behind the well-known name and its path (RFC 8414); clients that forget that find it too.
    Routes::default()
        .open_post("/oauth/token", token, self::token)
        .open_get("/oauth/jwks", open_op("getJwks", "The issuer's public keys").ok("{keys:[object]}"), jwks)
        .open_get(METADATA, about("getIssuer", "The issuer's metadata (RFC 8414)"), metadata)
        .open_get(&format!("{METADATA}/{{*path}}"), about("getIssuerByPath", "The same for an issuer with a path"), metadata)
}

/// RFC 8414.
async fn metadata(State(hub): State<Arc<Hub>>) -> Json<Value> {
    let base = &hub.url;
    // No route of ours authorizes people, so no response type is served; but the list is required, and an empty one must not be sent (RFC 8414, 3.2).
    Json(json!({
        "issuer": hub.issuer.url(), "token_endpoint": format!("{base}/oauth/token"), "jwks_uri": format!("{base}/oauth/jwks"),
        "grant_types_supported": ["client_credentials"], "token_endpoint_auth_methods_supported": ["private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "PS256", "EdDSA"], "response_types_supported": ["none"],
        "scopes_supported": crate::access::SCOPES,
    }))
}

async fn jwks(State(hub): State<Arc<Hub>>) -> Json<Value> {
    Json(hub.issuer.jwks())
}

#[derive(Deserialize)]
struct Asked {
    grant_type: Option<String>,
    client_assertion_type: Option<String>,
    client_assertion: Option<String>,
    scope: Option<String>,
}

async fn token(State(hub): State<Arc<Hub>>, asked: Result<Form<Asked>, FormRejection>) -> Response {
    let asked = match asked {
        Ok(Form(asked)) => asked,
        Err(why) => return error("invalid_request", &why.body_text()),
    };
    if asked.grant_type.as_deref() != Some("client_credentials") {
        return error("unsupported_grant_type", "grant_type must be client_credentials");
    }
    let (Some(ASSERTION_TYPE), Some(assertion)) = (asked.client_assertion_type.as_deref(), &asked.client_assertion) else {
        return error("invalid_request", &format!("client_assertion_type must be {ASSERTION_TYPE}, with a client_assertion"));
    };
    let token_url = format!("{}/oauth/token", hub.url);
    let client = match verify_assertion(&hub.clients, hub.issuer.url(), &token_url, hub.generations.control(), assertion).await {
        Ok(client) => client,
        Err(Unproven::Refused(why)) => {
            hub.denials.record("", "assertion", "POST", "/oauth/token", &why);
            return error("invalid_client", &why);
        }
        Err(Unproven::Unknown(why)) => {
            tracing::error!(%why, "whether an assertion was used before cannot be told");
            return unavailable("the store of used assertions does not answer; try again");
        }
    };
    if let Err(wait) = hub.limits.take(&client.client) {
        let body = json!({"error": "temporarily_unavailable", "error_description": wait.detail()});
        return (
            StatusCode::TOO_MANY_REQUESTS,
            [(header::RETRY_AFTER, wait.seconds()), (header::CACHE_CONTROL, "no-store".into())],
            Json(body),
        )
            .into_response();
    }
    let scopes: Vec<&str> = match &asked.scope {
        Some(scope) => scope.split(' ').filter(|s| !s.is_empty()).collect(),
        None => client.scopes.iter().map(String::as_str).collect(),
    };
    if let Some(over) = scopes.iter().find(|s| !client.scopes.iter().any(|own| own == *s)) {
        hub.denials.record(&client.client, "scope", "POST", "/oauth/token", over);
        return error("invalid_scope", &format!("{} may not have scope {over}", client.client));
    }
    let scope = scopes.join(" ");
    match hub.issuer.issue(&client.client, &scope, &client.sites) {
        Ok(token) => {
            let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": crate::access::TOKEN_LIFE, "scope": scope});
            ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
        }
        Err(why) => {
            tracing::error!(why, "a token could not be issued");
            (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({"error": "server_error"}))).into_response()
        }
    }
}

/// The client is not at fault, and shall not think that it is.
fn unavailable(description: &str) -> Response {
    let headers = [(header::RETRY_AFTER, "1"), (header::CACHE_CONTROL, "no-store")];
    (StatusCode::SERVICE_UNAVAILABLE, headers, Json(json!({"error": "temporarily_unavailable", "error_description": description})))
        .into_response()
}

/// As RFC 6749 has it: errors of this endpoint are not problems of RFC 9457.
fn error(code: &str, description: &str) -> Response {
    let status = if code == "invalid_client" { StatusCode::UNAUTHORIZED } else { StatusCode::BAD_REQUEST };
    (status, [(header::CACHE_CONTROL, "no-store")], Json(json!({"error": code, "error_description": description}))).into_response()
}
