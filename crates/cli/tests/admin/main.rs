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

mod browser;
mod bulk;
mod document;
mod guard;
mod limiter;
mod look;
mod operate;
mod page;
mod postman;
mod stream;
mod support;
