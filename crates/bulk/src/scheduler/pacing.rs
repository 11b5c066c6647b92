//! Keeps starts apart.
//!
//! A limit lets a whole window's worth go at once. The door counts that right, but a hundred calls that
//! leave together set up a hundred connections, wait for each other at both ends and come back in a heap,
//! and what the door learns of their way is the heap's. Spread over their window they wait for nobody, and
//! tenants get their turns in the order in which they have them. It costs nothing over a long run, since
//! the limit is what bounds that.
//!
//! It is a courtesy and no limit: the door still decides. Whoever was held up may catch up, and whoever
//! comes back from a rest begins anew.

use std::time::Duration;

use outflow::EffectiveLimit;
use outflow_core::{Cost, Nanos, Rate};

/// When the next start is due.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartPacer {
    next: Nanos,
}

impl StartPacer {
    /// When the next may start, if not now.
    pub(crate) fn shut_until(self, now: Nanos) -> Option<Nanos> {
        (self.next > now).then_some(self.next)
    }

    /// One has started, and the next is to be this far behind it. What was missed by a little is made up
    /// for, so that a late timer costs nothing.
    pub(crate) fn start(&mut self, now: Nanos, apart: Duration) {
        let due = if now.since(self.next) > MADE_UP {
            now
        } else {
            self.next
        };
        self.next = due.saturating_add(apart);
    }
}

/// How far apart calls of this cost are under these limits.
pub(crate) fn apart(ceilings: &[EffectiveLimit], cost: Cost) -> Duration {
    let spread = |limit: &EffectiveLimit| spread(limit.rate, limit.measure.toll().units(cost));
    ceilings.iter().map(spread).max().unwrap_or_default()
}

/// How far apart starts are that use so much of a rate: evenly over a window, or over a second of it. A quantity
/// for an hour is there to be used, but not in one instant.
pub(crate) fn spread(rate: Rate, units: Cost) -> Duration {
    let window = rate.per().min(LONGEST).as_nanos();
    let nanos = window * u128::from(units.units()) / u128::from(rate.quantity().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A process that gets no processor for longer than this has more to make up for than its pace; a shorter
/// stall happens on any busy machine.
const MADE_UP: Duration = Duration::from_millis(250);

/// Over no longer than this is a window's worth spread: whoever has fewer jobs than that waits for nothing.
const LONGEST: Duration = Duration::from_secs(1);

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

    // The slowest of several counts; 1,000 an hour go out at 1,000 a second, not one in four seconds. What counts
    // calls does not care for costs.
    #[test]
    fn a_windows_worth_is_spread_over_a_second_at_most() {
        let limit = |measure| {
            move |text: &&str| EffectiveLimit {
                extent: LimitScope::Api,
                rate: rate(text),
                measure,
            }
        };
        let of = |rates: &[&str], cost| {
            let limits: Vec<_> = rates.iter().map(limit(CountBy::Cost)).collect();
            apart(&limits, Cost::new(cost))
        };
        assert_eq!(of(&["10/s"], 1), TENTH);
        assert_eq!(of(&["10/s"], 3), 3 * TENTH);
        assert_eq!(of(&["100/s", "10/s"], 1), TENTH);
        assert_eq!(of(&["1000/h"], 1), Duration::from_millis(1));
        assert_eq!(of(&[], 1), Duration::ZERO);
        let calls = limit(CountBy::Calls)(&"10/s");
        assert_eq!(apart(&[calls], Cost::new(2_000)), TENTH);
    }

    // 30 ms late: the third is due when it would have been.
    #[test]
    fn a_late_start_does_not_delay_those_behind_it() {
        let mut pace = StartPacer::default();
        pace.start(ms(1_000), TENTH);
        assert_eq!(pace.shut_until(ms(1_099)), Some(ms(1_100)));
        assert_eq!(pace.shut_until(ms(1_100)), None);
        pace.start(ms(1_130), TENTH);
        assert_eq!(pace.shut_until(ms(1_130)), Some(ms(1_200)));
    }

    // A quarter of a second is what a busy machine may take; after a longer rest nothing is saved up.
    #[test]
    fn a_rest_saves_nothing_up() {
        let mut pace = StartPacer::default();
        pace.start(ms(1_000), TENTH);
        pace.start(ms(1_351), TENTH);
        assert_eq!(pace.shut_until(ms(1_351)), Some(ms(1_451)));
        pace.start(ms(1_701), TENTH);
        assert_eq!(pace.shut_until(ms(1_701)), None, "250 ms late is made up");
    }
}
