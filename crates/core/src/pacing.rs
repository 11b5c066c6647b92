//! Even distribution of the remaining quota over the remaining time.
//!
//! A limit of 10 per minute can be used up in the first second. Soft pacing suggests a pause before
//! each request so that the rest lasts until units return. It is a suggestion, distinct from the
//! hard wait: a paced request is already allowed.

use core::time::Duration;

use crate::{Cost, Decision, Meter, Nanos};

/// Wait of a request, soft or hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitTime {
    /// The request may go now; an even spread would wait this long.
    Soft {
        /// The pause, capped.
        delay: Duration,
        /// The pause before the cap.
        asked: Duration,
    },
    /// The request may not go before this instant.
    Hard(Nanos),
    /// The request can never go.
    Never,
}

impl Meter {
    /// Returns the wait of `cost`, with at most `max_delay` for an even spread.
    ///
    /// A cost of zero never has to wait: while nothing remains, the returned instant is that of the
    /// next recovery, as information.
    ///
    /// ```
    /// use core::time::Duration;
    /// use outflow_core::{Accounting, Cost, Limit, Meter, ClockPair, Nanos, WaitTime};
    ///
    /// let limit = Limit::fixed("10/s".parse()?).counted(Accounting::Send);
    /// let mut meter = Meter::new(&limit, ClockPair::default());
    /// let cap = Duration::from_millis(500);
    /// assert!(meter.take(Nanos::ZERO, Cost::new(5)).is_allow());
    /// // Five are left for 900 ms: 180 ms each.
    /// let wait = meter.wait_time(Nanos::from_millis(100), Cost::ONE, cap);
    /// let even = Duration::from_millis(180);
    /// assert_eq!(wait, WaitTime::Soft { delay: even, asked: even });
    /// # Ok::<(), outflow_core::InvalidRate>(())
    /// ```
    pub fn wait_time(&mut self, now: Nanos, cost: Cost, max_delay: Duration) -> WaitTime {
        if cost == Cost::ZERO && self.status(now).remaining() == 0 {
            return self.recovery(now).map_or(WaitTime::Never, WaitTime::Hard);
        }
        match self.check(now, cost) {
            Decision::Allow(()) => {
                let asked = self.even_pause(now, now, cost);
                WaitTime::Soft {
                    delay: asked.min(max_delay),
                    asked,
                }
            }
            Decision::WaitUntil(at) => WaitTime::Hard(at),
            Decision::Never => WaitTime::Never,
        }
    }

    /// Returns the pause that spreads the remaining quota over the time from `start` until units
    /// return. An unused meter asks for none.
    pub(crate) fn even_pause(&mut self, now: Nanos, start: Nanos, cost: Cost) -> Duration {
        let Some(recovery) = self.recovery(now) else {
            return Duration::ZERO;
        };
        let status = self.status(now);
        let (left, remaining) = (recovery.since(status.at.max(start)), status.remaining().max(1));
        let nanos = left.as_nanos() * u128::from(cost.units()) / u128::from(remaining);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
