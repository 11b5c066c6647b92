//! Load of calls against a provider: waits, and throttled calls with and without Outflow.
//!
//! The load is an access log or synthetic; the provider is the rules of an API. The limits and the fair
//! queue are the real ones; a second set of plain meters counts arrivals as the provider. Failures are not
//! simulated.

mod load;
mod provider;
mod replay;
mod wait_histogram;
mod world;

use std::time::Duration;

use http::Method;
use outflow::Api;
use outflow_core::Rate;

use self::load::{LoadCall, SyntheticLoad};
use self::provider::SimulatedProvider;
pub use self::wait_histogram::WaitHistogram;
use self::world::LoadWorld;
pub use self::world::{GroupHistory, LoadHistory};
use crate::error::SimulateError;
use crate::network::Network;

/// A synthetic load: calls of one path at a rate.
#[derive(Clone, Copy, Debug)]
pub struct RateLoad<'a> {
    /// The mean rate.
    pub rate: Rate,
    /// The span in which calls arrive.
    pub duration: Duration,
    /// The number of tenants that make them.
    pub tenants: u32,
    /// The path, which decides the group.
    pub path: &'a str,
    /// The seed of the gaps between calls.
    pub seed: u64,
}

/// Plays an access log against an API. Returns the number of lines that were read, too.
///
/// # Errors
/// If the log has no readable line, or the rules of the API are invalid.
pub fn forecast_log(api: &Api, network: Network, log: &str) -> Result<(LoadHistory, usize), SimulateError> {
    let mut provider = SimulatedProvider::new(api)?;
    let calls = replay::read(log, &mut provider)?;
    let read = calls.len();
    let history = play(api, provider, network, calls.into_iter())?;
    Ok((history, read))
}

/// Plays a synthetic load against an API.
///
/// # Errors
/// If the rules of the API are invalid.
pub fn forecast_rate(api: &Api, network: Network, load: RateLoad<'_>) -> Result<LoadHistory, SimulateError> {
    let mut provider = SimulatedProvider::new(api)?;
    let group = provider.route(&Method::GET, load.path);
    let calls = SyntheticLoad::new(&load, group);
    play(api, provider, network, calls)
}

fn play(
    api: &Api,
    provider: SimulatedProvider,
    network: Network,
    calls: impl Iterator<Item = LoadCall>,
) -> Result<LoadHistory, SimulateError> {
    let world = LoadWorld::new(provider, network, &api.rules);
    let world = world.map_err(|why| SimulateError::Rules(why.into()))?;
    Ok(world.play(calls))
}
