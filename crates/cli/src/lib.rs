//! The program: commands, sidecar, admin API, dashboard, config files, environment.
//!
//! A library so that its rooms can be tested, fuzzed and measured without a process around them; the
//! binary is one line. What governs calls is in the crate `outflow`: this one listens, translates
//! between HTTP and calls, and is operated.

// They panic where nobody reads: `terminal` has words for both streams that do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod socket_activation;
mod admin;
mod admin_client;
mod open;
mod civil;
mod command_line;
mod commands;
mod http_once;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod signals;
mod listener;
mod program;
mod http_status;
mod reload;
mod sidecar;
mod config_sources;
mod app_state;
mod sd_notify;
mod terminal;

pub use open::OpenError;
pub use command_line::main;
pub use exit::Exit;
pub use listener::{ListenAddr, ListenError, Listener};
pub use program::{Program, StartError, ConfigWatch};
pub use reload::{ReloadError, LastReload};
pub use sidecar::RejectionCounts;
pub use config_sources::ConfigSources;
pub use app_state::AppState;
