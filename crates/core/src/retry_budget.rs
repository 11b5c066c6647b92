//! The number of retries that an API's calls have earned.
//!
//! Retries multiply an outage: with two per call, a failing server gets three times the calls. So
//! every call earns a share of a retry, for a while, and a small steady allowance covers quiet
//! times. Deciding and taking a retry are one step, so two callers never spend one retry. One sum
//! over the last ten seconds would save the allowance up to a burst of a hundred.
//!
//! In any span, retries ≤ share × (calls in the span and the `ttl` before it) + per second ×
//! (seconds of the span + 1). Hedged requests withdraw like retries.

use core::time::Duration;

use crate::time::span_nanos;
use crate::{Nanos, Share};

/// Retries that may still be made.
///
/// ```
/// use outflow_core::{Nanos, RetryBudget};
///
/// let now = Nanos::from_secs(1);
/// let mut budget = RetryBudget::new(Default::default(), now)?;
/// for _ in 0..10 {
///     assert!(budget.withdraw(now), "ten in the first second are free");
/// }
/// assert!(!budget.withdraw(now));
/// for _ in 0..5 {
///     budget.deposit(now);
/// }
/// assert!(budget.withdraw(now), "five calls earn one more");
/// # Ok::<(), outflow_core::InvalidRetryBudget>(())
/// ```
#[derive(Clone, Debug)]
pub struct RetryBudget {
    share: u64,
    allowance: SteadyAllowance,
    earned: EarnedRetries,
    latest: Nanos,
}

impl RetryBudget {
    /// Builds a budget with its first second's allowance and nothing earned.
    ///
    /// # Errors
    /// If calls earn nothing and nothing is allowed: disable retries instead; or if earned retries
    /// expire at once.
    pub fn new(settings: RetryBudgetSettings, now: Nanos) -> Result<Self, InvalidRetryBudget> {
        if settings.share == Share::NONE && settings.per_second == 0 {
            return Err(InvalidRetryBudget::NothingAllowed);
        }
        let slot = span_nanos(settings.ttl) / SLOTS;
        if slot == 0 {
            return Err(InvalidRetryBudget::TtlTooShort);
        }
        Ok(Self {
            share: settings.share.as_parts_per_million().into(),
            allowance: SteadyAllowance::full(settings.per_second, now),
            earned: EarnedRetries::empty(slot, now),
            latest: now,
        })
    }

    /// Applies other settings. Used allowance stays used, and earned retries stay unless their
    /// lifetime changes.
    ///
    /// # Errors
    /// As [`RetryBudget::new`].
    pub fn under(&self, settings: RetryBudgetSettings, now: Nanos) -> Result<Self, InvalidRetryBudget> {
        let now = now.max(self.latest);
        let mut next = Self::new(settings, now)?;
        next.allowance.full_at = self.allowance.full_at.max(next.allowance.full_at);
        if next.earned.slot == self.earned.slot {
            next.earned = self.earned.clone();
        }
        Ok(next)
    }

    /// Records a call (a first attempt), which earns its share of a retry.
    pub fn deposit(&mut self, now: Nanos) {
        let now = self.clamped(now);
        self.earned.add(now, self.share);
    }

    /// Takes one retry; returns false if there is none.
    #[must_use = "a retry without leave is what the budget is there to prevent"]
    pub fn withdraw(&mut self, now: Nanos) -> bool {
        let now = self.clamped(now);
        // The allowance first: earned retries last longer.
        self.allowance.take(now) || self.earned.take(now)
    }

    /// Returns the number of whole retries that could be taken now.
    pub fn balance(&self, now: Nanos) -> u64 {
        let now = now.max(self.latest);
        let earned = self.earned.at(now) / RETRY;
        self.allowance.at(now).saturating_add(earned)
    }

    /// Keeps time from running backwards: nothing is earned or expires twice.
    fn clamped(&mut self, now: Nanos) -> Nanos {
        self.latest = self.latest.max(now);
        self.latest
    }
}

/// Settings of a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryBudgetSettings {
    /// Part of a retry that each call earns.
    pub share: Share,
    /// Retries allowed each second in addition; one second's worth is saved.
    pub per_second: u32,
    /// Maximum lifetime of earned retries.
    pub ttl: Duration,
}

impl Default for RetryBudgetSettings {
    /// One retry for five calls and ten a second on top: an outage sees a fifth more calls than a
    /// good day, and a quiet program may still retry.
    fn default() -> Self {
        Self {
            share: Share::percent(20),
            per_second: 10,
            ttl: Duration::from_secs(10),
        }
    }
}

/// Steady allowance of which one second's worth is saved, as the time at which it would be full.
#[derive(Clone, Debug)]
struct SteadyAllowance {
    /// Nanoseconds per retry, rounded up; 0 if there is no allowance.
    each: u64,
    /// One second's worth.
    capacity: u64,
    full_at: u64,
}

impl SteadyAllowance {
    fn full(per_second: u32, now: Nanos) -> Self {
        let count = u64::from(per_second);
        let each = match count {
            0 => 0,
            _ => SECOND.div_ceil(count),
        };
        Self {
            each,
            capacity: each * count,
            full_at: now.as_nanos(),
        }
    }

    fn at(&self, now: Nanos) -> u64 {
        let missing = self.full_at.saturating_sub(now.as_nanos());
        self.capacity
            .saturating_sub(missing)
            .checked_div(self.each)
            .unwrap_or(0)
    }

    fn take(&mut self, now: Nanos) -> bool {
        if self.at(now) == 0 {
            return false;
        }
        self.full_at = self.full_at.max(now.as_nanos()).saturating_add(self.each);
        // At the end of the timeline no more can be recorded, so no more is granted.
        self.full_at < u64::MAX
    }
}

/// Earned retries, by the tenth of the `ttl` in which their calls came. A tenth is dropped as a
/// whole when its first moment is `ttl` old, so that none lasts longer.
#[derive(Clone, Debug)]
struct EarnedRetries {
    slot: u64,
    opened: u64,
    /// Number of the newest slot, counted from opening.
    newest: u64,
    /// The newest slot first.
    parts: [u64; 10],
}

impl EarnedRetries {
    fn empty(slot: u64, now: Nanos) -> Self {
        Self {
            slot,
            opened: now.as_nanos(),
            newest: 0,
            parts: [0; 10],
        }
    }

    fn at(&self, now: Nanos) -> u64 {
        let passed = self.passed(now);
        let remaining = self.parts.len().saturating_sub(passed);
        self.parts
            .iter()
            .take(remaining)
            .fold(0, |sum, part| sum.saturating_add(*part))
    }

    fn add(&mut self, now: Nanos, share: u64) {
        self.turn(now);
        let [first, ..] = &mut self.parts;
        *first = first.saturating_add(share);
    }

    fn take(&mut self, now: Nanos) -> bool {
        self.turn(now);
        if self.at(now) < RETRY {
            return false;
        }
        // From the oldest, which expires next.
        let mut due = RETRY;
        for part in self.parts.iter_mut().rev() {
            let taken = due.min(*part);
            *part -= taken;
            due -= taken;
        }
        true
    }

    fn turn(&mut self, now: Nanos) {
        let passed = self.passed(now);
        if passed > 0 {
            let length = self.parts.len();
            self.parts.rotate_right(passed % length);
            self.parts.iter_mut().take(passed).for_each(|part| *part = 0);
            self.newest = self.number(now);
        }
    }

    /// Returns the number of slots begun since the newest used one, at most all.
    fn passed(&self, now: Nanos) -> usize {
        let passed = self.number(now).saturating_sub(self.newest);
        usize::try_from(passed).map_or(self.parts.len(), |passed| passed.min(self.parts.len()))
    }

    fn number(&self, now: Nanos) -> u64 {
        now.as_nanos().saturating_sub(self.opened) / self.slot
    }
}

/// One retry, in the parts per million of a share.
const RETRY: u64 = 1_000_000;

const SECOND: u64 = span_nanos(Duration::from_secs(1));

/// A `ttl` is exact to a tenth: finer would cost memory for no visible difference.
const SLOTS: u64 = 10;

error_enum! {
    /// Reason that a budget cannot be built.
    pub enum InvalidRetryBudget {
        /// Neither a share nor an allowance.
        NothingAllowed = "a budget of no share and no allowance never retries: set the retry count to 0 instead",
        /// Less than ten nanoseconds.
        TtlTooShort = "earned retries would expire at once: use a ttl of some seconds",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_budget() -> RetryBudget {
        RetryBudget::new(RetryBudgetSettings::default(), Nanos::ZERO).expect("valid")
    }

    // 200 calls a second, all failing, each ready to retry twice, for ten minutes: 120 000 calls
    // may cause 24 000 earned retries, 6 000 allowed ones and the first second's 10.
    #[test]
    fn a_total_outage_is_not_multiplied() {
        let mut budget = default_budget();
        let (mut calls, mut retries) = (0_u64, 0_u64);
        for tick in 0..600 * 200 {
            let now = Nanos::from_millis(tick * 5);
            budget.deposit(now);
            calls += 1;
            for _ in 0..2 {
                retries += u64::from(budget.withdraw(now));
            }
        }
        assert!(retries <= calls / 5 + 6_000 + 10, "{retries} retries");
        assert!(retries >= calls / 5 + 5_900, "and none is withheld: {retries}");
    }

    #[test]
    fn the_allowance_saves_one_second_and_no_more() {
        let mut budget = default_budget();
        let hour = Nanos::from_secs(3_600);
        assert_eq!(budget.balance(hour), 10);
        assert_eq!((0..100).filter(|_| budget.withdraw(hour)).count(), 10);
        let tenth = hour.saturating_add(Duration::from_millis(100));
        assert!(!budget.withdraw(tenth.saturating_sub(Duration::from_nanos(1))));
        assert!(budget.withdraw(tenth));
        assert!(!budget.withdraw(tenth));
    }

    // Fifty calls earn ten retries. The slots are a second long and the calls come at 0.5 s, so
    // they are dropped at 10 s, never later than ten seconds after they came.
    #[test]
    fn earned_retries_expire_in_time() {
        let mut budget = default_budget();
        for _ in 0..50 {
            budget.deposit(Nanos::from_millis(500));
        }
        assert_eq!(budget.balance(Nanos::from_millis(9_999)), 20);
        assert_eq!(budget.balance(Nanos::from_secs(10)), 10);
    }

    // All ten of this second are taken and five calls have earned one. Other settings neither
    // return the ten nor lose the one, unless its lifetime changes.
    #[test]
    fn new_settings_refund_nothing() {
        let (now, settings) = (Nanos::from_secs(1), RetryBudgetSettings::default());
        let mut budget = default_budget();
        while budget.withdraw(now) {}
        (0..5).for_each(|_| budget.deposit(now));
        let fewer = RetryBudgetSettings {
            per_second: 5,
            ..settings
        };
        let mut fewer = budget.under(fewer, now).expect("valid");
        assert!(fewer.withdraw(now), "an earned retry");
        assert!(!fewer.withdraw(now));
        let ttl = Duration::from_secs(20);
        let longer = budget.under(RetryBudgetSettings { ttl, ..settings }, now);
        assert!(!longer.expect("valid").withdraw(now));
    }

    #[test]
    fn a_clock_that_steps_back_earns_nothing() {
        let mut budget = default_budget();
        let now = Nanos::from_secs(5);
        while budget.withdraw(now) {}
        for step in 0..1_000 {
            let jitter = Duration::from_millis(step % 2);
            assert!(!budget.withdraw(now.saturating_sub(jitter)));
        }
    }

    #[test]
    fn the_ends_of_the_timeline_are_safe() {
        let mut budget = default_budget();
        budget.deposit(Nanos::MAX);
        let granted = (0..1_000).filter(|_| budget.withdraw(Nanos::MAX)).count();
        assert!(granted <= 10, "{granted}");
    }

    #[test]
    fn impossible_budgets_cannot_be_built() {
        let default_budget = RetryBudgetSettings::default();
        let nothing = RetryBudgetSettings {
            share: Share::NONE,
            per_second: 0,
            ..default_budget
        };
        let at_once = RetryBudgetSettings {
            ttl: Duration::from_nanos(9),
            ..default_budget
        };
        let error = |settings| RetryBudget::new(settings, Nanos::ZERO).err();
        assert_eq!(error(nothing), Some(InvalidRetryBudget::NothingAllowed));
        assert_eq!(error(at_once), Some(InvalidRetryBudget::TtlTooShort));
    }
}
