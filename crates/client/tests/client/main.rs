//! The client as its users see it: configuration, calls to a mock API, logs and metrics.

mod cache;
mod config;
mod end_to_end;
mod explain;
mod first_call;
mod http;
mod init;
mod layer;
mod log;
mod metrics;
mod recovery;
mod redact;
mod reload;
mod support;
mod tasks;
mod trace;
