//! Every command as a user runs it: the real program, its output and its exit code.

#![expect(
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise, its helpers too"
)]

mod bulk_fleet;
mod bulk_release;
mod bulk_rerun;
mod bulk_results;
mod bulk_run;
mod bulk_serve;
mod bulk_submit;
mod bulk_suspended;
mod bulk_terminal;
mod call;
mod check;
mod completions;
mod config;
mod control;
mod deploy;
mod descriptors;
mod dev;
mod diagnostics;
mod docs;
mod init;
mod mock;
mod schema;
mod secrets;
mod seed_settings;
mod serve;
mod shared_limits;
mod simulate;
mod support;
