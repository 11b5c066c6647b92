//! The time at which a request counts at the server.
//!
//! A server counts a request when it arrives, somewhere between its sending and its response. A
//! window that runs from the sending is therefore wrong by the network's jitter. Only
//! [`RequestTiming::arrived_by`] computes the latest possible arrival.
//!
//! Subtracting the lowest round trip is right: let the way there take at least *a* and the way back
//! at least *b*. A request answered at *t* arrived at `t − b` or before; one sent at *s* arrives at
//! `s + a` or after. They are a window apart if `s ≥ t − (a + b) + window`, and `a + b` is the
//! lowest round trip.

use core::time::Duration;

use crate::time::span_nanos;
use crate::{Accounting, Nanos};

/// Timing of one request, as the sender knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTiming {
    /// A response came back.
    Answered {
        /// Time at which the request was sent.
        sent: Nanos,
        /// Time at which the first byte of its response was read.
        answered: Nanos,
    },
    /// No response came back: it timed out, was cut off, or was cancelled by the caller.
    Lost {
        /// Last moment at which it can still arrive. A good choice is the later of now and the end
        /// of its timeout.
        until: Nanos,
    },
}

impl RequestTiming {
    /// Returns the latest moment at which the request can have reached the server, on a clock that
    /// is ahead by the shortest way there. `floor` is the lowest round trip, `None` while it is not
    /// reliable.
    pub fn arrived_by(self, accounting: Accounting, floor: Option<Duration>) -> Nanos {
        match (self, accounting, floor) {
            (Self::Lost { until }, ..) => until,
            (Self::Answered { sent, answered }, Accounting::Tight, Some(floor)) => {
                answered.saturating_sub(floor).max(sent)
            }
            (Self::Answered { answered, .. }, ..) => answered,
        }
    }
}

/// Lowest round trip of a path over the last five minutes.
///
/// Eleven slots of thirty seconds remember at least five minutes in constant space. A longer memory
/// keeps a lower floor, which is the careful side.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Nanos, MinRtt};
///
/// let mut min_rtt = MinRtt::default();
/// for n in 1..=50 {
///     let floor = min_rtt.observe(Nanos::from_secs(n), Duration::from_millis(20 + n));
///     assert_eq!(floor, None, "fifty are too few");
/// }
/// for n in 51..=52 {
///     let floor = min_rtt.observe(Nanos::from_secs(n), Duration::from_millis(90));
///     assert_eq!(floor.is_some(), n == 52, "the first was sent before any response");
/// }
/// assert_eq!(min_rtt.floor(Nanos::from_secs(53)), Some(Duration::from_millis(21)));
/// ```
#[derive(Debug, Clone)]
pub struct MinRtt {
    slots: [RttSlot; SLOTS],
    /// Summary of all slots, so that a query does not visit each.
    all: RttSlot,
    newest: u64,
    /// Time of the first response.
    first: Option<Nanos>,
}

/// Thirty seconds of responses.
#[derive(Debug, Clone, Copy)]
struct RttSlot {
    lowest: u64,
    seen: u32,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self {
            slots: [EMPTY; SLOTS],
            all: EMPTY,
            newest: 0,
            first: None,
        }
    }
}

impl MinRtt {
    /// Records a round trip that ended at `now`. Returns the lowest, itself included, once there
    /// are enough samples.
    pub fn observe(&mut self, now: Nanos, round_trip: Duration) -> Option<Duration> {
        self.turn_to(now);
        let index = Self::index(self.newest);
        let nanos = span_nanos(round_trip);
        let first = *self.first.get_or_insert(now);
        // Requests sent before the first response may all have waited for a new connection. Their
        // number does not show how low the path can go.
        let seen = u32::from(now.saturating_sub(round_trip) >= first);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.note(nanos, seen);
            self.all.note(nanos, seen);
        }
        self.known()
    }

    /// Returns the lowest round trip, if there are enough recent samples.
    pub fn floor(&mut self, now: Nanos) -> Option<Duration> {
        self.turn_to(now);
        self.known()
    }

    fn known(&self) -> Option<Duration> {
        (self.all.seen > WARM_UP).then_some(Duration::from_nanos(self.all.lowest))
    }

    /// Drops old slots. After a period of few responses the path must be measured again: one slow
    /// response a minute does not show its base.
    fn turn_to(&mut self, now: Nanos) {
        let newest = now.as_nanos() / SLOT_NANOS;
        if newest <= self.newest {
            return;
        }
        for passed in (self.newest + 1..=newest).rev().take(SLOTS) {
            if let Some(slot) = self.slots.get_mut(Self::index(passed)) {
                *slot = EMPTY;
            }
        }
        self.newest = newest;
        self.all = self.slots.iter().fold(EMPTY, |all, slot| RttSlot {
            lowest: all.lowest.min(slot.lowest),
            seen: all.seen.saturating_add(slot.seen),
        });
        if self.all.lowest == EMPTY.lowest {
            self.first = None;
        }
    }

    fn index(slot: u64) -> usize {
        usize::try_from(slot % SLOTS_U64).unwrap_or(0)
    }
}

impl RttSlot {
    fn note(&mut self, nanos: u64, seen: u32) {
        self.lowest = self.lowest.min(nanos);
        self.seen = self.seen.saturating_add(seen);
    }
}

/// Ten slots are the five minutes; the eleventh is being filled.
const SLOTS: usize = 11;
const SLOTS_U64: u64 = 11;
const SLOT_NANOS: u64 = span_nanos(Duration::from_secs(30));
const EMPTY: RttSlot = RttSlot {
    lowest: u64::MAX,
    seen: 0,
};

/// With this many samples the lowest is close to the path's base. In simulations, every throttle
/// under this rule came earlier.
const WARM_UP: u32 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn warm() -> MinRtt {
        let mut min_rtt = MinRtt::default();
        for _ in 0..50 {
            min_rtt.observe(Nanos::ZERO, 30 * MS);
        }
        min_rtt
    }

    // The eleventh slot after the sample begins at 5 min 30 s.
    #[test]
    fn a_floor_is_remembered_for_five_minutes() {
        let mut min_rtt = warm();
        let busy = |min_rtt: &mut MinRtt, secs| min_rtt.observe(Nanos::from_secs(secs), 80 * MS);
        for secs in 1..=329 {
            assert_eq!(busy(&mut min_rtt, secs), Some(30 * MS), "at {secs} s");
        }
        assert_eq!(busy(&mut min_rtt, 330), Some(80 * MS));
    }

    #[test]
    fn after_a_quiet_period_the_floor_is_measured_again() {
        let mut min_rtt = warm();
        assert_eq!(min_rtt.observe(Nanos::from_secs(1), 40 * MS), Some(30 * MS));
        assert_eq!(min_rtt.observe(Nanos::from_secs(3_600), 40 * MS), None);
    }

    // A hundred calls leave at once on new connections, and each waits for those before it. The
    // lowest takes 20 ms on a path of 1 ms. Of the second hundred, the fifty-first shows the floor.
    #[test]
    fn an_initial_burst_does_not_set_the_floor() {
        let mut min_rtt = MinRtt::default();
        for n in 0..100 {
            let late = Duration::from_millis(20 + n);
            assert_eq!(min_rtt.observe(Nanos::ZERO.saturating_add(late), late), None);
        }
        for n in 1..=51 {
            let floor = min_rtt.observe(Nanos::from_secs(1).saturating_add(n * MS), n * MS);
            assert_eq!(floor, (n == 51).then_some(MS), "{n}");
        }
    }

    // With one slow response every 200 s the base is no longer known.
    #[test]
    fn sparse_traffic_gives_no_floor() {
        let mut min_rtt = warm();
        for secs in [200, 400, 600] {
            assert_eq!(min_rtt.observe(Nanos::from_secs(secs), 520 * MS).is_some(), secs == 200);
        }
    }

    #[test]
    fn a_clock_that_steps_back_forgets_nothing() {
        let mut min_rtt = warm();
        min_rtt.observe(Nanos::from_secs(100), 90 * MS);
        assert_eq!(min_rtt.observe(Nanos::ZERO, 90 * MS), Some(30 * MS));
        assert_eq!(min_rtt.floor(Nanos::MAX), None);
    }

    #[test]
    fn an_arrival_is_never_before_the_send() {
        let timing = RequestTiming::Answered {
            sent: Nanos::from_secs(5),
            answered: Nanos::from_secs(6),
        };
        let by = |accounting, floor| timing.arrived_by(accounting, floor);
        assert_eq!(by(Accounting::Safe, Some(MS)), Nanos::from_secs(6));
        assert_eq!(by(Accounting::Tight, None), Nanos::from_secs(6));
        assert_eq!(by(Accounting::Tight, Some(250 * MS)), Nanos::from_millis(5_750));
        assert_eq!(by(Accounting::Tight, Some(Duration::MAX)), Nanos::from_secs(5));
    }
}
