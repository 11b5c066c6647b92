//! Every command as a user runs it: the real program, its output, its exit code.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod broken;
mod bulk;
mod bulk_again;
mod bulk_fleet;
mod bulk_frozen;
mod bulk_release;
mod bulk_results;
mod bulk_serve;
mod bulk_submit;
mod call;
mod check;
mod config;
mod deploy;
mod dev;
mod docs;
mod init;
mod operate;
mod papers;
mod schema;
mod seed_settings;
mod serve;
mod simulate;
mod support;
mod upstream;
