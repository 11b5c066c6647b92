//! A strict server with a fault.

use std::collections::VecDeque;

use outflow_core::Nanos;

use super::SECOND;

/// Behaviour of a server in trouble.
#[derive(Clone, Copy, Debug)]
pub(super) enum ServerFault {
    Throttle,
    Fail,
    /// No response before the timeout.
    Hang,
    /// Only this per cent of the limit is left.
    Share(usize),
}

/// Span of a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct BadDay {
    pub(super) fault: ServerFault,
    pub(super) from: Nanos,
    pub(super) until: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ServerAnswer {
    Passed,
    Throttled,
    Failed,
    Hangs,
}

/// A sliding window by arrival, throttled calls not counted.
pub(super) struct FaultyServer {
    day: BadDay,
    limit: usize,
    arrivals: VecDeque<Nanos>,
}

impl FaultyServer {
    pub(super) const fn new(day: BadDay, limit: usize) -> Self {
        Self {
            day,
            limit,
            arrivals: VecDeque::new(),
        }
    }

    pub(super) fn arrive(&mut self, now: Nanos) -> ServerAnswer {
        let fault = (self.day.from <= now && now < self.day.until).then_some(self.day.fault);
        match fault {
            Some(ServerFault::Throttle) => ServerAnswer::Throttled,
            Some(ServerFault::Fail) => ServerAnswer::Failed,
            Some(ServerFault::Hang) => ServerAnswer::Hangs,
            Some(ServerFault::Share(percent)) => self.count(now, self.limit * percent / 100),
            None => self.count(now, self.limit),
        }
    }

    fn count(&mut self, now: Nanos, limit: usize) -> ServerAnswer {
        while self.arrivals.front().is_some_and(|at| now.since(*at) >= SECOND) {
            self.arrivals.pop_front();
        }
        if self.arrivals.len() >= limit {
            return ServerAnswer::Throttled;
        }
        self.arrivals.push_back(now);
        ServerAnswer::Passed
    }
}
