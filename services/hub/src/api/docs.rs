//! `/openapi.json` and `/docs`: the API described, for programs and for people. The viewer and its script are served by us; nothing is
//! fetched from elsewhere, and no script stands in the page.

use crate::access::Routes;
use crate::openapi::open_op;
use axum::{body::Bytes, http::header, response::IntoResponse, response::Response};

/// redoc 2.5.4, MIT: see `assets/LICENSE.redoc.txt`.
const SCRIPT: &[u8] = include_bytes!("../../assets/redoc.standalone.js");
const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Fleet Manager: HTTP API</title>
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\"></head>
<body><noscript>The viewer needs script; the same is at <a href=\"/openapi.json\">/openapi.json</a>.</noscript>
<redoc spec-url=\"/openapi.json\" disable-search=\"true\" hide-download-button=\"false\"></redoc>
<script src=\"/docs/redoc.js\"></script></body>\n</html>\n";
/// The viewer writes styles of its own into the page, and shows pictures that it holds; scripts come from here alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .open_get("/openapi.json", open_op("getOpenapi", "This document").ok("object"), openapi)
        .open_get("/docs", open_op("getDocs", "This document, for people").text("text/html"), page)
        .open_get("/docs/redoc.js", open_op("getDocsScript", "The viewer's script").text("text/javascript"), script)
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], crate::openapi_text()).into_response()
}

async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, PAGE).into_response()
}

async fn script() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/javascript; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=3600"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Bytes::from_static(SCRIPT)).into_response()
}
