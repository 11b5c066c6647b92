//! Parts of the program without ports or a process, for fuzzers and property tests.

use std::sync::Arc;

use outflow::{Outflow, SystemClock, Tasks};

use crate::app_state::AppState;
pub use crate::commands::simulate::forecast_json;
use crate::commands::{EffectiveValue, effective_values};
use crate::config::ProgramConfig;
use crate::config_sources::ConfigSources;

/// Creates the state of a program around this client. No port is open.
#[must_use]
pub fn app_state(client: Outflow, config: ProgramConfig, sources: ConfigSources) -> Arc<AppState> {
    let clock = Arc::new(SystemClock::new());
    let tasks = Tasks::new("outflow", client.events().clone(), clock);
    Arc::new(AppState::new(client, config, sources, tasks))
}

/// Returns the values that `config show` prints, without their keys.
#[must_use]
pub fn shown_values(config: &ProgramConfig) -> String {
    let values = effective_values(&config.client).unwrap_or_default();
    let values = values.iter().map(EffectiveValue::to_json);
    let values: Vec<_> = values.map(|one| format!("{:?}", one.get("value"))).collect();
    values.join("\n")
}
