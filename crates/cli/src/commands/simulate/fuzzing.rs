//! A log of anybody's, played: for whoever makes logs up.

use std::time::Duration;

use outflow::Api;
use serde_json::Value;

use super::{Network, forecast};

/// What is foreseen for this log at this API, and how many of its lines were read; nothing if none could
/// be.
#[must_use]
pub fn forecast(api: &Api, log: &str) -> Option<(Value, usize)> {
    let network = Network::new(Duration::from_millis(20), Duration::from_millis(2), 1);
    let (report, read) = forecast::forecast(api, network, log).ok()?;
    Some((report.to_json(), read))
}
