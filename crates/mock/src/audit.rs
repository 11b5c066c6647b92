//! What the server saw, and the questions a test asks about it.
//!
//! A snapshot: plain values in the order of arrival, so that the same questions can be asked about a
//! history made by hand. Windows are half-open: two requests exactly one window apart are in no
//! common window.

use std::collections::BTreeMap;
use std::time::Duration;

use outflow_core::Nanos;

use crate::arrival::{Arrival, ArrivalVerdict, Received};
use crate::enforcer::Scope;

mod recorder;

pub use recorder::Totals;
pub(crate) use recorder::{Keep, Recorder};

/// Every request that is remembered.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    arrivals: Vec<Arrival>,
    waits: Vec<WaitAudit>,
}

/// A time that the server told someone to wait for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitAudit {
    /// Who was told, and about what.
    pub scope: Scope,
    /// When the answer left, after the delay of the way back.
    pub told: Nanos,
    /// The instant that was told.
    pub until: Nanos,
    /// The number of the request whose answer told it.
    pub number: u64,
    /// The connection on which it was told, if that carries one request at a time.
    pub on: Option<u64>,
}

impl WaitAudit {
    /// Whether the sender of a request had been told to send it later. One that was sent in the very
    /// instant of the telling may have crossed it, unless it came behind it on the same connection.
    fn was_ignored_by(&self, arrival: &Arrival) -> bool {
        let behind = self.on == Some(arrival.connection) && self.number < arrival.number;
        let knew = self.told < arrival.received || self.told == arrival.received && behind;
        knew && arrival.at < self.until && self.scope.covers(&arrival.caller, &arrival.route)
    }
}

/// A request that did not wait as its caller had been told.
#[derive(Clone, Debug)]
pub struct EarlyRequest {
    /// The request.
    pub arrival: Arrival,
    /// What it had been told.
    pub wait: WaitAudit,
}

impl Audit {
    /// A history made by hand, in the order of arrival.
    pub fn from_arrivals(arrivals: Vec<Arrival>) -> Self {
        Self {
            arrivals,
            waits: Vec::new(),
        }
    }

    /// The same history, in which these waits were told, in the order of telling.
    #[must_use]
    pub fn with_waits(mut self, waits: Vec<WaitAudit>) -> Self {
        self.waits = waits;
        self
    }

    /// Every request, in the order of arrival.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    /// Every wait that was told, in the order of telling.
    pub fn waits(&self) -> &[WaitAudit] {
        &self.waits
    }

    /// How many requests there are.
    pub fn count(&self) -> usize {
        self.arrivals.len()
    }

    /// How many were refused by a limit or a ban.
    pub fn refused(&self) -> usize {
        let refused = |a: &&Arrival| {
            matches!(
                a.verdict,
                ArrivalVerdict::Refused(_) | ArrivalVerdict::Banned
            )
        };
        self.arrivals.iter().filter(refused).count()
    }

    /// How many requests there were for a path.
    pub fn attempts(&self, path: &str) -> usize {
        self.arrivals.iter().filter(|a| &*a.path == path).count()
    }

    /// How many were answered with each status.
    pub fn by_status(&self) -> BTreeMap<u16, usize> {
        let mut counts = BTreeMap::new();
        for status in self.arrivals.iter().filter_map(|a| a.status) {
            *counts.entry(status).or_insert(0) += 1;
        }
        counts
    }

    /// How many came with a body that broke off.
    pub fn cut_bodies(&self) -> usize {
        let cut = |a: &&Arrival| matches!(a.body, Received::Cut(_));
        self.arrivals.iter().filter(cut).count()
    }

    /// The most requests in any window of this length, whatever became of them.
    pub fn most_in_any_window(&self, window: Duration) -> u64 {
        self.heaviest(window, |_| 1)
    }

    /// The highest cost in any window of this length, whatever became of the requests.
    pub fn most_cost_in_any_window(&self, window: Duration) -> u64 {
        self.heaviest(window, |arrival| arrival.cost.units())
    }

    /// The requests that came too early: sent when the server's answer that told them to wait had
    /// left already, and arrived before the time it told. In the order of sending.
    pub fn sent_before_retry_after(&self) -> Vec<EarlyRequest> {
        let mut sent: Vec<_> = self.arrivals.iter().collect();
        sent.sort_by_key(|arrival| arrival.received);
        let mut to_tell = self.waits.iter().peekable();
        let mut live: Vec<&WaitAudit> = Vec::new();
        let mut early = Vec::new();
        for arrival in sent {
            live.extend(std::iter::from_fn(|| {
                to_tell.next_if(|wait| wait.told <= arrival.received)
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

    /// Only what one caller sent.
    #[must_use]
    pub fn of_caller(&self, caller: &str) -> Self {
        self.only(|arrival| &*arrival.caller == caller)
    }

    /// Only what came on one route.
    #[must_use]
    pub fn on_route(&self, route: &str) -> Self {
        self.only(|arrival| &*arrival.route == route)
    }

    /// Only the requests for which this holds; what had been told stays known.
    #[must_use]
    pub fn only(&self, holds: impl Fn(&Arrival) -> bool) -> Self {
        let arrivals = self.arrivals.iter().filter(|arrival| holds(arrival));
        Self {
            arrivals: arrivals.cloned().collect(),
            waits: self.waits.clone(),
        }
    }

    /// Slides a window over the history; its right end stands on each arrival in turn. Twice as wide as
    /// a cost, the sum is exact for every history that fits into memory; only what is told is capped.
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
