//! The requests that the server saw, and queries about them.
//!
//! A snapshot: plain values in the order of arrival, so that queries work on a history made by hand
//! too. Windows are half-open: two requests exactly one window apart share no window.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_core::Nanos;

use crate::arrival::{Arrival, ArrivalVerdict, Received};
use crate::enforcer::Scope;

mod recorder;

pub(crate) use recorder::Recorder;
pub use recorder::Totals;

/// All remembered requests.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    arrivals: Vec<Arrival>,
    waits: Vec<WaitAudit>,
}

/// Wait that the server asked a caller for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitAudit {
    /// Caller and route that must wait.
    pub scope: Scope,
    /// Time at which the response left, after the delay of the way back.
    pub sent_at: Nanos,
    /// End of the wait.
    pub until: Nanos,
    /// Number of the request whose response named the wait.
    pub number: u64,
    /// Connection of the response, if it carries one request at a time.
    pub on: Option<u64>,
}

impl WaitAudit {
    /// Returns true if the sender of a request already had this wait. A request sent at the very
    /// instant of the response may have crossed it, unless it followed on the same connection.
    fn was_ignored_by(&self, arrival: &Arrival) -> bool {
        let behind = self.on == Some(arrival.connection) && self.number < arrival.number;
        let knew = self.sent_at < arrival.received || self.sent_at == arrival.received && behind;
        knew && arrival.at < self.until && self.scope.covers(&arrival.caller, &arrival.route)
    }
}

/// Request that ignored a wait of its caller.
#[derive(Clone, Debug)]
pub struct EarlyRequest {
    /// The request.
    pub arrival: Arrival,
    /// The ignored wait.
    pub wait: WaitAudit,
}

impl Audit {
    /// Builds a history by hand, in the order of arrival.
    pub fn from_arrivals(arrivals: Vec<Arrival>) -> Self {
        Self {
            arrivals,
            waits: Vec::new(),
        }
    }

    /// Adds waits in the order in which they were sent.
    #[must_use]
    pub fn with_waits(mut self, waits: Vec<WaitAudit>) -> Self {
        self.waits = waits;
        self
    }

    /// Returns every request, in the order of arrival.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Returns every wait, in the order in which they were sent.
    pub fn waits(&self) -> &[WaitAudit] {
        &self.waits
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the number of requests refused by a limit or a ban.
    pub fn refused(&self) -> usize {
        let refused = |a: &&Arrival| matches!(a.verdict, ArrivalVerdict::Refused(_) | ArrivalVerdict::Banned);
        self.arrivals.iter().filter(refused).count()
    }

    /// Returns the number of requests for a path.
    pub fn attempts(&self, path: &str) -> usize {
        self.arrivals.iter().filter(|a| &*a.path == path).count()
    }

    /// Returns the number of responses by status.
    pub fn by_status(&self) -> BTreeMap<u16, usize> {
        let mut counts = BTreeMap::new();
        for status in self.arrivals.iter().filter_map(|a| a.status) {
            *counts.entry(status).or_insert(0) += 1;
        }
        counts
    }

    /// Returns the number of truncated request bodies.
    pub fn cut_bodies(&self) -> usize {
        let cut = |a: &&Arrival| matches!(a.body, Received::Cut(_));
        self.arrivals.iter().filter(cut).count()
    }

    /// Returns the maximum number of requests in any window of this length, in all verdicts.
    pub fn most_in_any_window(&self, window: Duration) -> u64 {
        self.heaviest(window, |_| 1)
    }

    /// Returns the maximum cost in any window of this length, in all verdicts.
    pub fn most_cost_in_any_window(&self, window: Duration) -> u64 {
        self.heaviest(window, |arrival| arrival.cost.units())
    }

    /// Returns the requests that came too early, in the order of sending. Each was sent after the
    /// response with the wait had left, and arrived before the wait ended.
    pub fn sent_before_retry_after(&self) -> Vec<EarlyRequest> {
        let mut sent: Vec<_> = self.arrivals.iter().collect();
        sent.sort_by_key(|arrival| arrival.received);
        let mut pending = self.waits.iter().peekable();
        let mut live: Vec<&WaitAudit> = Vec::new();
        let mut early = Vec::new();
        for arrival in sent {
            live.extend(std::iter::from_fn(|| {
                pending.next_if(|wait| wait.sent_at <= arrival.received)
            }));
            live.retain(|wait| wait.until > arrival.received);
            if let Some(wait) = live.iter().find(|wait| wait.was_ignored_by(arrival)) {
                early.push(EarlyRequest {
                    arrival: arrival.clone(),
                    wait: (*wait).clone(),
                });
            }
        }
        early
    }

    /// Keeps only the requests of one caller.
    #[must_use]
    pub fn of_caller(&self, caller: &str) -> Self {
        self.only(|arrival| &*arrival.caller == caller)
    }

    /// Keeps only the requests of one route.
    #[must_use]
    pub fn on_route(&self, route: &str) -> Self {
        self.only(|arrival| &*arrival.route == route)
    }

    /// Keeps only the requests for which this holds; all waits stay known.
    #[must_use]
    pub fn only(&self, holds: impl Fn(&Arrival) -> bool) -> Self {
        let arrivals = self.arrivals.iter().filter(|arrival| holds(arrival));
        Self {
            arrivals: arrivals.cloned().collect(),
            waits: self.waits.clone(),
        }
    }

    /// Slides a window over the history with its right end on each arrival. The sum is twice the
    /// width of a cost, so it is exact for any history in memory; only the result is capped.
    fn heaviest(&self, window: Duration, weight: impl Fn(&Arrival) -> u64) -> u64 {
        let (mut most, mut inside) = (0, 0_u128);
        let mut leaving = self.arrivals.iter().peekable();
        for arrival in &self.arrivals {
            inside += u128::from(weight(arrival));
            let out = |first: &&Arrival| arrival.at.since(first.at) >= window;
            while let Some(first) = leaving.next_if(out) {
                inside -= u128::from(weight(first));
            }
            most = most.max(inside);
        }
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}
