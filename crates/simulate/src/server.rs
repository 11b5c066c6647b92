//! Strict API: it counts by arrival, over every window, and forgets nothing.
//!
//! It uses no meter of the core, since it judges them. It keeps every arrival and counts a window by search.

use std::time::Duration;

use outflow_core::Nanos;

use super::scenario::{EnforcedRate, RateChange, Scenario};

/// Strict API of a run.
#[derive(Debug)]
pub(crate) struct SimulatedServer {
    rate: u64,
    changes: Vec<RateChange>,
    logs: Vec<RequestLog>,
    is_shared: bool,
    /// Number of throttled requests.
    pub(crate) throttled: u64,
    /// Fullest window, throttled requests included.
    pub(crate) peak: PeakWindow,
}

/// Reply to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerReply {
    /// The request is served.
    Accepted,
    /// The request is throttled; quota returns at this instant if no other request takes it.
    Throttled(Nanos),
}

/// Fullest window: arrivals, and the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeakWindow {
    pub(crate) arrived: u64,
    pub(crate) allowed: u64,
}

#[derive(Clone, Debug, Default)]
struct RequestLog {
    arrived: Vec<Nanos>,
    accepted: Vec<Nanos>,
}

impl SimulatedServer {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let (rate, is_shared, logs) = match scenario.enforced {
            EnforcedRate::PerTenant(rate) => (rate, false, scenario.tenants.len()),
            EnforcedRate::Shared(rate) => (rate, true, 1),
        };
        Self {
            rate,
            changes: scenario.changes.clone(),
            logs: vec![RequestLog::default(); logs],
            is_shared,
            throttled: 0,
            peak: PeakWindow {
                arrived: 0,
                allowed: rate,
            },
        }
    }

    /// Counts a request of a tenant and returns the reply. Arrivals come in order of time.
    pub(crate) fn arrive(&mut self, now: Nanos, tenant: usize) -> ServerReply {
        let allowed = self.rate_at(now);
        let log = if self.is_shared { 0 } else { tenant };
        let Some(log) = self.logs.get_mut(log) else {
            return ServerReply::Throttled(now.saturating_add(WINDOW));
        };
        log.arrived.push(now);
        self.peak.raise(within_window(&log.arrived, now), allowed);
        if within_window(&log.accepted, now) < allowed {
            log.accepted.push(now);
            return ServerReply::Accepted;
        }
        self.throttled += 1;
        ServerReply::Throttled(next_quota(&log.accepted, allowed))
    }

    fn rate_at(&self, now: Nanos) -> u64 {
        let mut past = self.changes.iter().rev().filter(|change| change.at <= now);
        past.next().map_or(self.rate, |change| change.rate)
    }
}

impl PeakWindow {
    fn raise(&mut self, arrived: u64, allowed: u64) {
        let higher = u128::from(arrived) * u128::from(self.allowed) > u128::from(self.arrived) * u128::from(allowed);
        if higher {
            *self = Self { arrived, allowed };
        }
    }
}

/// Returns the number of ordered `times` that are less than a window old.
fn within_window(times: &[Nanos], now: Nanos) -> u64 {
    let gone = times.partition_point(|time| time.saturating_add(WINDOW) <= now);
    u64::try_from(times.len() - gone).unwrap_or(u64::MAX)
}

/// Returns the instant at which fewer than `allowed` times are less than a window old.
fn next_quota(times: &[Nanos], allowed: u64) -> Nanos {
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let leaving = times.len().saturating_sub(allowed);
    let last = times.get(leaving).copied().unwrap_or(Nanos::MAX);
    last.saturating_add(WINDOW)
}

/// Rates are per second.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::super::scenario::ScenarioName;
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_millis(millis)
    }

    // 10/s per tenant: an arrival counts for its second and not at the end of it.
    #[test]
    fn the_eleventh_of_a_window_is_throttled_until_the_first_has_left() {
        let mut server = SimulatedServer::new(&Scenario::named(ScenarioName::Headline));
        for i in 0..10 {
            assert_eq!(server.arrive(at(100 + i), 0), ServerReply::Accepted, "the {i}th");
        }
        assert_eq!(server.arrive(at(1_099), 0), ServerReply::Throttled(at(1_100)));
        assert_eq!(server.arrive(at(1_099), 1), ServerReply::Accepted);
        assert_eq!(server.arrive(at(1_100), 0), ServerReply::Accepted);
        assert_eq!((server.throttled, server.peak.arrived), (1, 11));
    }

    // 30/s until 50 s and 15/s from then on: the sixteenth of the last second must leave first.
    #[test]
    fn a_lower_rate_holds_from_its_instant() {
        let mut server = SimulatedServer::new(&Scenario::named(ScenarioName::Halved));
        for i in 0..30 {
            assert_eq!(server.arrive(at(49_500 + i), 0), ServerReply::Accepted);
        }
        assert_eq!(server.arrive(at(50_000), 1), ServerReply::Throttled(at(50_515)));
        assert_eq!(server.arrive(at(50_515), 1), ServerReply::Accepted);
    }
}
