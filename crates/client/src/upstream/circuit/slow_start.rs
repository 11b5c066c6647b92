//! Slow start: few calls in flight under a limit that is not proven.
//!
//! A configured limit may be far above the limit of the API, and a burst that is sent before the first
//! throttle response is throttled as a whole. For one second, and again after each lowered limit, the
//! number of calls in flight grows with the calls that pass: about an eighth of the real limit is
//! throttled. Pacing calls over the second would slow down every nearby server; this costs a nearby one
//! nothing and any other at most a second. If the first response takes longer than a quarter of a second,
//! waiting for proof costs more than it saves, and the slow start ends then. It is no limit and ends by
//! itself.

use std::time::Duration;

use outflow_core::{AdaptiveMode, Nanos};

use crate::rules::Rules;

/// Bound on calls in flight for one second at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::upstream) struct SlowStart {
    /// [`Nanos::MAX`] until the first call starts.
    pub(super) ends: Nanos,
    passed: u32,
}

impl SlowStart {
    /// Returns a slow start if the rules have limits that may adapt, and none otherwise.
    pub(super) fn from_rules(rules: &Rules) -> Self {
        let own = rules.groups.iter().any(|group| !group.limits.is_empty());
        let limited = own || !rules.limits.is_empty();
        let wanted = limited && rules.adaptive != AdaptiveMode::Off;
        Self {
            ends: if wanted { Nanos::MAX } else { Nanos::ZERO },
            passed: 0,
        }
    }

    /// Returns the number of calls that may be in flight.
    #[inline]
    pub(super) fn max_in_flight(&self, now: Nanos) -> u32 {
        if now >= self.ends {
            return u32::MAX;
        }
        FIRST.saturating_add(self.passed / PASSED_FOR_ONE_MORE)
    }

    /// Begins the second with the first call.
    #[inline]
    pub(super) fn start(&mut self, now: Nanos) {
        if self.ends == Nanos::MAX {
            self.ends = now.saturating_add(PATIENCE);
        }
    }

    /// Counts a call that the API let pass. The first one in time proves that the API is near, and the
    /// start goes on.
    pub(in crate::upstream) fn record_pass(&mut self, now: Nanos) {
        if self.passed == 0 && now < self.ends && self.ends < Nanos::MAX {
            self.ends = self.ends.saturating_add(A_SECOND.saturating_sub(PATIENCE));
        }
        self.passed = self.passed.saturating_add(1);
    }

    /// Ends the slow start for a caller that cannot wait: refusing it despite free quota is worse than
    /// a throttled burst.
    pub(in crate::upstream) const fn end(&mut self) {
        self.ends = Nanos::ZERO;
    }

    /// Begins again at this instant, after a limit was lowered.
    pub(super) fn restart(&mut self, from: Nanos) {
        self.ends = from.saturating_add(PATIENCE);
        self.passed = 0;
    }
}

/// The default concurrency, so that a default configuration notices no difference.
const FIRST: u32 = 4;
/// With one more for every eight passed calls, an eighth of the limit and four are in flight when the
/// limit is reached.
const PASSED_FOR_ONE_MORE: u32 = 8;
/// The window of most limits that a burst can reach; a correct limit delays no call for longer.
const A_SECOND: Duration = Duration::from_secs(1);
/// Longer than an exchange with most APIs.
const PATIENCE: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    // The first call starts at 0.5 s, so the slow start ends at 1.5 s, regardless of passed calls.
    #[test]
    fn calls_in_flight_grow_with_passed_calls_and_are_unbounded_after_a_second() {
        let rules = Rules::with_limit("200/s".parse().expect("valid"));
        let mut slow_start = SlowStart::from_rules(&rules);
        let at = Nanos::from_millis;
        assert_eq!(slow_start.max_in_flight(at(400)), 4);
        slow_start.start(at(500));
        slow_start.start(at(900));
        (0..50).for_each(|_| slow_start.record_pass(at(700)));
        assert_eq!(slow_start.max_in_flight(at(1_499)), 10);
        assert_eq!(slow_start.max_in_flight(at(1_500)), u32::MAX);
        slow_start.restart(at(2_000));
        assert_eq!(
            slow_start.max_in_flight(at(2_249)),
            4,
            "earlier passes prove nothing for the new limit"
        );
        slow_start.end();
        assert_eq!(
            slow_start.max_in_flight(at(2_000)),
            u32::MAX,
            "a caller that cannot wait ends it"
        );
    }

    // A call of two seconds would wait for a second and be none the wiser.
    #[test]
    fn a_far_api_ends_the_slow_start_early() {
        let rules = Rules::with_limit("200/s".parse().expect("valid"));
        let mut slow_start = SlowStart::from_rules(&rules);
        let at = Nanos::from_millis;
        slow_start.start(at(500));
        assert_eq!(slow_start.max_in_flight(at(749)), 4);
        assert_eq!(slow_start.max_in_flight(at(750)), u32::MAX);
        slow_start.record_pass(at(2_500));
        assert_eq!(slow_start.max_in_flight(at(2_500)), u32::MAX);
    }

    #[test]
    fn without_a_limit_or_without_adaptation_there_is_no_slow_start() {
        let unlimited = Rules::unlimited();
        let fixed = Rules {
            adaptive: AdaptiveMode::Off,
            ..Rules::with_default_limit()
        };
        for rules in [unlimited, fixed] {
            let slow_start = SlowStart::from_rules(&rules);
            assert_eq!(slow_start.max_in_flight(Nanos::ZERO), u32::MAX);
        }
    }
}
