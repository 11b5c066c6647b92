//! The rate of all tenants together, for all APIs.
//!
//! It is a bound of this engine and no server counts it. So it counts starts, and refunds nothing.

use outflow_core::{Accounting, ClockPair, Cost, Decision, Limit, Meter, Nanos, Rate};
use outflow_sync::Mutex;

/// Meter of all starts.
#[derive(Default)]
pub(crate) struct GlobalRate {
    meter: Mutex<Option<(u64, Meter)>>,
}

impl GlobalRate {
    /// Counts one start, or returns the instant at which there is quota for it. A cost above the rate counts
    /// as the whole rate: it would wait for ever otherwise.
    pub(crate) fn try_start(&self, per_second: u64, cost: Cost, now: Nanos) -> Result<(), Nanos> {
        let Ok(rate) = Rate::per_second(per_second) else {
            return Ok(());
        };
        let limit = Limit::sliding(rate).counted(Accounting::Send);
        let new_meter = || (per_second, Meter::new(&limit, ClockPair::default()));
        let mut guard = self.meter.lock();
        let (current, meter) = guard.get_or_insert_with(new_meter);
        if *current != per_second {
            *current = per_second;
            meter.reconfigure(ClockPair::default(), &limit);
        }
        match meter.take(now, Cost::new(cost.units().min(per_second))) {
            Decision::WaitUntil(at) => Err(at),
            Decision::Allow(_) | Decision::Never => Ok(()),
        }
    }

    /// Returns true if no further start has quota now.
    pub(crate) fn is_used_up(&self, now: Nanos) -> bool {
        let mut guard = self.meter.lock();
        let decision = guard.as_mut().map(|(_, meter)| meter.check(now, Cost::ONE));
        matches!(decision, Some(Decision::WaitUntil(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two in a second: the third starts when the first is a second old, and a cost of five counts as two.
    #[test]
    fn no_second_has_more_starts_than_the_rate() {
        let global = GlobalRate::default();
        let start = |cost, ms| global.try_start(2, Cost::new(cost), Nanos::from_millis(ms));
        assert_eq!(start(1, 0), Ok(()));
        assert_eq!(start(1, 300), Ok(()));
        assert_eq!(start(1, 400), Err(Nanos::from_secs(1)));
        assert_eq!(start(1, 1_000), Ok(()));
        assert_eq!(start(5, 1_000), Err(Nanos::from_secs(2)));
        assert_eq!(start(5, 2_000), Ok(()));
    }

    #[test]
    fn starts_under_the_old_rate_count_under_the_new() {
        let global = GlobalRate::default();
        assert_eq!(global.try_start(1, Cost::ONE, Nanos::ZERO), Ok(()));
        assert!(global.try_start(1, Cost::ONE, Nanos::ZERO).is_err());
        assert_eq!(global.try_start(2, Cost::ONE, Nanos::ZERO), Ok(()));
        assert!(global.try_start(2, Cost::ONE, Nanos::ZERO).is_err());
    }
}
