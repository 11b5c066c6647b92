//! Wall-clock time of responses, read rarely: few rules need it.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use outflow_core::{Clock, ClockPair, Nanos};

/// The last known wall-clock time. Between two readings it advances with the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct WallClock {
    pub(super) seen: ClockPair,
    read_at: Nanos,
}

impl WallClock {
    pub(super) const fn new(moment: ClockPair) -> Self {
        Self {
            seen: moment,
            read_at: moment.now,
        }
    }

    /// Brings the time up to date for a response. The clock is read if the response may name a date.
    pub(super) fn update(&mut self, clock: &dyn Clock, headers: &HeaderMap, now: Nanos) {
        if now.since(self.read_at) < MAX_AGE && !headers.contains_key(RETRY_AFTER) {
            self.seen = self.moment(now);
            return;
        }
        *self = Self::new(ClockPair {
            now,
            wall: clock.wall(),
        });
    }

    /// Returns an instant on both timelines, provided that the wall clock was not set since.
    pub(super) fn moment(&self, now: Nanos) -> ClockPair {
        ClockPair {
            now,
            wall: self.seen.wall.saturating_add(now.since(self.seen.now)),
        }
    }
}

/// A tenth of a second after a clock was set, no caller expects all processes to know.
const MAX_AGE: Duration = Duration::from_millis(100);
