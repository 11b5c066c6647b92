//! Keeps starts apart.
//!
//! A limit lets the quota of a whole window start at once. The API counts that correctly, but a hundred calls
//! that start together open a hundred connections, delay each other and return in a burst, which distorts the
//! measured latency. Spread over the window they do not delay each other, and tenants keep their order. A long
//! run takes no longer, since the limit bounds it.
//!
//! Pacing is no limit: the upstream still decides. A delayed start may catch up, and an idle lane starts fresh.

use std::time::Duration;

use outflow::EffectiveLimit;
use outflow_core::{Cost, Nanos, Rate};

/// Due instant of the next start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartPacer {
    next: Nanos,
}

impl StartPacer {
    /// Returns the instant of the next start, if it is not due yet.
    pub(crate) fn next_start_after(self, now: Nanos) -> Option<Nanos> {
        (self.next > now).then_some(self.next)
    }

    /// Records a start; the next is due this far behind it. A small delay is made up for, so that a late timer
    /// costs nothing.
    pub(crate) fn record_start(&mut self, now: Nanos, distance: Duration) {
        let due = if now.since(self.next) > MAX_CATCH_UP {
            now
        } else {
            self.next
        };
        self.next = due.saturating_add(distance);
    }
}

/// Returns the distance between calls of this cost under these limits.
pub(crate) fn start_distance(limits: &[EffectiveLimit], cost: Cost) -> Duration {
    let spread = |limit: &EffectiveLimit| spread(limit.rate, limit.measure.unit_cost().units(cost));
    limits.iter().map(spread).max().unwrap_or_default()
}

/// Returns the distance between starts that use this part of a rate: even over the window, or over one second of
/// a longer one. An hour's quota is there to be used, but not in one instant.
pub(crate) fn spread(rate: Rate, units: Cost) -> Duration {
    let window = rate.per().min(MAX_SPREAD).as_nanos();
    let nanos = window * u128::from(units.units()) / u128::from(rate.quantity().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Busy machines stall for less than this; a process that stalls longer starts fresh.
const MAX_CATCH_UP: Duration = Duration::from_millis(250);

/// A tenant with fewer jobs than its quota waits no longer than this.
const MAX_SPREAD: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use outflow::LimitScope;
    use outflow_core::CountBy;

    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("a rate")
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    const TENTH: Duration = Duration::from_millis(100);

    // The slowest of several limits counts; 1,000/h start at 1,000 a second, not one in four seconds. A limit
    // that counts calls ignores costs.
    #[test]
    fn a_window_is_spread_over_one_second_at_most() {
        let limit = |measure| {
            move |text: &&str| EffectiveLimit {
                scope: LimitScope::Api,
                rate: rate(text),
                measure,
            }
        };
        let distance = |rates: &[&str], cost| {
            let limits: Vec<_> = rates.iter().map(limit(CountBy::Cost)).collect();
            start_distance(&limits, Cost::new(cost))
        };
        assert_eq!(distance(&["10/s"], 1), TENTH);
        assert_eq!(distance(&["10/s"], 3), 3 * TENTH);
        assert_eq!(distance(&["100/s", "10/s"], 1), TENTH);
        assert_eq!(distance(&["1000/h"], 1), Duration::from_millis(1));
        assert_eq!(distance(&[], 1), Duration::ZERO);
        let calls = limit(CountBy::Calls)(&"10/s");
        assert_eq!(start_distance(&[calls], Cost::new(2_000)), TENTH);
    }

    // 30 ms late: the third is due when it would have been.
    #[test]
    fn a_late_start_does_not_delay_the_next() {
        let mut pacer = StartPacer::default();
        pacer.record_start(ms(1_000), TENTH);
        assert_eq!(pacer.next_start_after(ms(1_099)), Some(ms(1_100)));
        assert_eq!(pacer.next_start_after(ms(1_100)), None);
        pacer.record_start(ms(1_130), TENTH);
        assert_eq!(pacer.next_start_after(ms(1_130)), Some(ms(1_200)));
    }

    // A busy machine may stall for a quarter of a second; a longer gap is not made up for.
    #[test]
    fn an_idle_lane_saves_up_no_starts() {
        let mut pacer = StartPacer::default();
        pacer.record_start(ms(1_000), TENTH);
        pacer.record_start(ms(1_351), TENTH);
        assert_eq!(pacer.next_start_after(ms(1_351)), Some(ms(1_451)));
        pacer.record_start(ms(1_701), TENTH);
        assert_eq!(pacer.next_start_after(ms(1_701)), None, "250 ms late is made up");
    }
}
