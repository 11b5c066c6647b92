//! The program: commands, sidecar, admin API, dashboard, config files, environment.
//!
//! A library so that its rooms can be tested, fuzzed and measured without a process around them; the
//! binary is one line. What governs calls is in the crate `outflow`: this one listens, translates
//! between HTTP and calls, and is operated.

// They panic where nobody reads: `terminal` has words for both streams that do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod admin;
mod admin_client;
mod app_state;
mod civil;
mod command_line;
mod commands;
mod config;
mod config_sources;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod http_once;
mod http_status;
mod listener;
mod open;
mod program;
mod reload;
mod sd_notify;
mod sidecar;
mod signals;
mod socket_activation;
mod terminal;

pub use app_state::AppState;
pub use command_line::main;
pub use config::{AdminConfig, ListenTarget, ProgramConfig, ServerConfig};
pub use config_sources::ConfigSources;
pub use exit::Exit;
pub use listener::{ListenAddr, ListenError, Listener};
pub use open::OpenError;
pub use program::{ConfigWatch, Program, StartError};
pub use reload::{LastReload, ReloadError};
pub use sidecar::RejectionCounts;
