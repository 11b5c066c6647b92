//! The admin API over real sockets, from the outside.
//!
//! Every answer that these tests get is compared with the API's own document, so that each of them
//! also shows that the document tells the truth.

#![expect(
    unreachable_pub,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod authentication;
mod browser;
mod bulk;
mod control;
mod document;
mod event_stream;
mod limiter;
mod page;
mod postman;
mod queries;
mod support;
