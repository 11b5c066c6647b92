//! The rooms of the program for whoever makes inputs up: the fuzzer, and the property tests that keep
//! the same laws.
//!
//! Nobody else enters here, and nothing of the program is done differently because of it: each room is
//! the one that runs, without a port before it and without a process around it.

use std::sync::Arc;

use outflow::{Outflow, SystemClock, Tasks};

pub use crate::admin::fuzzing::AdminFuzz;
pub use crate::commands::simulate::fuzzing::forecast;
pub use crate::sidecar::fuzzing::{
    BodyBytes, ParsedRequest, ParsedRequests, SidecarFuzz, parsed, read, route, steering,
};

use crate::app_state::AppState;
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;

/// What the rooms share, around this client. No port is open.
#[must_use]
pub fn station(client: Outflow, config: ProgramConfig, sources: ConfigSources) -> Arc<AppState> {
    let clock = Arc::new(SystemClock::new());
    let tasks = Tasks::new("outflow", client.events().clone(), clock);
    Arc::new(AppState::new(client, config, sources, tasks))
}
