//! The strictest API there is: it counts by arrival, over every window, and forgets nothing.
//!
//! Written without any of the core's meters, as they are what is on trial here. Every arrival is
//! kept, and a window is counted by looking it up.

use std::time::Duration;

use outflow_core::Nanos;

use super::scenario::{EnforcedRate, RateChange, Scenario};

/// The API's side of a run.
#[derive(Debug)]
pub(crate) struct SimulatedServer {
    rate: u64,
    changes: Vec<RateChange>,
    books: Vec<RequestLog>,
    shares_one_book: bool,
    refused: u64,
    peak: PeakWindow,
}

/// What the API says to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ServerReply {
    /// Served.
    Accepted,
    /// Too many requests; there is room at this instant if nobody else takes it.
    Refused(Nanos),
}

/// The fullest window: how many arrived in it where so many were allowed.
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
        let (rate, shares_one_book, books) = match scenario.enforced {
            EnforcedRate::PerTenant(rate) => (rate, false, scenario.tenants.len()),
            EnforcedRate::Shared(rate) => (rate, true, 1),
        };
        Self {
            rate,
            changes: scenario.changes.clone(),
            books: vec![RequestLog::default(); books],
            shares_one_book,
            refused: 0,
            peak: PeakWindow {
                arrived: 0,
                allowed: rate,
            },
        }
    }

    /// A request of `tenant` arrives. Arrivals come in the order of time.
    pub(crate) fn arrive(&mut self, now: Nanos, tenant: usize) -> ServerReply {
        let allowed = self.rate_at(now);
        let book = if self.shares_one_book { 0 } else { tenant };
        let Some(book) = self.books.get_mut(book) else {
            return ServerReply::Refused(now.saturating_add(WINDOW));
        };
        book.arrived.push(now);
        self.peak.raise(within_window(&book.arrived, now), allowed);
        if within_window(&book.accepted, now) < allowed {
            book.accepted.push(now);
            return ServerReply::Accepted;
        }
        self.refused += 1;
        ServerReply::Refused(room_after(&book.accepted, allowed))
    }

    /// How many requests were turned away.
    pub(crate) const fn refused(&self) -> u64 {
        self.refused
    }

    /// The fullest window of all, refused requests included.
    pub(crate) const fn peak(&self) -> PeakWindow {
        self.peak
    }

    fn rate_at(&self, now: Nanos) -> u64 {
        let mut past = self.changes.iter().rev().filter(|change| change.at <= now);
        past.next().map_or(self.rate, |change| change.rate)
    }
}

impl PeakWindow {
    fn raise(&mut self, arrived: u64, allowed: u64) {
        let higher = u128::from(arrived) * u128::from(self.allowed)
            > u128::from(self.arrived) * u128::from(allowed);
        if higher {
            *self = Self { arrived, allowed };
        }
    }
}

/// How many of `times`, which are in order, are less than a window old.
fn within_window(times: &[Nanos], now: Nanos) -> u64 {
    let gone = times.partition_point(|time| time.saturating_add(WINDOW) <= now);
    u64::try_from(times.len() - gone).unwrap_or(u64::MAX)
}

/// When one fewer than `allowed` will be less than a window old.
fn room_after(times: &[Nanos], allowed: u64) -> Nanos {
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
    fn the_eleventh_of_a_window_is_refused_until_the_first_has_left() {
        let mut server = SimulatedServer::new(&Scenario::named(ScenarioName::Headline));
        for i in 0..10 {
            assert_eq!(
                server.arrive(at(100 + i), 0),
                ServerReply::Accepted,
                "the {i}th"
            );
        }
        assert_eq!(server.arrive(at(1_099), 0), ServerReply::Refused(at(1_100)));
        assert_eq!(server.arrive(at(1_099), 1), ServerReply::Accepted);
        assert_eq!(server.arrive(at(1_100), 0), ServerReply::Accepted);
        assert_eq!((server.refused(), server.peak().arrived), (1, 11));
    }

    // 30/s until 50 s and 15/s from then on: the sixteenth of the last second must leave first.
    #[test]
    fn a_lower_rate_holds_from_its_instant() {
        let mut server = SimulatedServer::new(&Scenario::named(ScenarioName::Halved));
        for i in 0..30 {
            assert_eq!(server.arrive(at(49_500 + i), 0), ServerReply::Accepted);
        }
        assert_eq!(
            server.arrive(at(50_000), 1),
            ServerReply::Refused(at(50_515))
        );
        assert_eq!(server.arrive(at(50_515), 1), ServerReply::Accepted);
    }
}
