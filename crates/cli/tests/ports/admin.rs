//! The admin API over real sockets, from the outside.
//!
//! Every response is compared with the OpenAPI document, so each test also checks the document.

#![expect(
    unreachable_pub,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod authentication;
mod browser;
mod bulk;
mod connections;
mod control;
mod document;
mod event_stream;
mod explain;
mod limiter;
mod page;
mod postman;
mod queries;
mod support;
