//! The client as its users meet it: configuration, calls over a strict API, and what it tells of itself.

mod cache;
mod config;
mod end_to_end;
mod http;
mod init;
mod layer;
mod log;
mod metrics;
mod redact;
mod reload;
mod support;
mod tasks;
mod trace;
