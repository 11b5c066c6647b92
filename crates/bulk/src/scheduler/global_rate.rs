//! The rate of all tenants together, whatever they call.
//!
//! It is a bound of our own and no server counts it, so it counts starts, and nothing has to be given back.

use std::sync::{Mutex, PoisonError};

use outflow_core::{Accounting, ClockPair, Cost, Decision, Limit, Meter, Nanos, Rate};

/// How much may be started in a second.
#[derive(Default)]
pub(crate) struct GlobalRate {
    meter: Mutex<Option<(u64, Meter)>>,
}

impl GlobalRate {
    /// Counts one start at this rate, or says when there is room for it. What is above the whole rate goes
    /// as if it were all of it: it would wait for ever otherwise.
    pub(crate) fn start(&self, global: u64, cost: Cost, now: Nanos) -> Result<(), Nanos> {
        let Ok(rate) = Rate::per_second(global) else {
            return Ok(());
        };
        let limit = Limit::sliding(rate).counted(Accounting::Send);
        let begun = || (global, Meter::new(&limit, ClockPair::default()));
        let mut kept = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, meter) = kept.get_or_insert_with(begun);
        if *known != global {
            *known = global;
            meter.reconfigure(ClockPair::default(), &limit);
        }
        match meter.take(now, Cost::new(cost.units().min(global))) {
            Decision::WaitUntil(at) => Err(at),
            Decision::Allow(_) | Decision::Never => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two in a second: the third goes when the first is a second old, and one of five as if it were of two.
    #[test]
    fn no_second_has_more_starts_than_the_rate() {
        let house = GlobalRate::default();
        let start = |cost, ms| house.start(2, Cost::new(cost), Nanos::from_millis(ms));
        assert_eq!(start(1, 0), Ok(()));
        assert_eq!(start(1, 300), Ok(()));
        assert_eq!(start(1, 400), Err(Nanos::from_secs(1)));
        assert_eq!(start(1, 1_000), Ok(()));
        assert_eq!(start(5, 1_000), Err(Nanos::from_secs(2)));
        assert_eq!(start(5, 2_000), Ok(()));
    }

    // What was started under the old rate counts under the new.
    #[test]
    fn another_rate_holds_from_then_on() {
        let house = GlobalRate::default();
        assert_eq!(house.start(1, Cost::ONE, Nanos::ZERO), Ok(()));
        assert!(house.start(1, Cost::ONE, Nanos::ZERO).is_err());
        assert_eq!(house.start(2, Cost::ONE, Nanos::ZERO), Ok(()));
        assert!(house.start(2, Cost::ONE, Nanos::ZERO).is_err());
    }
}
