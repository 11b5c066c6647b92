//! Attempts in flight: permits that were granted and are not settled.

mod classify;
mod complete;
mod recent_latency;
mod take;

use std::time::Duration;

use outflow_core::{AttemptEnd, Cost, HealthTicket, MinRtt, Nanos, RequestTiming, UsageMark};
use slab::Slab;

pub(super) use classify::ResponseReader;
pub(super) use complete::{ReportedEnd, ResponseInProgress, SentAttempt};
pub(super) use take::StampResult;

use self::recent_latency::RecentLatency;
use super::endpoint::{CallLabel, CallSubject};
use super::limits::{Overdraft, ScopeReceipt};

/// All attempts in flight of an API.
#[derive(Debug)]
pub(super) struct InFlight {
    attempts: Slab<InFlightAttempt>,
    pub(super) next_permit: u64,
    rtts: MinRtt,
    pub(super) latency: RecentLatency,
}

/// An attempt with a permit, until its response begins.
#[derive(Debug)]
pub(super) struct InFlightAttempt {
    pub(super) id: u64,
    pub(super) group: u32,
    pub(super) label: CallLabel,
    /// The group that it started from, which a reconfiguration may have dropped.
    pub(super) origin: u32,
    /// Its circuit, also after its group merged into another.
    pub(super) circuit: usize,
    pub(super) cost: Cost,
    pub(super) receipts: ReceiptPair,
    ticket: HealthTicket,
    granted: Nanos,
    pub(super) excess: ExcessCost,
    /// True if a failure says nothing about the API.
    expects_failure: bool,
    pub(super) marks: Option<Box<LimitMarks>>,
}

/// A sent attempt without a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnansweredAttempt {
    pub(super) sent: Nanos,
    /// The latest instant at which it can arrive.
    pub(super) until: Nanos,
    pub(super) cost: Cost,
}

/// Receipts of the group's limits and of the shared limits.
#[derive(Debug, Default)]
pub(in crate::upstream) struct ReceiptPair {
    pub(super) own: Option<ScopeReceipt>,
    pub(super) shared: Option<ScopeReceipt>,
}

/// Cost beyond the receipts, where limits were lowered below the cost of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExcessCost {
    pub(super) own: Overdraft,
    pub(super) shared: Overdraft,
}

/// Usage of the limits when an attempt was sent.
#[derive(Debug)]
pub(super) struct LimitMarks {
    pub(super) own: Vec<UsageMark>,
    pub(super) shared: Vec<UsageMark>,
}

impl InFlight {
    pub(super) fn new() -> Self {
        Self {
            attempts: Slab::new(),
            next_permit: 1,
            rtts: MinRtt::default(),
            latency: RecentLatency::default(),
        }
    }

    #[inline]
    pub(super) fn get(&self, attempt: usize) -> Option<&InFlightAttempt> {
        self.attempts.get(attempt)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, attempt: usize) -> Option<&mut InFlightAttempt> {
        self.attempts.get_mut(attempt)
    }

    pub(super) fn keys(&self) -> Vec<usize> {
        self.attempts.iter().map(|(key, _)| key).collect()
    }

    /// Returns true if an attempt started from or counts in this group.
    pub(super) fn uses_group(&self, group: u32) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|(_, attempt)| attempt.origin == group || attempt.group == group)
    }

    /// Returns the instant at which an attempt is to be sent: later than now if a limit is paced.
    #[inline]
    pub(super) fn send_at(&self, attempt: usize, now: Nanos) -> Nanos {
        self.get(attempt).map_or(now, InFlightAttempt::send_at)
    }

    /// Returns the timing of an attempt that ends now, and the lowest round trip that applies to it.
    fn time_attempt(
        &mut self,
        sent: Nanos,
        end: AttemptEnd,
        timeout: Duration,
        now: Nanos,
    ) -> (RequestTiming, Option<Duration>) {
        match end {
            // An error may come from a gateway on the way and says nothing about the path.
            AttemptEnd::Status(500..) => (RequestTiming::Answered { sent, answered: now }, None),
            AttemptEnd::Status(status) => {
                if status == 429 {
                    self.rtts.observe_throttle();
                }
                let min_rtt = self.rtts.observe(now, now.since(sent));
                let timing = RequestTiming::Answered { sent, answered: now };
                (timing, min_rtt)
            }
            AttemptEnd::Fault(_) | AttemptEnd::Cancelled => {
                let until = sent.saturating_add(timeout).max(now);
                (RequestTiming::Lost { until }, self.rtts.floor(now))
            }
        }
    }

    /// Returns the lowest round trip that applies to a call whose response begins now.
    pub(super) fn min_rtt(&self, now: Nanos) -> Option<Duration> {
        self.rtts.floor(now)
    }

    /// Returns the heap memory in bytes.
    pub(super) fn memory(&self) -> usize {
        self.attempts.capacity() * size_of::<InFlightAttempt>()
    }

    /// Returns unused memory.
    pub(super) fn prune(&mut self) {
        self.attempts.shrink_to_fit();
    }
}

impl InFlightAttempt {
    /// Returns its names in events.
    pub(super) const fn subject(&self) -> CallSubject {
        CallSubject {
            group: self.group,
            label: self.label,
        }
    }

    fn send_at(&self) -> Nanos {
        let at = |receipts: &Option<ScopeReceipt>| receipts.as_ref().map(ScopeReceipt::send_at);
        let latest = at(&self.receipts.own).max(at(&self.receipts.shared));
        latest.unwrap_or(self.granted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Ends attempts of this round trip, ten a second. Returns the last floor.
    fn end_attempts(in_flight: &mut InFlight, from: u64, count: u64, status: u16, rtt: Duration) -> Option<Duration> {
        let end = |n| {
            let now = Nanos::from_millis(1_000 * from + 100 * n);
            let sent = now.saturating_sub(rtt);
            in_flight
                .time_attempt(sent, AttemptEnd::Status(status), 10_000 * MS, now)
                .1
        };
        (0..count).map(end).last().flatten()
    }

    // A gateway answers 503 in 2 ms. The path to the API still takes 40 ms, and the 503 counts from
    // its response.
    #[test]
    fn an_error_of_a_gateway_does_not_lower_the_floor() {
        let mut in_flight = InFlight::new();
        assert_eq!(end_attempts(&mut in_flight, 1, 100, 200, 40 * MS), Some(40 * MS));
        assert_eq!(end_attempts(&mut in_flight, 11, 50, 503, 2 * MS), None);
        assert_eq!(end_attempts(&mut in_flight, 16, 1, 404, 40 * MS), Some(40 * MS));
    }

    // The lowest stays at 40 ms; after a 429 the jitter above it counts.
    #[test]
    fn a_429_makes_the_floor_careful() {
        let mut in_flight = InFlight::new();
        end_attempts(&mut in_flight, 1, 100, 200, 40 * MS);
        assert_eq!(end_attempts(&mut in_flight, 11, 20, 200, 60 * MS), Some(40 * MS));
        let careful = end_attempts(&mut in_flight, 13, 1, 429, 60 * MS);
        assert!(careful < Some(20 * MS), "{careful:?}");
    }
}
