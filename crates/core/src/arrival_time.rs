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
use crate::{Accounting, Limit, Nanos};

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

    /// Returns the moment from which one window of a limit counts the request, its guard included.
    pub fn counts_from(self, limit: &Limit, floor: Option<Duration>) -> Nanos {
        match (self, limit.accounting()) {
            (Self::Answered { sent, .. }, Accounting::Send) => sent,
            (_, Accounting::Tight) => self.arrived_by(Accounting::Tight, floor).saturating_add(limit.guard()),
            (_, accounting) => self.arrived_by(accounting, floor),
        }
    }
}

/// Lowest round trip of a path, less what it does not know.
///
/// The lowest sample is too high while the path can do better than it has shown: with few samples,
/// with rare fast ones, while the latency falls. So the last hour is cut into blocks of equally many
/// samples, and the lowest of each block shows how certain the lowest of all is. On a quiet path
/// they are equal. Where they differ, the floor is as far below the lowest as the median block is
/// above it. Blocks grow with the history: jitter averages out, and drift does not.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::{Nanos, MinRtt};
///
/// let (mut min_rtt, ms) = (MinRtt::default(), Duration::from_millis);
/// for n in 1..=51 {
///     let floor = min_rtt.observe(Nanos::from_secs(n), ms(40));
///     assert_eq!(floor, None, "fifty are too few, and the first was sent before any response");
/// }
/// assert_eq!(min_rtt.observe(Nanos::from_secs(52), ms(90)), Some(ms(40)));
/// assert_eq!(min_rtt.observe(Nanos::from_secs(53), ms(30)), Some(ms(20)), "a surprise counts twice");
/// assert_eq!(min_rtt.observe(Nanos::from_secs(99), ms(40)), None, "the path may have changed");
/// ```
#[derive(Debug, Clone)]
pub struct MinRtt {
    /// Complete blocks, oldest first.
    blocks: [RttBlock; BLOCKS],
    complete: usize,
    open: RttBlock,
    /// Samples of the open block, and of a complete one.
    open_samples: u32,
    block_samples: u32,
    /// Lowest of all complete blocks, and their median.
    lowest: u64,
    median: u64,
    last: Nanos,
    /// Time of the first response after the last pause.
    resumed: Nanos,
    /// Samples since the last pause.
    fresh: u32,
    /// True once there were enough samples for a first floor.
    is_measured: bool,
    /// Moving average of the samples.
    usual: u64,
    /// Samples until a throttle is forgotten.
    wary: u32,
}

/// Consecutive samples.
#[derive(Debug, Clone, Copy)]
struct RttBlock {
    begun: Nanos,
    lowest: u64,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self {
            blocks: [RttBlock::UNUSED; BLOCKS],
            complete: 0,
            open: RttBlock::UNUSED,
            open_samples: 0,
            block_samples: SMALLEST_BLOCK,
            lowest: u64::MAX,
            median: 0,
            last: Nanos::ZERO,
            resumed: Nanos::MAX,
            fresh: 0,
            is_measured: false,
            usual: 0,
            wary: 0,
        }
    }
}

impl MinRtt {
    /// Records a round trip that ended at `now`. Returns the floor, itself included, once there
    /// are enough samples.
    #[inline]
    pub fn observe(&mut self, now: Nanos, round_trip: Duration) -> Option<Duration> {
        if now.since(self.last) >= PAUSE || self.resumed == Nanos::MAX {
            self.resume(now);
        }
        self.last = self.last.max(now);
        let nanos = span_nanos(round_trip);
        self.open.lowest = self.open.lowest.min(nanos);
        self.usual = self.usual - self.usual / 16 + nanos / 16;
        self.wary = self.wary.saturating_sub(1);
        // Requests sent before the first response may all have waited for a new connection. Their
        // number does not show how low the path can go.
        if now.saturating_sub(round_trip) >= self.resumed {
            self.fresh = self.fresh.saturating_add(1);
            self.is_measured |= self.fresh > WARM_UP;
            self.open_samples = self.open_samples.saturating_add(1);
            if self.open_samples >= self.block_samples || now.since(self.open.begun) >= LONGEST_BLOCK {
                self.complete_block(now);
            }
        }
        self.known()
    }

    /// Returns the floor, if there are enough recent samples.
    pub fn floor(&self, now: Nanos) -> Option<Duration> {
        self.known().filter(|_| now.since(self.last) < PAUSE)
    }

    /// Records that the server throttled a request. A way may have been faster than any round trip
    /// shows, so jitter takes twice its mean from the floor until the promise is due again.
    pub const fn observe_throttle(&mut self) {
        self.wary = WARY;
    }

    #[inline]
    fn known(&self) -> Option<Duration> {
        let lowest = self.lowest.min(self.open.lowest);
        let mut margin = self.median.saturating_sub(lowest);
        if self.wary > 0 {
            margin = margin.max(self.usual.saturating_sub(lowest).saturating_mul(2));
        }
        let needed = if self.is_measured { WARM_UP_AGAIN } else { WARM_UP };
        (self.fresh > needed).then_some(Duration::from_nanos(lowest.saturating_sub(margin)))
    }

    /// Starts to count samples again. All blocks stay: what was low before a pause can be so again.
    #[cold]
    fn resume(&mut self, now: Nanos) {
        (self.resumed, self.fresh) = (now, 0);
        self.open.begun = self.open.begun.min(now);
    }

    #[cold]
    fn complete_block(&mut self, now: Nanos) {
        if self.complete == BLOCKS {
            self.make_room(now);
        }
        if let Some(place) = self.blocks.get_mut(self.complete) {
            *place = self.open;
            self.complete += 1;
        }
        self.open = RttBlock {
            begun: now,
            ..RttBlock::UNUSED
        };
        self.open_samples = 0;
        self.summarize();
    }

    /// Drops the oldest block if it is an hour old; otherwise joins blocks in pairs.
    fn make_room(&mut self, now: Nanos) {
        let oldest = self.blocks.first().map_or(now, |block| block.begun);
        if now.since(oldest) >= MEMORY {
            self.blocks.rotate_left(1);
            self.complete = BLOCKS - 1;
            return;
        }
        let all = self.blocks;
        for (place, pair) in self.blocks.iter_mut().zip(all.chunks_exact(2)) {
            let lowest = pair.iter().map(|block| block.lowest).min();
            let begun = pair.first().map_or(now, |block| block.begun);
            *place = RttBlock {
                begun,
                lowest: lowest.unwrap_or(u64::MAX),
            };
        }
        self.complete = BLOCKS / 2;
        self.block_samples = self.block_samples.saturating_mul(2);
    }

    fn summarize(&mut self) {
        let mut lowest = self.blocks.map(|block| block.lowest);
        let known = lowest.get_mut(..self.complete).unwrap_or_default();
        known.sort_unstable();
        self.lowest = known.first().copied().unwrap_or(u64::MAX);
        self.median = known.get(known.len() / 2).copied().unwrap_or(0);
    }
}

impl RttBlock {
    const UNUSED: Self = Self {
        begun: Nanos::MAX,
        lowest: u64::MAX,
    };
}

/// Enough for a median that a few odd blocks, an outage for example, do not move.
const BLOCKS: usize = 16;
/// The warm-up completes twelve blocks of this size.
const SMALLEST_BLOCK: u32 = 4;
/// At three calls a second this is ten thousand samples, so that a fast response that comes as
/// rarely is remembered until the next.
const MEMORY: Duration = Duration::from_hours(1);
/// A sixteenth of the memory.
const LONGEST_BLOCK: Duration = Duration::from_secs(225);
/// A base that drifts by a third of a millisecond a second moves by the guard and more.
const PAUSE: Duration = Duration::from_secs(10);
/// The promise is at most one refusal in as many calls.
const WARY: u32 = 10_000;
/// With fewer samples even the blocks say little.
const WARM_UP: u32 = 50;

/// Samples after a pause, when earlier ones have shown how low the path can go.
const WARM_UP_AGAIN: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Observes this many round trips, ten a second from `from` on. Returns the last floor.
    fn observe(min_rtt: &mut MinRtt, from: u64, count: u64, trip: impl Fn(u64) -> u64) -> Option<Duration> {
        let one = |n| {
            let now = Nanos::from_millis(1_000 * from + 100 * n);
            min_rtt.observe(now, Duration::from_millis(trip(n)))
        };
        (0..count).map(one).last().flatten()
    }

    #[test]
    fn a_quiet_path_has_its_lowest_round_trip_as_the_floor() {
        let mut min_rtt = MinRtt::default();
        assert_eq!(observe(&mut min_rtt, 1, 51, |_| 40), None);
        assert_eq!(observe(&mut min_rtt, 7, 50_000, |_| 40), Some(40 * MS));
    }

    // One response in five hundred is fast. The first is a surprise, and the next may be faster still.
    // Once most blocks have one, it is known.
    #[test]
    fn a_rare_fast_response_lowers_the_floor_by_more_than_itself() {
        let mut min_rtt = MinRtt::default();
        let trip = |n: u64| if n % 500 == 499 { 80 } else { 100 };
        assert_eq!(observe(&mut min_rtt, 1, 499, trip), Some(100 * MS));
        assert_eq!(observe(&mut min_rtt, 51, 500, trip), Some(60 * MS));
        assert_eq!(observe(&mut min_rtt, 101, 20_000, trip), Some(80 * MS));
    }

    // The base falls by 10 ms in each minute.
    #[test]
    fn a_falling_latency_keeps_the_floor_below_it() {
        let mut min_rtt = MinRtt::default();
        let floor = observe(&mut min_rtt, 1, 3_000, |n| 120 - n / 60);
        assert!(floor < Some(60 * MS), "{floor:?} at a round trip of 71 ms");
    }

    // After an hour most blocks are from the longer path; after two hours all are.
    #[test]
    fn a_floor_is_remembered_for_an_hour() {
        let mut min_rtt = MinRtt::default();
        assert_eq!(observe(&mut min_rtt, 1, 36_000, |_| 40), Some(40 * MS));
        assert_eq!(observe(&mut min_rtt, 3_601, 3_000, |_| 50), Some(40 * MS));
        assert_eq!(observe(&mut min_rtt, 3_901, 24_000, |_| 50), Some(30 * MS));
        assert_eq!(observe(&mut min_rtt, 6_301, 18_000, |_| 50), Some(50 * MS));
    }

    // The path may be shorter after a pause. What was seen before it is not forgotten.
    #[test]
    fn after_a_pause_the_floor_is_measured_again() {
        let mut min_rtt = MinRtt::default();
        assert_eq!(observe(&mut min_rtt, 1, 200, |_| 40), Some(40 * MS));
        assert_eq!(min_rtt.floor(Nanos::from_secs(30)), Some(40 * MS));
        assert_eq!(min_rtt.floor(Nanos::from_secs(31)), None);
        assert_eq!(observe(&mut min_rtt, 3_600, 17, |_| 50), None);
        assert_eq!(observe(&mut min_rtt, 3_602, 1, |_| 50), Some(40 * MS));
    }

    // One response every 11 s is always one after a pause.
    #[test]
    fn sparse_traffic_gives_no_floor() {
        let mut min_rtt = MinRtt::default();
        for n in 0..1_000 {
            assert_eq!(min_rtt.observe(Nanos::from_secs(11 * n), 40 * MS), None);
        }
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
            assert_eq!(floor.is_some(), n == 51, "{n}");
            assert!(floor <= Some(MS), "{floor:?}");
        }
    }

    // 40 or 60 ms in turn: the mean of the jitter is 10 ms. A quiet path has none.
    #[test]
    fn after_a_throttle_jitter_is_taken_from_the_floor_twice() {
        for (trips, wary) in [([40, 60], 20), ([40, 40], 40)] {
            let mut min_rtt = MinRtt::default();
            let trip = |n: u64| if n.is_multiple_of(2) { trips[0] } else { trips[1] };
            assert_eq!(observe(&mut min_rtt, 1, 100, trip), Some(40 * MS));
            min_rtt.observe_throttle();
            let floor = observe(&mut min_rtt, 11, 9_999, trip).map_or(0, |floor| floor.as_millis());
            assert!(floor.abs_diff(wary) <= 2, "{floor} ms for {trips:?}");
            assert_eq!(observe(&mut min_rtt, 1_011, 1, trip), Some(40 * MS));
        }
    }

    #[test]
    fn a_clock_that_steps_back_forgets_nothing() {
        let mut min_rtt = MinRtt::default();
        assert_eq!(observe(&mut min_rtt, 1, 100, |_| 30), Some(30 * MS));
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
