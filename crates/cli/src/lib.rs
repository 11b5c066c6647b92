//! The program: commands, sidecar, admin API, dashboard, config files, environment.
//!
//! A library so that its rooms can be tested, fuzzed and measured without a process around them; the
//! binary is one line. What governs calls is in the crate `outflow`: this one listens, translates
//! between HTTP and calls, and is operated.

// They panic where nobody reads: `terminal` has words for both streams that do not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod activation;
mod admin;
mod admin_client;
mod bulk;
mod civil;
mod command_line;
mod commands;
mod exchange;
mod exit;
#[doc(hidden)]
pub mod fuzzing;
mod interrupt;
mod listener;
mod program;
mod refusals;
mod reload;
mod sidecar;
mod sources;
mod station;
mod supervisor;
mod terminal;

pub use bulk::CannotBulk;
pub use command_line::main;
pub use exit::Exit;
pub use listener::{Address, CannotListen, Listener};
pub use program::{Program, StartError, Watch};
pub use reload::{CannotReload, LastReload};
pub use sidecar::TurnedAway;
pub use sources::Sources;
pub use station::Station;
