//! The files that are part of the program: the live page and the API's document.
//!
//! The page is three plain files without anything from elsewhere, so that its policy can forbid
//! everything else. Whatever it shows it sets as text, never as markup.

use axum::response::{IntoResponse, Response};
use http::header;

/// The API's document.
pub(crate) const DOCUMENT: &str = include_str!("page/openapi.json");

/// What a page may load and do: its own files, and talking to where it came from.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) async fn html() -> Response {
    file("text/html; charset=utf-8", include_str!("page/page.html"))
}

pub(crate) async fn css() -> Response {
    file("text/css; charset=utf-8", include_str!("page/page.css"))
}

pub(crate) async fn js() -> Response {
    file(
        "text/javascript; charset=utf-8",
        include_str!("page/page.js"),
    )
}

pub(crate) async fn document() -> Response {
    file("application/json", DOCUMENT)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
