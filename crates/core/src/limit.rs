//! A provider's rule, valid by construction.
//!
//! A [`Limit`] is configuration: a quantity, a window, and how both are counted. Its live state is
//! a
//! [`Meter`](crate::Meter). The separation lets a running meter take another limit.

use core::time::Duration;

use crate::time::span_nanos;
use crate::{CountBy, Rate};

/// Weight of one request, in the unit of its limits: calls, points, tokens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cost(u64);

impl Cost {
    /// A free request, which always passes where costs are counted.
    pub const ZERO: Self = Self(0);
    /// An ordinary request.
    pub const ONE: Self = Self(1);

    /// Builds the cost of a request with this weight.
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// Returns the weight in units.
    pub const fn units(self) -> u64 {
        self.0
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

/// Way in which the quantity of a limit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitKind {
    /// Each unit returns one window after it was taken. Never more than the limit in **any** window;
    /// choose it when the provider's own windows are unknown.
    Sliding,
    /// All units return together when a window that began with the first use ends.
    Fixed,
    /// All units return together at whole multiples of the window in UTC (every full minute, say).
    Aligned,
    /// Units return one by one, evenly; up to `burst` of them can be saved.
    Bucket {
        /// Maximum number of saved units, at least 1.
        burst: u64,
    },
}

named_enum! {
    /// Moment of a request that counts against a limit.
    #[derive(Default)]
    pub enum Accounting {
        /// The moment of sending: simple, and wrong by the network's jitter.
        Send = "send",
        /// All the time in flight, and one window from the response: never over the limit at the
        /// server, on any network.
        Safe = "safe",
        /// All the time in flight, and one window from the latest possible arrival, given the
        /// [lowest round trip](crate::MinRtt). On a quiet path it has full speed, and with jitter, drift
        /// or rare fast responses at most one refusal in 10,000 requests. If the base latency of the
        /// whole path drops at once, a window's worth of requests can be refused.
        #[default]
        Tight = "tight",
    }
}

impl Accounting {
    /// Returns the accounting that suits a window. In windows of ten seconds and more `Safe` costs
    /// hardly any speed, while the latency of a path can fall by more than the margin of `Tight`.
    pub const fn for_window(rate: Rate) -> Self {
        if rate.per_nanos() >= LONG_WINDOW_NANOS {
            Self::Safe
        } else {
            Self::Tight
        }
    }
}

/// Distance between allowed requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pacing {
    /// Send as soon as it is allowed.
    #[default]
    Off,
    /// Spread the remaining quantity over the remaining time, waiting at most `max_delay`.
    Soft {
        /// Longest wait that pacing may add.
        max_delay: Duration,
    },
}

impl Pacing {
    /// Soft pacing with the default cap of half a second.
    pub const SOFT: Self = Self::Soft {
        max_delay: Duration::from_millis(500),
    };
}

/// Share between 0 and 1, in parts per million.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Share(u32);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// All of it.
    pub const ALL: Self = Self(1_000_000);

    /// Builds a share of `percent` hundredths; more than 100 is 100.
    pub const fn percent(percent: u32) -> Self {
        Self::parts_per_million(percent.saturating_mul(10_000))
    }

    /// Builds a share of `parts` in a million; more than a million is a million.
    pub const fn parts_per_million(parts: u32) -> Self {
        if parts > 1_000_000 { Self::ALL } else { Self(parts) }
    }

    /// Returns the share in parts per million.
    pub const fn as_parts_per_million(self) -> u32 {
        self.0
    }

    /// Returns true if `part` of `whole` is less than this share. Zero of zero is less than any.
    pub fn is_above(self, part: u64, whole: u64) -> bool {
        u128::from(part) * 1_000_000 < u128::from(whole) * u128::from(self.0) || (whole == 0 && self.0 > 0)
    }
}

/// Valid rule: a quantity per window, how it returns and how it is counted.
///
/// ```
/// use outflow_core::{Accounting, Limit};
///
/// let limit = Limit::sliding("100/min".parse()?).counted(Accounting::Safe);
/// assert_eq!(limit.capacity(), 100);
/// # Ok::<(), outflow_core::InvalidRate>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    rate: Rate,
    kind: LimitKind,
    accounting: Accounting,
    guard: Duration,
    pacing: Pacing,
    warn_below: Option<Share>,
    measure: CountBy,
}

impl Limit {
    /// Builds an exact sliding window. Choose it when in doubt: it stays within any windows the
    /// server may use.
    pub const fn sliding(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Sliding)
    }

    /// Builds a window that begins with its first use.
    pub const fn fixed(rate: Rate) -> Self {
        Self::new(rate, LimitKind::Fixed)
    }

    /// Builds a window that begins at whole multiples of its length in UTC, as with APIs that reset
    /// at `:00`.
    ///
    /// # Errors
    /// If a day is not a whole number of windows: such a window has no defined start.
    pub const fn aligned(rate: Rate) -> Result<Self, InvalidLimit> {
        if !DAY_NANOS.is_multiple_of(rate.per_nanos()) {
            return Err(InvalidLimit::Unalignable);
        }
        Ok(Self::new(rate, LimitKind::Aligned))
    }

    /// Builds a token bucket that refills at `rate` and saves up to `burst`. In one window it
    /// passes up to `burst` plus the rate; add a sliding limit where that is too much.
    ///
    /// # Errors
    /// If `burst` is zero: no request could pass.
    pub const fn bucket(rate: Rate, burst: u64) -> Result<Self, InvalidLimit> {
        if burst == 0 {
            return Err(InvalidLimit::NoBurst);
        }
        Ok(Self::new(rate, LimitKind::Bucket { burst }))
    }

    /// Sets the moment of a request that counts.
    #[must_use]
    pub const fn counted(mut self, accounting: Accounting) -> Self {
        self.accounting = accounting;
        self
    }

    /// Sets the quantity that counts, instead of costs.
    #[must_use]
    pub const fn measured_in(mut self, measure: CountBy) -> Self {
        self.measure = measure;
        self
    }

    /// Sets the margin of [`Accounting::Tight`]. Choose about the jitter of the machine's timers; 2
    /// ms by default.
    #[must_use]
    pub const fn guarded(mut self, guard: Duration) -> Self {
        self.guard = guard;
        self
    }

    /// Sets the pacing.
    #[must_use]
    pub const fn paced(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// Sets the share of remaining quota below which one warning is reported.
    #[must_use]
    pub const fn warning_below(mut self, share: Share) -> Self {
        self.warn_below = Some(share);
        self
    }

    /// Changes the rate, as health or evidence demand. A bucket's burst shrinks with its rate,
    /// never below 1. An aligned window keeps its edges and may span several of them.
    #[must_use]
    pub fn with_rate(mut self, rate: Rate) -> Self {
        match &mut self.kind {
            LimitKind::Bucket { burst } => *burst = burst_at(*burst, self.rate, rate),
            LimitKind::Aligned => {
                return Self {
                    rate: rate.in_whole_spans_of(self.rate),
                    ..self
                };
            }
            LimitKind::Sliding | LimitKind::Fixed => {}
        }
        self.rate = rate;
        self
    }

    /// Returns the quantity and its window.
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Returns how the quantity returns.
    pub const fn kind(&self) -> LimitKind {
        self.kind
    }

    /// Returns the moment of a request that counts.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Returns the quantity that counts.
    pub const fn measure(&self) -> CountBy {
        self.measure
    }

    /// Returns the margin of [`Accounting::Tight`].
    pub const fn guard(&self) -> Duration {
        self.guard
    }

    /// Returns the pacing.
    pub const fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Returns the share below which a warning is due.
    pub const fn warn_below(&self) -> Option<Share> {
        self.warn_below
    }

    /// Returns the maximum that can be taken at one instant. A request that counts more can never
    /// pass.
    pub const fn capacity(&self) -> u64 {
        match self.kind {
            LimitKind::Bucket { burst } => burst,
            LimitKind::Sliding | LimitKind::Fixed | LimitKind::Aligned => self.rate.quantity(),
        }
    }

    const fn new(rate: Rate, kind: LimitKind) -> Self {
        Self {
            rate,
            kind,
            accounting: Accounting::for_window(rate),
            guard: DEFAULT_GUARD,
            pacing: Pacing::Off,
            warn_below: None,
            measure: CountBy::Cost,
        }
    }
}

/// Ten seconds.
const LONG_WINDOW_NANOS: u64 = 10_000_000_000;

fn burst_at(burst: u64, from: Rate, to: Rate) -> u64 {
    if to.cmp_speed(from).is_ge() {
        return burst;
    }
    let slower = u128::from(to.quantity()) * u128::from(from.per_nanos());
    let faster = u128::from(from.quantity()) * u128::from(to.per_nanos());
    let scaled = match u128::from(burst).checked_mul(slower) {
        Some(product) => product / faster,
        // Too large to multiply: half of the bits give the ratio well enough, rounded down.
        None => u128::from(burst) * (slower >> 64) / ((faster >> 64) + 1),
    };
    u64::try_from(scaled).unwrap_or(u64::MAX).clamp(1, burst)
}

/// About the jitter of an ordinary machine's timers.
const DEFAULT_GUARD: Duration = Duration::from_millis(2);

const DAY_NANOS: u64 = span_nanos(Duration::from_hours(24));

error_enum! {
    /// Reason that a limit cannot be built.
    pub enum InvalidLimit {
        /// A bucket that holds nothing.
        NoBurst = "a bucket of 0 would refuse every call: use a burst of at least 1",
        /// A day is not a whole number of these windows.
        Unalignable = "an aligned window must divide a day evenly: use 1s, 1min, 1h, 1d or the like",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> Rate {
        text.parse().expect("valid")
    }

    #[test]
    fn impossible_limits_cannot_be_built() {
        assert_eq!(Limit::bucket(rate("10/s"), 0), Err(InvalidLimit::NoBurst));
        assert_eq!(Limit::aligned(rate("10/7s")), Err(InvalidLimit::Unalignable));
        for even in ["10/s", "10/min", "10/h", "10/d", "10/15min", "10/100ms"] {
            assert!(Limit::aligned(rate(even)).is_ok(), "{even}");
        }
    }

    #[test]
    fn a_slower_bucket_saves_less_but_at_least_one() {
        let bucket = Limit::bucket(rate("40/s"), 40).expect("valid");
        assert_eq!(bucket.with_rate(rate("20/s")).capacity(), 20);
        assert_eq!(bucket.with_rate(rate("1/h")).capacity(), 1);
        assert_eq!(bucket.with_rate(rate("80/s")).capacity(), 40);
        let max = Rate::new(u64::MAX, Duration::from_nanos(u64::MAX)).expect("positive");
        let vast = Limit::bucket(max, u64::MAX).expect("valid");
        let half = vast.with_rate(max.scaled(510_000)).capacity();
        assert!(half > u64::MAX / 2 && half < u64::MAX / 100 * 52, "{half}");
    }

    // 0.97 of one a second is one in two seconds where the server's seconds have edges; of ten it
    // is nine within the original edges.
    #[test]
    fn an_aligned_window_keeps_its_edges_when_it_slows_down() {
        let aligned = |text: &str| Limit::aligned(rate(text)).expect("even");
        let slowed = |text: &str| aligned(text).with_rate(rate(text).scaled(970_000)).rate();
        assert_eq!(slowed("1/s"), rate("1/2s"));
        assert_eq!(slowed("10/s"), rate("9/s"));
    }

    #[test]
    fn a_share_compares_without_rounding() {
        let fifth = Share::percent(20);
        assert!(fifth.is_above(19, 100));
        assert!(!fifth.is_above(20, 100));
        assert!(Share::ALL.is_above(u64::MAX - 1, u64::MAX));
        assert!(!Share::ALL.is_above(u64::MAX, u64::MAX));
    }
}
