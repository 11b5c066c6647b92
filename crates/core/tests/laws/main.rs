//! The laws of the core, each against an oracle or over generated histories.

// The model checker has its own binary, without the dependencies of these.
#![cfg(not(loom))]

mod account;
mod adaptive;
mod alert;
mod arrival_time;
mod backoff;
mod congestion;
mod count_by;
mod error_window;
mod fair_queue;
mod fair_queue_waits;
mod fixed_window;
mod health;
mod meter_changes;
mod meter_set;
mod reconcile;
mod recovery;
mod retry_after;
mod retry_budget;
mod server_hints;
mod sliding_window;
mod support;
mod token_bucket;
mod wait_time;
mod zero429;
