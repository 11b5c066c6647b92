//! The program: commands, sidecar, admin API, dashboard, config files, environment.
//!
//! A library so that its rooms can be tested, fuzzed and measured without a process around them; the
//! binary is one line. What governs calls is in the crate `outflow`: this one listens, translates
//! between HTTP and calls, and is operated.

mod admin;
mod admin_client;
mod command_line;
mod commands;
mod exchange;
mod exit;
mod interrupt;
mod listener;
mod program;
mod sidecar;
mod sources;
mod station;
mod terminal;

pub use command_line::main;
pub use exit::Exit;
pub use listener::{Address, CannotListen, Listener};
pub use program::{Program, StartError};
pub use sidecar::TurnedAway;
pub use sources::Sources;
pub use station::Station;
