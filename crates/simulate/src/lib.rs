//! Loads in virtual time, on the real core.
//!
//! Hours of traffic pass in seconds because nothing waits: a queue of events is played in order of time. The
//! fair queue, the meters and the congestion formula decide as in production. A model of a strict server
//! judges them; it shares no code with the meters. One seed always gives one result.
//!
//! This crate returns figures. It prints nothing, opens no socket and reads no clock.

mod error;
mod fluid_model;
mod forecast;
mod network;
mod outcome;
mod scenario;
mod scheduler;
mod server;
mod world;

pub use error::SimulateError;
pub use fluid_model::FluidModel;
pub use forecast::{GroupHistory, LoadHistory, RateLoad, WaitHistogram, forecast_log, forecast_rate};
pub use network::Network;
pub use outcome::RunFigures;
pub use scenario::{Scenario, ScenarioName};
pub use scheduler::SchedulerName;

use world::SimWorld;

/// Plays a scenario under one scheduler and measures the run.
///
/// # Errors
/// If the scenario is invalid, or jobs are left at its end.
pub fn play(scenario: &Scenario, scheduler: SchedulerName, network: Network) -> Result<RunFigures, SimulateError> {
    let built = scheduler.build(scenario).map_err(SimulateError::Scenario)?;
    let history = SimWorld::new(scenario, network, built).play()?;
    Ok(RunFigures::new(scenario, scheduler, &history))
}

#[cfg(test)]
mod tests;
