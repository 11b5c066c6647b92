//! How limits that nobody has tried are tried.
//!
//! What is configured may be far above what the server allows, and a burst that is sent before the first
//! refusal comes back is refused whole. So for the first second, and for a second after a limit was
//! lowered, few calls are in flight at a time, and more as more of them pass: whatever the limit really
//! is, about an eighth of it is refused before everybody knows. Pacing the calls over the second
//! instead would slow down every server that is near; this costs a near one nothing, and any a second at
//! most. It is no limit and ends by itself.

use std::time::Duration;

use outflow_core::{AdaptiveMode, Nanos};

use crate::rules::Rules;

/// A second of care.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowStart {
    /// [`Nanos::MAX`] until the first call goes.
    pub(super) ends: Nanos,
    passed: u32,
}

impl SlowStart {
    /// The care that limits ask for which are yet to be tried: none where there are none, or where
    /// nothing is to be learned of them.
    pub(super) fn with(rules: &Rules) -> Self {
        let own = rules.groups.iter().any(|group| !group.limits.is_empty());
        let limited = own || !rules.limits.is_empty();
        let wanted = limited && rules.adaptive != AdaptiveMode::Off;
        Self {
            ends: if wanted { Nanos::MAX } else { Nanos::ZERO },
            passed: 0,
        }
    }

    /// How many may be in flight.
    #[inline]
    pub(super) fn max_in_flight(&self, now: Nanos) -> u32 {
        if now >= self.ends {
            return u32::MAX;
        }
        FIRST.saturating_add(self.passed / PASSED_FOR_ONE_MORE)
    }

    /// A call goes.
    #[inline]
    pub(super) fn sets_out(&mut self, now: Nanos) {
        if self.ends == Nanos::MAX {
            self.ends = now.saturating_add(A_SECOND);
        }
    }

    /// The server let one pass.
    pub(super) const fn passed(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }

    /// Somebody came who cannot wait: to be told that there is no room where there is would be worse than
    /// a burst that is refused.
    pub(super) const fn end(&mut self) {
        self.ends = Nanos::ZERO;
    }

    /// A limit was lowered, and whether that is enough is yet to be tried, from this instant on.
    pub(super) fn begin_again(&mut self, from: Nanos) {
        self.ends = from.saturating_add(A_SECOND);
        self.passed = 0;
    }
}

/// As many as may be in flight where nothing is configured, so that nobody notices there.
const FIRST: u32 = 4;
/// With one more for every eight that passed, those in flight when the limit is reached are an eighth of
/// it and four.
const PASSED_FOR_ONE_MORE: u32 = 8;
/// The window of most limits that a burst can meet; nobody is held up longer for a limit that is right.
const A_SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    // The first goes at half a second, so the care ends at one and a half, whatever passes until then.
    #[test]
    fn few_go_until_some_have_passed_and_all_after_a_second() {
        let rules = Rules::with_limit("200/s".parse().expect("valid"));
        let mut caution = SlowStart::with(&rules);
        let at = Nanos::from_millis;
        assert_eq!(caution.max_in_flight(at(400)), 4);
        caution.sets_out(at(500));
        caution.sets_out(at(900));
        (0..50).for_each(|_| caution.passed());
        assert_eq!(caution.max_in_flight(at(1_499)), 10);
        assert_eq!(caution.max_in_flight(at(1_500)), u32::MAX);
        caution.begin_again(at(2_000));
        assert_eq!(
            caution.max_in_flight(at(2_999)),
            4,
            "what passed before says nothing"
        );
        caution.end();
        assert_eq!(
            caution.max_in_flight(at(2_000)),
            u32::MAX,
            "not for who cannot wait"
        );
    }

    #[test]
    fn without_a_limit_or_without_learning_there_is_nothing_to_try() {
        let unlimited = Rules::unlimited();
        let fixed = Rules {
            adaptive: AdaptiveMode::Off,
            ..Rules::with_default_limit()
        };
        for rules in [unlimited, fixed] {
            assert_eq!(SlowStart::with(&rules).max_in_flight(Nanos::ZERO), u32::MAX);
        }
    }
}
