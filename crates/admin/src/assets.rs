//! Embedded files: the dashboard and the OpenAPI document.
//!
//! The page is three plain files that load no other resource, so that its content security policy forbids all
//! others. It sets all data as text, never as markup.

use axum::response::{IntoResponse, Response};
use http::header;

/// OpenAPI document of the admin API.
pub(crate) const DOCUMENT: &str = include_str!("page/openapi.json");

/// Content security policy: the page loads its own files and connects to its own origin.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn html() -> Response {
    file("text/html; charset=utf-8", include_str!("page/page.html"))
}

pub(crate) async fn css() -> Response {
    file("text/css; charset=utf-8", include_str!("page/page.css"))
}

pub(crate) async fn js() -> Response {
    file("text/javascript; charset=utf-8", include_str!("page/page.js"))
}

pub(crate) async fn document() -> Response {
    file("application/json", DOCUMENT)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
