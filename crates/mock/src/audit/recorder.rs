//! Records the audit while the server runs.
//!
//! Totals are kept for ever. Requests are all kept, for a test, or only the last ones, for a long
//! run.

use std::collections::{BTreeMap, VecDeque};

use super::{Audit, WaitAudit};
use crate::arrival::{Arrival, ArrivalVerdict, Received};

/// Totals since the server was built; they are never dropped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Requests that arrived.
    pub seen: u64,
    /// Requests that passed all limits, scripted or not.
    pub allowed: u64,
    /// Requests that a limit refused.
    pub refused: u64,
    /// Requests of banned callers.
    pub banned: u64,
    /// Requests without a valid key.
    pub unauthorized: u64,
    /// Requests that passed and got a scripted response.
    pub scripted: u64,
    /// Responses by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Connections that were used again after the server had broken the protocol on them.
    pub reused_after_fault: u64,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    /// Number of remembered requests.
    max: usize,
    /// Number of the next request.
    pub(crate) next: u64,
    arrivals: VecDeque<Arrival>,
    waits: VecDeque<WaitAudit>,
    pub(crate) totals: Totals,
}

impl Recorder {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            next: 0,
            arrivals: VecDeque::new(),
            waits: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    pub(crate) fn arrived(&mut self, arrival: Arrival) {
        self.next += 1;
        self.totals.seen += 1;
        match arrival.verdict {
            ArrivalVerdict::Allowed => self.totals.allowed += 1,
            ArrivalVerdict::Refused(_) => self.totals.refused += 1,
            ArrivalVerdict::Banned => self.totals.banned += 1,
            ArrivalVerdict::Unauthorized => self.totals.unauthorized += 1,
            ArrivalVerdict::Scripted => {
                self.totals.allowed += 1;
                self.totals.scripted += 1;
            }
        }
        push(&mut self.arrivals, arrival, self.max);
    }

    pub(crate) fn received(&mut self, number: u64, body: Received) {
        if let Some(arrival) = self.numbered(number) {
            arrival.body = body;
        }
    }

    pub(crate) fn answered(&mut self, number: u64, status: u16) {
        *self.totals.by_status.entry(status).or_insert(0) += 1;
        if let Some(arrival) = self.numbered(number) {
            arrival.status = Some(status);
        }
    }

    pub(crate) fn record_wait(&mut self, wait: WaitAudit) {
        push(&mut self.waits, wait, self.max);
    }

    pub(crate) fn snapshot(&self) -> Audit {
        Audit {
            arrivals: self.arrivals.iter().cloned().collect(),
            waits: self.waits.iter().cloned().collect(),
        }
    }

    /// Drops all remembered requests. Numbers continue, so that a request in flight is not confused
    /// with another.
    pub(crate) fn clear(&mut self) {
        *self = Self {
            next: self.next,
            ..Self::new(self.max)
        };
    }

    /// Finds a request by number. Numbers are consecutive, so the index follows from the first one
    /// that is kept.
    fn numbered(&mut self, number: u64) -> Option<&mut Arrival> {
        let first = self.arrivals.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.arrivals.get_mut(place)
    }
}

fn push<T>(kept: &mut VecDeque<T>, new: T, max: usize) {
    kept.push_back(new);
    if kept.len() > max {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use outflow_core::Nanos;

    use super::*;

    fn numbered(number: u64) -> Arrival {
        Arrival {
            number,
            status: None,
            ..Arrival::at(Nanos::from_secs(number))
        }
    }

    // Three of five are kept; the response to a dropped one still counts in the totals.
    #[test]
    fn a_bounded_audit_drops_requests_but_keeps_totals() {
        let mut recorder = Recorder::new(3);
        (0..5).for_each(|number| recorder.arrived(numbered(number)));
        recorder.answered(0, 200);
        recorder.answered(4, 204);
        recorder.received(3, Received::Cut(9));
        let audit = recorder.snapshot();
        let kept: Vec<_> = audit.arrivals().iter().map(|a| (a.number, a.status)).collect();
        assert_eq!(kept, [(2, None), (3, None), (4, Some(204))]);
        assert_eq!(audit.cut_bodies(), 1);
        assert_eq!(recorder.totals.seen, 5);
        assert_eq!(recorder.totals.by_status, BTreeMap::from([(200, 1), (204, 1)]));
    }
}
