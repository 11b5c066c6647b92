//! The arithmetic of a token bucket.
//!
//! Time is scaled by the rate's quantity, so that a token is a whole number of units (the rate's
//! span in nanoseconds) and nothing is rounded. Products of two 64-bit numbers fit 128 bits. All
//! comparisons use backlogs instead of sums, because a sum of two such products would not fit.

use crate::{Limit, Rate};

/// Rule of a bucket: `quantity` tokens per `per` nanoseconds, up to `burst` saved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gcra {
    pub(crate) quantity: u64,
    pub(crate) per: u64,
    pub(crate) burst: u64,
}

/// Answer of a bucket: the time at which it is full again after the cost is taken, or the time to
/// come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketLevel {
    Enough { full_at: u128 },
    WaitUntil(u64),
    Never,
}

impl Gcra {
    pub(crate) const fn new(rate: Rate, burst: u64) -> Self {
        Self {
            quantity: rate.quantity(),
            per: rate.per_nanos(),
            burst,
        }
    }

    pub(crate) const fn from_limit(limit: &Limit) -> Self {
        Self::new(limit.rate(), limit.capacity())
    }

    /// Decides if `cost` can be taken at `now` from a bucket that is full at `full_at`.
    #[inline]
    pub(crate) fn level(self, full_at: u128, now: u64, cost: u64) -> BucketLevel {
        let Some(spare) = self.burst.checked_sub(cost) else {
            return BucketLevel::Never;
        };
        let available = u128::from(spare) * u128::from(self.per);
        let now_scaled = self.scale(now);
        let backlog = full_at.saturating_sub(now_scaled);
        if backlog <= available {
            return match now_scaled.checked_add(backlog + self.span_of(cost)) {
                Some(full_at) => BucketLevel::Enough { full_at },
                None => BucketLevel::Never,
            };
        }
        match u64::try_from((full_at - available).div_ceil(u128::from(self.quantity))) {
            Ok(at) => BucketLevel::WaitUntil(at),
            Err(_) => BucketLevel::Never,
        }
    }

    /// Converts an instant to scaled time.
    pub(crate) fn scale(self, now: u64) -> u128 {
        u128::from(now) * u128::from(self.quantity)
    }

    /// Returns the refill time of `tokens`, in scaled time.
    pub(crate) fn span_of(self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.per)
    }

    /// Returns the refill time of one token in nanoseconds, rounded up.
    pub(crate) const fn token_nanos(self) -> u64 {
        self.per.div_ceil(self.quantity)
    }

    /// Returns the unfilled part of `cost` tokens with `behind` more taken after them. Tokens
    /// refill in the order in which they were taken, so the end of the backlog is not theirs.
    pub(crate) fn unfilled(self, backlog: u128, behind: u64, cost: u64) -> u128 {
        backlog.saturating_sub(self.span_of(behind)).min(self.span_of(cost))
    }

    /// Converts a backlog to the scale of another rule, with the missing tokens rounded up.
    pub(crate) fn rescale(self, backlog: u128, other: Self) -> u128 {
        let (ours, theirs) = (u128::from(self.per), u128::from(other.per));
        let (tokens, rest) = (backlog / ours, backlog % ours);
        tokens
            .saturating_mul(theirs)
            .saturating_add((rest * theirs).div_ceil(ours))
    }
}
