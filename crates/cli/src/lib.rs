//! The program: commands, composition of its parts, config files, environment and reload.
//!
//! A library, so that tests, fuzzers and benchmarks run without a process; the binary is one line. This crate
//! decides nothing about calls and parses no HTTP: the crates `outflow`, `outflow-sidecar` and
//! `outflow-admin` do.

// They panic on a closed stream; `terminal` has functions that do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod admin_address;
mod admin_client;
mod app_state;
mod command_line;
mod commands;
mod config;
mod config_sources;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod http_once;
mod program;
mod public_listener_token;
mod reload;
mod sd_notify;
mod shared_ledger;
mod signals;
mod terminal;

pub use outflow_bulk::OpenError;
pub use outflow_listener::{ListenAddr, ListenError, Listener};
pub use outflow_sidecar::RejectionCounts;

pub use app_state::AppState;
pub use command_line::main;
pub use config::ProgramConfig;
pub use config_sources::ConfigSources;
pub use exit::Exit;
pub use program::{ConfigWatch, Program, StartError};
pub use reload::{LastReload, ReloadError};
