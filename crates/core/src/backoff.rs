//! Wait before a retry when the server named no time.
//!
//! The whole wait is random, not a fixed wait with a little noise: callers that failed together
//! would otherwise return together. Randomness comes in as 64 bits of entropy, and the wait is
//! whole nanoseconds, drawn by one multiplication. Floating point would turn a large attempt number
//! into infinity. This file knows no budgets or deadlines.

use core::time::Duration;

use crate::time::span_nanos;

/// Rule for the wait before each retry.
///
/// ```
/// use core::time::Duration;
/// use outflow_core::Backoff;
///
/// let backoff = Backoff::default();
/// assert_eq!(backoff.delay(1, 0), Duration::ZERO);
/// assert_eq!(backoff.delay(1, u64::MAX), Duration::from_millis(1_500));
/// assert_eq!(backoff.delay(u32::MAX, u64::MAX), Duration::from_secs(30));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    spread: JitterSpread,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum JitterSpread {
    Full,
    Added(Duration),
}

impl Backoff {
    /// Waits between zero and `base`, doubled with each retry up to `cap`, uniformly distributed.
    /// The default choice.
    ///
    /// # Errors
    /// If `base` is zero or above `cap`.
    pub fn full_jitter(base: Duration, cap: Duration) -> Result<Self, InvalidBackoff> {
        Self::new(base, cap, JitterSpread::Full)
    }

    /// Waits `base`, doubled with each retry up to `cap`, plus up to `jitter`. Choose it where a
    /// minimum wait is needed; callers that failed together stay together within `jitter`.
    ///
    /// # Errors
    /// If `base` is zero or above `cap`.
    pub fn added_jitter(base: Duration, jitter: Duration, cap: Duration) -> Result<Self, InvalidBackoff> {
        Self::new(base, cap, JitterSpread::Added(jitter))
    }

    /// Returns the wait before the `retry`th retry, the first being 1 (0 counts as 1).
    pub fn delay(&self, retry: u32, entropy: u64) -> Duration {
        let grown = doubled(span_nanos(self.base), retry.saturating_sub(1));
        let grown = grown.min(span_nanos(self.cap));
        Duration::from_nanos(match self.spread {
            JitterSpread::Full => uniform(grown, entropy),
            JitterSpread::Added(jitter) => grown.saturating_add(uniform(span_nanos(jitter), entropy)),
        })
    }

    fn new(base: Duration, cap: Duration, spread: JitterSpread) -> Result<Self, InvalidBackoff> {
        if base.is_zero() {
            return Err(InvalidBackoff::NoBase);
        }
        if cap < base {
            return Err(InvalidBackoff::CapBelowBase);
        }
        Ok(Self { base, cap, spread })
    }
}

impl Default for Backoff {
    /// Full jitter from 1.5 s up to 30 s: the third retry already spreads over six seconds, and no
    /// wait exceeds a user's patience.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(1_500),
            cap: Duration::from_secs(30),
            spread: JitterSpread::Full,
        }
    }
}

/// Returns a whole number from 0 to `max`, both included, as uniformly as 64 bits allow.
pub(crate) fn uniform(max: u64, entropy: u64) -> u64 {
    let wide = u128::from(entropy) * (u128::from(max) + 1);
    u64::try_from(wide >> 64).unwrap_or(max)
}

/// Returns `value × 2^times`, or the largest number.
fn doubled(value: u64, times: u32) -> u64 {
    match 1_u64.checked_shl(times) {
        Some(factor) => value.saturating_mul(factor),
        None => u64::MAX,
    }
}

error_enum! {
    /// Reason that a backoff cannot be built.
    pub enum InvalidBackoff {
        /// The base is zero and would never grow.
        NoBase = "a backoff from 0 would retry at once for ever: use a base above 0",
        /// The cap is below the base.
        CapBelowBase = "the longest backoff is below the first: raise the cap",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // 1.5 s doubles to 24 s at the fifth retry; the sixth would be 48 s and is capped.
    #[test]
    fn the_longest_wait_doubles_up_to_its_cap() {
        let longest = |retry| Backoff::default().delay(retry, u64::MAX).as_millis();
        let expected = [1_500, 1_500, 3_000, 6_000, 12_000, 24_000, 30_000, 30_000];
        for (retry, millis) in (0..).zip(expected) {
            assert_eq!(longest(retry), millis, "retry {retry}");
        }
    }

    // Shifts by 63, 64 and 65 bits are where doubling would wrap or trap.
    #[test]
    fn no_attempt_overflows() {
        for retry in [0, 1, 40, 63, 64, 65, 66, 1_100, u32::MAX] {
            for backoff in [
                Backoff::default(),
                Backoff::full_jitter(Duration::from_nanos(1), Duration::MAX).expect("valid"),
                Backoff::added_jitter(Duration::MAX, Duration::MAX, Duration::MAX).expect("valid"),
            ] {
                let (low, high) = (backoff.delay(retry, 0), backoff.delay(retry, u64::MAX));
                assert!(low <= high && high <= backoff.cap, "retry {retry}");
            }
        }
    }

    // Half a second, doubled three times, is 4 s; up to 100 ms are added.
    #[test]
    fn added_jitter_extends_the_minimum_wait() {
        let (base, jitter) = (Duration::from_millis(500), Duration::from_millis(100));
        let backoff = Backoff::added_jitter(base, jitter, Duration::from_secs(30)).expect("valid");
        assert_eq!(backoff.delay(1, 0), base);
        assert_eq!(backoff.delay(4, 0), Duration::from_secs(4));
        assert_eq!(backoff.delay(4, u64::MAX), Duration::from_millis(4_100));
        assert_eq!(backoff.delay(90, u64::MAX), Duration::from_millis(30_100));
    }

    #[test]
    fn a_draw_reaches_both_bounds() {
        for max in [0, 1, 2, 1_000, u64::MAX] {
            assert_eq!(uniform(max, 0), 0);
            assert_eq!(uniform(max, u64::MAX), max);
        }
    }

    #[test]
    fn impossible_backoffs_cannot_be_built() {
        let second = Duration::from_secs(1);
        assert_eq!(
            Backoff::full_jitter(Duration::ZERO, second),
            Err(InvalidBackoff::NoBase)
        );
        assert_eq!(
            Backoff::added_jitter(second * 2, second, second),
            Err(InvalidBackoff::CapBelowBase)
        );
    }
}
