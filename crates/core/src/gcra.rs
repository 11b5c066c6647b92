//! The arithmetic of a token bucket.
//!
//! Time is scaled by the rate's quantity, so that a token is a whole number of units (the rate's
//! span in nanoseconds) and nothing is ever rounded. Products of two 64-bit numbers fit 128 bits;
//! everything here compares backlogs instead of sums, because a sum of two such products would not.

use crate::{Limit, Rate};

/// A bucket's rule: `quantity` tokens per `per` nanoseconds, up to `burst` saved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gcra {
    pub(crate) quantity: u64,
    pub(crate) per: u64,
    pub(crate) burst: u64,
}

/// What a bucket answers: when it is full again if the cost is taken now, or when to come back.
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

    /// Whether `cost` can be taken at `now` from a bucket that is full at `full_at`.
    #[inline]
    pub(crate) fn level(self, full_at: u128, now: u64, cost: u64) -> BucketLevel {
        let Some(spare) = self.burst.checked_sub(cost) else {
            return BucketLevel::Never;
        };
        let room = u128::from(spare) * u128::from(self.per);
        let now_scaled = self.scale(now);
        let backlog = full_at.saturating_sub(now_scaled);
        if backlog <= room {
            return match now_scaled.checked_add(backlog + self.span_of(cost)) {
                Some(full_at) => BucketLevel::Enough { full_at },
                None => BucketLevel::Never,
            };
        }
        match u64::try_from((full_at - room).div_ceil(u128::from(self.quantity))) {
            Ok(at) => BucketLevel::WaitUntil(at),
            Err(_) => BucketLevel::Never,
        }
    }

    /// An instant in scaled time.
    pub(crate) fn scale(self, now: u64) -> u128 {
        u128::from(now) * u128::from(self.quantity)
    }

    /// How long `tokens` take to refill, in scaled time.
    pub(crate) fn span_of(self, tokens: u64) -> u128 {
        u128::from(tokens) * u128::from(self.per)
    }

    /// How long one token takes to refill in nanoseconds, rounded up.
    pub(crate) const fn token_nanos(self) -> u64 {
        self.per.div_ceil(self.quantity)
    }

    /// What has not refilled yet of `cost` tokens behind which `behind` more were taken. Tokens
    /// refill in the order in which they were taken, so the end of the backlog is not theirs.
    pub(crate) fn unfilled(self, backlog: u128, behind: u64, cost: u64) -> u128 {
        backlog
            .saturating_sub(self.span_of(behind))
            .min(self.span_of(cost))
    }

    /// The same number of missing tokens, in the scale of another rule; never fewer of them.
    pub(crate) fn rescale(self, backlog: u128, other: Self) -> u128 {
        let (ours, theirs) = (u128::from(self.per), u128::from(other.per));
        let (tokens, rest) = (backlog / ours, backlog % ours);
        tokens
            .saturating_mul(theirs)
            .saturating_add((rest * theirs).div_ceil(ours))
    }
}
